// One pass over the input: is every number valid, and how far do the boxes reach?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "boxes/box.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

struct LabelRange {
  int64_t least = 0, greatest = 0;

  uint64_t span() const { return static_cast<uint64_t>(greatest) - static_cast<uint64_t>(least); }
};

// Bounds that hold for sizes and centres computed in double precision.
struct Extents {
  bool valid = true;    // every number and corner is finite and no size negative
  Interval sizes[2];    // width and height, of boxes that have size
  Interval centers[2];  // x and y
  LabelRange labels;
};

namespace detail {

template <class T>
struct RowExtremes {
  T least[4], greatest[4];  // of each column
  T least_size[2], greatest_size[2], most_negative_size;
  T finite;  // 0, or NaN if a number is not finite
};

// Works on the numbers in place, four per box, so that the loops over lanes become vector instructions. The size at a
// lane is the number two lanes further, in xyxy minus the number at the lane. It is correct for the first two lanes of
// a box, and not used for the other two.
template <BoxFormat format, class T>
HASHNMS_INLINE RowExtremes<T> scan_rows(const T* boxes, size_t count) {
  constexpr size_t kRows = 4, kLanes = 4 * kRows;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  T least[kLanes], greatest[kLanes], finite[kLanes], least_size[kLanes], greatest_size[kLanes], negative[kLanes];
  for (size_t k = 0; k < kLanes; ++k) {
    least[k] = least_size[k] = kInfinity;
    greatest[k] = -kInfinity;
    finite[k] = greatest_size[k] = negative[k] = 0;
  }
  T last_rows[kLanes + 2] = {};
  for (size_t begin = 0; begin < count; begin += kRows) {
    const T* rows = boxes + 4 * begin;
    if (begin + kRows >= count) {  // repeat the last row to fill the step
      for (size_t k = 0; k < kLanes; ++k) last_rows[k] = boxes[4 * std::min(begin + k / 4, count - 1) + k % 4];
      rows = last_rows;
    }
    for (size_t k = 0; k < kLanes; ++k) {
      const T value = rows[k];
      const T size = format == BoxFormat::xyxy ? rows[k + 2] - value : rows[k + 2];
      const T positive = size > 0 ? size : kInfinity;
      least[k] = value < least[k] ? value : least[k];
      greatest[k] = value > greatest[k] ? value : greatest[k];
      finite[k] += value * T(0);
      least_size[k] = positive < least_size[k] ? positive : least_size[k];
      greatest_size[k] = size > greatest_size[k] ? size : greatest_size[k];
      negative[k] = size < negative[k] ? size : negative[k];
    }
  }
  RowExtremes<T> all{{least[0], least[1], least[2], least[3]}, {greatest[0], greatest[1], greatest[2], greatest[3]},
                     {least_size[0], least_size[1]},           {greatest_size[0], greatest_size[1]},
                     std::min(negative[0], negative[1]),       finite[0] + finite[1] + finite[2] + finite[3]};
  for (size_t k = 4; k < kLanes; ++k) {
    const size_t column = k % 4;
    all.least[column] = std::min(all.least[column], least[k]);
    all.greatest[column] = std::max(all.greatest[column], greatest[k]);
    all.finite += finite[k];
    if (column >= 2) continue;
    all.least_size[column] = std::min(all.least_size[column], least_size[k]);
    all.greatest_size[column] = std::max(all.greatest_size[column], greatest_size[k]);
    all.most_negative_size = std::min(all.most_negative_size, negative[k]);
  }
  return all;
}

HASHNMS_VECTOR_CLONES static RowExtremes<float> scan_rows(BoxFormat format, const float* boxes, size_t count) {
  return format == BoxFormat::xyxy ? scan_rows<BoxFormat::xyxy>(boxes, count)
                                   : scan_rows<BoxFormat::xywh>(boxes, count);
}
HASHNMS_VECTOR_CLONES static RowExtremes<double> scan_rows(BoxFormat format, const double* boxes, size_t count) {
  return format == BoxFormat::xyxy ? scan_rows<BoxFormat::xyxy>(boxes, count)
                                   : scan_rows<BoxFormat::xywh>(boxes, count);
}

template <class T>
HASHNMS_INLINE bool all_finite_in_lanes(const T* values, size_t count) {
  constexpr size_t kLanes = 32;
  T lanes[kLanes] = {};
  size_t begin = 0;
  for (; begin + kLanes <= count; begin += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lanes[k] += values[begin + k] * T(0);
  }
  T total = 0;
  for (size_t k = 0; k < kLanes && begin > 0; ++k) total += lanes[k];
  for (; begin < count; ++begin) total += values[begin] * T(0);
  return total == 0;
}

// Whether the corners of finite boxes are finite, too: those of xywh and cxcywh can be beyond the greatest number.
// Where no box can reach so far, which the extremes say, the boxes are not read again.
template <class T>
bool corners_are_finite(const RowExtremes<T>& rows, const T* boxes, BoxFormat format, size_t count) {
  if (format == BoxFormat::xyxy) return true;
  const auto reach = [&](int axis) {
    return std::max(-rows.least[axis], rows.greatest[axis]) + rows.greatest_size[axis];
  };
  if (std::isfinite(reach(0)) && std::isfinite(reach(1))) return true;
  for (size_t row = 0; row < count; ++row) {
    const Corners<T> box = corners_of(boxes + 4 * row, format);
    if (!(std::isfinite(box.x1) && std::isfinite(box.y1) && std::isfinite(box.x2) && std::isfinite(box.y2)))
      return false;
  }
  return true;
}

}  // namespace detail

