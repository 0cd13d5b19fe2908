// The boxes that take part, by decreasing score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "box.hpp"
#include "label_ids.hpp"
#include "large_array.hpp"
#include "rank.hpp"

namespace hashnms {

// The arrays of a call, as they came; labels may be null.
template <class T, class Score>
struct Input {
  const T* boxes;
  BoxFormat format;
  const Score* scores;
  const int64_t* labels;
  size_t count;

  Corners<T> corners(size_t row) const { return corners_of(boxes + 4 * row, format); }
  Claim<Score> claim(size_t row) const { return {scores[row], static_cast<uint32_t>(row)}; }
  // The k-th row of a sample: scattered, but the same in every run.
  size_t sampled_row(size_t k) const { return (k * 0x9e3779b97f4a7c15u >> 32) * count >> 32; }
};

// Those kept are moved to the front as they are found, so that at any time the first `kept` are the kept ones, and
// those from `next` on are still to be looked at.
template <class T>
struct RankedBoxes {
  LargeArray<Corners<T>> corners;
  LargeArray<LabelId<T>> labels;
  LargeArray<uint32_t> rows;  // in the input
  size_t next = 0, kept = 0;

  explicit RankedBoxes(size_t count) : corners(count), labels(count), rows(count) {}

  template <class Score>
  RankedBoxes(const Input<T, Score>& input, const LabelIds<T>& ids, Claims<Score> claims) : RankedBoxes(claims.size()) {
    sort_claims(claims);
    for (size_t k = 0; k < claims.size(); ++k) {
      if (k + kAhead < claims.size()) prefetch(input.boxes + 4 * size_t{claims[k + kAhead].box()});
      const uint32_t row = claims[k].box();
      corners[k] = input.corners(row);
      labels[k] = ids[row];
      rows[k] = row;
    }
  }

  static constexpr size_t kAhead = 16;  // boxes whose numbers are fetched before they are needed

  // Moves a box to the front.
  void keep(const Corners<T>& box, LabelId<T> label, uint32_t row) {
    corners[kept] = box;
    labels[kept] = label;
    rows[kept++] = row;
  }
  bool done() const { return next == corners.size(); }
};

}  // namespace hashnms
