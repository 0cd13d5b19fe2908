// A box as its four numbers, in any of the three formats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/dispatch.hpp"
#include "support/work.hpp"

namespace hashnms {

enum class BoxFormat : int { xyxy = 0, xywh = 1, cxcywh = 2 };

// From the least to the greatest; empty at first.
struct Interval {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();

  double farthest() const { return std::max(std::abs(least), std::abs(greatest)); }
};

// Size and centre along an axis (0: x, 1: y), in double precision: float32 would be off by half a cell 10^7 cells
// from the origin.
template <BoxFormat format, class T>
HASHNMS_INLINE double size_of(const T* row, int axis) {
  const double first = row[axis], second = row[axis + 2];
  return format == BoxFormat::xyxy ? second - first : second;
}

template <BoxFormat format, class T>
HASHNMS_INLINE double center_of(const T* row, int axis) {
  const double first = row[axis], second = row[axis + 2];
  return format == BoxFormat::xyxy   ? 0.5 * first + 0.5 * second
         : format == BoxFormat::xywh ? first + 0.5 * second
                                     : first;
}

template <class T>
double size_along(int axis, const T* row, BoxFormat format) {
  return format == BoxFormat::xyxy ? size_of<BoxFormat::xyxy>(row, axis) : size_of<BoxFormat::xywh>(row, axis);
}

template <class T>
double center_along(int axis, const T* row, BoxFormat format) {
  return format == BoxFormat::xyxy   ? center_of<BoxFormat::xyxy>(row, axis)
         : format == BoxFormat::xywh ? center_of<BoxFormat::xywh>(row, axis)
                                     : center_of<BoxFormat::cxcywh>(row, axis);
}

// Two opposite corners, in the boxes' own float type.
template <class T>
struct Corners {
  T x1, y1, x2, y2;

  HASHNMS_INLINE T area() const { return (x2 - x1) * (y2 - y1); }
  // Whether the area is positive and finite in T; otherwise no IoU of the box is above any threshold.
  HASHNMS_INLINE bool has_area() const { return area() > 0 && area() <= std::numeric_limits<T>::max(); }
};

template <class T>
inline Corners<T> corners_of(const T* row, BoxFormat format) {
  switch (format) {
    case BoxFormat::xywh:
      return {row[0], row[1], row[0] + row[2], row[1] + row[3]};
    case BoxFormat::cxcywh:
      return {row[0] - row[2] / 2, row[1] - row[3] / 2, row[0] + row[2] / 2, row[1] + row[3] / 2};
    default:
      return {row[0], row[1], row[2], row[3]};
  }
}

// A box with its score, and its row in some array.
template <class T, class Score>
struct ScoredBox {
  T corners[4];
  Score score;
  uint32_t row;

  Corners<T> box() const { return {corners[0], corners[1], corners[2], corners[3]}; }
};

// The area of the intersection, in T; never above the area of either box. Written so that compilers use maxima and
// minima instead of branches, which would be unpredictable.
template <class T>
HASHNMS_INLINE T intersection_of(const Corners<T>& a, const Corners<T>& b) {
  count_work();
  const T left = a.x1 > b.x1 ? a.x1 : b.x1, right = a.x2 < b.x2 ? a.x2 : b.x2;
  const T top = a.y1 > b.y1 ? a.y1 : b.y1, bottom = a.y2 < b.y2 ? a.y2 : b.y2;
  return ((right > left ? right : left) - left) * ((bottom > top ? bottom : top) - top);
}

// IoU in T, with the roundings of torchvision's CPU op. NaN, which is above nothing, for two boxes without area;
// never above 1.
template <class T>
HASHNMS_INLINE T iou(const Corners<T>& a, T area_a, const Corners<T>& b, T area_b) {
  const T intersection = intersection_of(a, b);
  return intersection / (area_a + area_b - intersection);
}

// The greatest T that is not above the threshold: a T is above one exactly when it is above the other.
template <class T>
inline T rounded_down(double threshold) {
  const T nearest = static_cast<T>(threshold);
  return static_cast<double>(nearest) > threshold ? std::nextafter(nearest, T(-1)) : nearest;
}

}  // namespace hashnms