HASHNMS_VECTOR_CLONES static bool all_finite(const float* values, size_t count) {
  return detail::all_finite_in_lanes(values, count);
}
HASHNMS_VECTOR_CLONES static bool all_finite(const double* values, size_t count) {
  return detail::all_finite_in_lanes(values, count);
}

HASHNMS_VECTOR_CLONES static LabelRange range_of_labels(const int64_t* labels, size_t count) {
  LabelRange range{labels[0], labels[0]};
  for (size_t k = 1; k < count; ++k) {
    range.least = labels[k] < range.least ? labels[k] : range.least;
    range.greatest = labels[k] > range.greatest ? labels[k] : range.greatest;
  }
  return range;
}

// Extents that hold for both parts of the input.
inline Extents joined(const Extents& a, const Extents& b) {
  Extents both = a;
  const auto join = [](Interval& some, const Interval& other) {
    some = {std::min(some.least, other.least), std::max(some.greatest, other.greatest)};
  };
  both.valid &= b.valid;
  for (int axis = 0; axis < 2; ++axis) join(both.sizes[axis], b.sizes[axis]), join(both.centers[axis], b.centers[axis]);
  return both;
}

// Sizes are computed in T here and in double later: one step outwards covers the difference.
template <class T>
Extents extents_of(const T* boxes, BoxFormat format, const int64_t* labels, size_t count) {
  Extents extents;
  if (count == 0) return extents;
  const detail::RowExtremes<T> rows = detail::scan_rows(format, boxes, count);
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  extents.valid =
      rows.finite == 0 && rows.most_negative_size == 0 && detail::corners_are_finite(rows, boxes, format, count);
  for (int axis = 0; axis < 2; ++axis) {
    Interval& sizes = extents.sizes[axis];
    sizes.least = std::max(std::nextafter(rows.least_size[axis], T(0)), std::numeric_limits<T>::denorm_min());
    sizes.greatest = std::nextafter(rows.greatest_size[axis], kInfinity);
    // A centre lies between the corners; in xywh it lies half a width from x.
    const bool corners = format == BoxFormat::xyxy;
    const double reach = format == BoxFormat::xywh ? 0.5 * sizes.greatest : 0.0;
    extents.centers[axis] = {static_cast<double>(rows.least[axis]),
                             static_cast<double>(rows.greatest[corners ? axis + 2 : axis]) + reach};
  }
  if (labels) extents.labels = range_of_labels(labels, count);
  return extents;
}

}  // namespace hashnms
