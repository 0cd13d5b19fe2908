// When one box suppresses another, and what follows for their sizes and places.
#pragma once

#include <algorithm>
#include <limits>

#include "boxes/box.hpp"
#include "boxes/metric.hpp"
#include "boxes/scan.hpp"

namespace hashnms {

template <class T>
struct OverlapRule {
  Metric metric;
  T threshold;  // a box is suppressed where the metric in T is above it
  // Two boxes of which one suppresses the other have at least this IoU in real numbers, whatever the rounding. 0 where
  // the threshold is so low that it says nothing of use about sizes, and for IoS, where a small box may lie in any
  // large one: then all that is certain is that they intersect.
  double least_iou;
  double least_ios;     // the same of IoS; 0 for other metrics
  Interval sizes[2];    // of the boxes: width and height
  bool ordinary_sizes;  // all of them: neither so small nor so large that a float rounds them coarsely

  static OverlapRule of(Metric metric, double threshold, const Extents& extents) {
    const Interval& widths = extents.sizes[0];
    const Interval& heights = extents.sizes[1];
    const bool ordinary = is_ordinary(widths.least, heights.least) && is_ordinary(widths.greatest, heights.greatest);
    // No closer to 1 than tells the sizes of neighbouring classes well apart. T rounds areas and intersections by a few
    // parts in its last place; near its least number by half of that, so that an area of 1 may stand for one of 1.5
    // and an intersection of 1 for one of 0.5. Then IoU > t leaves t / (3 + 2t), and IoS > t no less. DIoU is at most
    // IoU.
    const double compared = std::min(threshold, 1.0 - 0x1p-20);
    const double least = ordinary ? compared : compared / (3.0 + 2.0 * compared);
    const double rounded = least * (1.0 - 64.0 * std::numeric_limits<T>::epsilon());
    const double useful = threshold >= kLeastUseful ? rounded : 0.0;
    const bool is_ios = metric == Metric::ios;
    return {metric,  rounded_down<T>(threshold), is_ios ? 0.0 : useful, is_ios ? useful : 0.0, {widths, heights},
            ordinary};
  }

 private:
  static constexpr double kLeastUseful = 0x1p-10;

  // Whether an area, and an intersection of kLeastUseful of it, is rounded only in its last place.
  static bool is_ordinary(double width, double height) {
    const auto in_range = [](double size) { return size >= 0x1p-900 && size <= 0x1p900; };
    return in_range(width) && in_range(height) &&
           width * height >= 0x1p10 / kLeastUseful * std::numeric_limits<T>::min();
  }
};

}  // namespace hashnms
