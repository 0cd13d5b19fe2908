// A box as its four numbers, in any of the three formats people store.
#pragma once

#include <limits>

#include "dispatch.hpp"

namespace hashnms {

enum class BoxFormat : int { xyxy = 0, xywh = 1, cxcywh = 2 };

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();
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
double size_of(const T* row, BoxFormat format, int axis) {
  return format == BoxFormat::xyxy ? size_of<BoxFormat::xyxy>(row, axis) : size_of<BoxFormat::xywh>(row, axis);
}

template <class T>
double center_of(const T* row, BoxFormat format, int axis) {
  return format == BoxFormat::xyxy   ? center_of<BoxFormat::xyxy>(row, axis)
         : format == BoxFormat::xywh ? center_of<BoxFormat::xywh>(row, axis)
                                     : center_of<BoxFormat::cxcywh>(row, axis);
}

}  // namespace hashnms
