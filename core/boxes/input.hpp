// The arrays of a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "boxes/box.hpp"
#include "boxes/claims.hpp"
#include "boxes/scan.hpp"

namespace hashnms {

// The arrays as given; labels and images may be null.
template <class T, class Score>
struct Input {
  const T* boxes;
  BoxFormat format;
  const Score* scores;
  const int64_t* labels;  // boxes with different labels are never compared
  const int64_t* images;  // nor are boxes of different images; limits count per image
  size_t count;

  Corners<T> corners(size_t row) const { return corners_of(boxes + 4 * row, format); }
  Claim<Score> claim(size_t row) const { return {scores[row], static_cast<uint32_t>(row)}; }
  // Whether every number is valid; for callers that do not need the extents.
  bool is_valid() const { return extents_of(boxes, format, nullptr, count).valid && all_finite(scores, count); }
  // The k-th row of a sample: scattered, but the same in every run.
  size_t sampled_row(size_t k) const { return (k * 0x9e3779b97f4a7c15u >> 32) * count >> 32; }
};

// Some of the boxes: all of them in order, or those that `rows` names.
template <class T>
struct BoxView {
  const T* boxes;
  BoxFormat format;
  const int64_t* labels;  // or null: all the same
  const uint32_t* rows;   // or null: all boxes
  size_t count;

  size_t row(size_t k) const { return rows ? rows[k] : k; }
};

}  // namespace hashnms
