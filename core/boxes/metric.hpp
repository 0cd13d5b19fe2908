// Measures of how much two boxes overlap.
#pragma once

#include <limits>

#include "boxes/box.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

// Intersection over union; intersection over the smaller area; IoU minus a penalty for the distance of the centres.
enum class Metric : int { iou = 0, ios = 1, diou = 2 };

// The overlap in T; NaN, which is above nothing, for two boxes without area. Never above 1, and symmetric.
template <class T>
HASHNMS_INLINE T ios(const Corners<T>& a, T area_a, const Corners<T>& b, T area_b) {
  return intersection_of(a, b) / (area_a < area_b ? area_a : area_b);
}

// Distance-IoU (Zheng et al., 2020, Eqn. 7): the penalty is the squared distance of the centres over the squared
// diagonal of the enclosing box, in double, rounded once to T. Never above the IoU.
template <class T>
HASHNMS_INLINE T diou(const Corners<T>& a, T area_a, const Corners<T>& b, T area_b) {
  const double left = a.x1 < b.x1 ? a.x1 : b.x1, right = a.x2 > b.x2 ? a.x2 : b.x2;
  const double top = a.y1 < b.y1 ? a.y1 : b.y1, bottom = a.y2 > b.y2 ? a.y2 : b.y2;
  // Squares of lengths beyond 2^511 overflow. Dividing all lengths by a power of two does not change the quotient.
  const bool is_vast = sizeof(T) == 8 && ((right - left > 0x1p500) | (bottom - top > 0x1p500));
  const double unit = is_vast ? 0x1p-600 : 1.0;
  const double dx = unit * ((0.5 * a.x1 + 0.5 * a.x2) - (0.5 * b.x1 + 0.5 * b.x2));
  const double dy = unit * ((0.5 * a.y1 + 0.5 * a.y2) - (0.5 * b.y1 + 0.5 * b.y2));
  const double width = unit * right - unit * left, height = unit * bottom - unit * top;
  const double penalty = (dx * dx + dy * dy) / (width * width + height * height);
  return iou(a, area_a, b, area_b) - static_cast<T>(penalty);
}

template <Metric metric, class T>
HASHNMS_INLINE T overlap_of(const Corners<T>& a, T area_a, const Corners<T>& b, T area_b) {
  if constexpr (metric == Metric::ios) {
    return ios(a, area_a, b, area_b);
  } else if constexpr (metric == Metric::diou) {
    return diou(a, area_a, b, area_b);
  } else {
    return iou(a, area_a, b, area_b);
  }
}

// Whether the overlap is above a threshold. For scalar loops: DIoU is computed only if the IoU, which is never less, is
// above.
template <Metric metric, class T>
HASHNMS_INLINE bool overlaps_above(T threshold, const Corners<T>& a, T area_a, const Corners<T>& b, T area_b) {
  if (metric == Metric::diou && !(iou(a, area_a, b, area_b) > threshold)) return false;
  return overlap_of<metric>(a, area_a, b, area_b) > threshold;
}

// Whether a box can overlap any other by more than a threshold. An area that overflows T makes every IoU 0 or NaN, and
// is never the smaller one.
template <Metric metric, class T>
HASHNMS_INLINE bool can_overlap(const Corners<T>& box) {
  return metric == Metric::ios ? box.area() > 0 : box.has_area();
}

// Whether the area is so large that two such boxes never overlap: for IoS it has overflowed T, so that IoS is 0 or NaN;
// for IoU and DIoU the sum of two of them overflows.
template <Metric metric, class T>
HASHNMS_INLINE bool is_vast(T area) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  return area > (metric == Metric::ios ? kLargest : kLargest / 2);
}

// Calls use.operator()<metric>().
template <class Use>
HASHNMS_INLINE decltype(auto) with_metric(Metric metric, const Use& use) {
  switch (metric) {
    case Metric::ios:
      return use.template operator()<Metric::ios>();
    case Metric::diou:
      return use.template operator()<Metric::diou>();
    default:
      return use.template operator()<Metric::iou>();
  }
}

}  // namespace hashnms
