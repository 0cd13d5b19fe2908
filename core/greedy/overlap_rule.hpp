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
  T threshold;  // a box is suppressed if the metric in T is above it
  // If one box suppresses another, their exact IoU is at least this, whatever the rounding. It is 0 if the threshold is
  // too low to limit sizes. It is also 0 for IoS, where a small box may lie in any large one. Then it is only certain
  // that the boxes intersect.
  double least_iou;
  double least_ios;   // the same of IoS; 0 for other metrics
  Interval sizes[2];  // of the boxes: width and height
  Interval centers[2];
  bool ordinary_sizes;  // no box is so small or so large that T rounds its area coarsely

  static OverlapRule of(Metric metric, double threshold, const Extents& extents) {
    const Interval& widths = extents.sizes[0];
    const Interval& heights = extents.sizes[1];
    const bool ordinary = is_ordinary(widths.least, heights.least) && is_ordinary(widths.greatest, heights.greatest);
    // The limit of 1 - 2^-20 keeps the size classes of the grid apart. Usually, T rounds areas and intersections by a
    // few units in the last place. Near the least positive T, the error is up to half of that number: an area of 1 may
    // be 1.5 in truth, and an intersection of 1 may be 0.5. Then IoU > t in T only guarantees an exact IoU of
    // t / (3 + 2t), and IoS > t no less. DIoU is at most IoU.
    const double compared = std::min(threshold, 1.0 - 0x1p-20);
    const double least = ordinary ? compared : compared / (3.0 + 2.0 * compared);
    const double rounded = least * (1.0 - 64.0 * std::numeric_limits<T>::epsilon());
    const double useful = threshold >= kLeastUseful ? rounded : 0.0;
    const bool is_ios = metric == Metric::ios;
    return {metric,
            rounded_down<T>(threshold),
            is_ios ? 0.0 : useful,
            is_ios ? useful : 0.0,
            {widths, heights},
            {extents.centers[0], extents.centers[1]},
            ordinary};
  }

  // Whether an area, and an intersection of kLeastUseful of it, is rounded only in its last place.
  static bool is_ordinary(double width, double height) {
    const auto in_range = [](double size) { return size >= 0x1p-900 && size <= 0x1p900; };
    return in_range(width) && in_range(height) &&
           width * height >= 0x1p10 / kLeastUseful * std::numeric_limits<T>::min();
  }

 private:
  static constexpr double kLeastUseful = 0x1p-10;
};

}  // namespace hashnms
