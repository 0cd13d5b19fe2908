// The boxes that take part, by decreasing score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "box.hpp"
#include "input.hpp"
#include "label_ids.hpp"
#include "large_array.hpp"
#include "rank.hpp"

namespace hashnms {

// Those kept are moved to the front as they are found, so that at any time the first `kept` are the kept ones, and
// those from `next` on are still to be looked at.
template <class T>
struct RankedBoxes {
  LargeArray<Corners<T>> corners;
  LargeArray<LabelId<T>> labels;  // empty if all boxes have one
  LargeArray<uint32_t> rows;      // in the input
  size_t next = 0, kept = 0;

  RankedBoxes(size_t count, bool labelled, Pages pages)
      : corners(count, Filled::no, pages),
        labels(labelled ? count : 0, Filled::no, pages),
        rows(count, Filled::no, pages) {}

  // Boxes whose claims are sorted.
  template <class Score>
  RankedBoxes(const Input<T, Score>& input, const LabelIds<T>& ids, const Claims<Score>& claims)
      : RankedBoxes(claims.size(), input.labels != nullptr, Pages::huge) {
    for (size_t k = 0; k < claims.size(); ++k) {
      if (k + kAhead < claims.size()) prefetch(input.boxes + 4 * size_t{claims[k + kAhead].box()});
      const uint32_t row = claims[k].box();
      corners[k] = input.corners(row);
      if (labelled()) labels[k] = ids[row];
      rows[k] = row;
    }
  }

  static constexpr size_t kAhead = 16;  // boxes whose numbers are fetched before they are needed

  // Moves a box to the front.
  void keep(const Corners<T>& box, LabelId<T> label, uint32_t row) {
    corners[kept] = box;
    if (labelled()) labels[kept] = label;
    rows[kept++] = row;
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

}  // namespace hashnms
