// The boxes that take part in a call, by decreasing score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "boxes/box.hpp"
#include "boxes/claims.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "support/dispatch.hpp"
#include "support/interrupt.hpp"
#include "support/large_array.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// A kept box is identified by its position in the order of keeping; kNone means none.
inline constexpr uint32_t kNone = ~uint32_t(0);

template <class T>
struct RankedBox {
  Corners<T> corners;
  LabelId<T> label;
  uint32_t row;  // in the input
};

// Kept boxes are moved to the front. So at any time the first `kept` boxes are the kept ones, and the boxes from `next`
// on are not decided yet.
template <class T>
struct RankedBoxes {
  LargeArray<Corners<T>> corners;
  LargeArray<LabelId<T>> labels;  // empty if all boxes have one
  LargeArray<uint32_t> rows;      // in the input
  size_t next = 0, kept = 0;

  RankedBoxes(size_t count, bool labelled) : corners(count), labels(labelled ? count : 0), rows(count) {}

  // The boxes of sorted claims.
  template <class Score>
  RankedBoxes(const Input<T, Score>& input, const LabelIds<T>& ids, const Claims<Score>& claims)
      : RankedBoxes(claims.size(), input.labels != nullptr) {
    for_each_piece(claims.size(), [&](size_t begin, size_t end) {
      for (size_t k = begin; k < end; ++k) {
        const size_t ahead = k + tuning::kFetchedAhead;
        if (ahead < claims.size()) prefetch(input.boxes + 4 * size_t{claims[ahead].box()});
        const uint32_t row = claims[k].box();
        corners[k] = input.corners(row);
        if (labelled()) labels[k] = ids[row];
        rows[k] = row;
      }
    });
  }

  HASHNMS_INLINE RankedBox<T> operator[](size_t k) const { return {corners[k], label(k), rows[k]}; }

  // Moves a box to the front.
  HASHNMS_INLINE void keep(const RankedBox<T>& box) {
    corners[kept] = box.corners;
    if (labelled()) labels[kept] = box.label;
    rows[kept++] = box.row;
  }
  LargeArray<uint32_t> kept_rows() && {
    rows.shrink(kept);
    return std::move(rows);
  }
  size_t size() const { return corners.size(); }
  bool labelled() const { return labels.size() > 0; }
  LabelId<T> label(size_t k) const { return labelled() ? labels[k] : 0; }
  bool done() const { return next == corners.size(); }
};

// The greedy loop: calls visit(box, prepared, k) for the boxes from `next` on, until it returns false. An Index
// prepares its searches for several boxes at once; this one is the k-th of them.
template <class T, class Index, class Visit>
HASHNMS_INLINE void for_each_ranked(RankedBoxes<T>& boxes, const Index& index, const Visit& visit) {
  using Prepared = typename Index::Prepared;
  constexpr size_t kVisitsPerCheck = 256;  // a visit may search thousands of boxes
  Prepared prepared;
  for (size_t k = Prepared::kBoxes; !boxes.done(); ++boxes.next, ++k) {
    if (k == Prepared::kBoxes) {
      index.prepare(boxes, boxes.next, prepared);
      k = 0;
    }
    if (boxes.next % kVisitsPerCheck == kVisitsPerCheck - 1) Interrupt::check();
    if (!visit(boxes[boxes.next], prepared, k)) return;
  }
}

}  // namespace hashnms
