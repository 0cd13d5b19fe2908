// What a call decides before its first box: when boxes suppress each other, and which index finds them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "boxes/box.hpp"
#include "boxes/input.hpp"
#include "boxes/metric.hpp"
#include "boxes/scan.hpp"
#include "greedy/grid_geometry.hpp"
#include "greedy/overlap_rule.hpp"
#include "greedy/pyramid_shapes.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// Up to this many boxes, it is faster to compare each kept box with all boxes after it (few.hpp).
template <class T>
inline constexpr size_t kFewRanked = tuning::kFewBytesRanked / sizeof(T);

// Kept boxes are found by a list while they are few, then by a grid or a pyramid. The pyramid is used if the threshold
// is low, the metric is IoS, some areas are rounded coarsely, some are vast, or some boxes are too far from the origin.
template <class T>
struct Plan {
  OverlapRule<T> rule;
  bool uses_grid;
  PyramidShapes shapes;  // of the pyramid
  size_t few_kept;       // up to this many, the list is used

  template <class Score>
  static Plan of(const Input<T, Score>& input, Metric metric, double threshold, const Extents& extents) {
    Plan plan{OverlapRule<T>::of(metric, threshold, extents), false, {}, tuning::kFewKeptForPyramid};
    if (input.count <= kFewRanked<T>) return plan;  // they need no index
    if (plan.rule.ordinary_sizes && plan.rule.least_iou > tuning::kLeastIouOfGrid && !has_vast(input, extents)) {
      plan.uses_grid = all_near(input, extents, GridGeometry(plan.rule.least_iou));
    }
    if (plan.uses_grid) {
      plan.few_kept = tuning::kFewKeptForGrid;
    } else if (input.count > plan.few_kept) {
      plan.shapes = PyramidShapes::in(input, plan.rule.least_iou);
      plan.few_kept = std::max(plan.few_kept, tuning::kFewKeptPerShape * plan.shapes.count);
    }
    return plan;
  }

 private:
  // Whether many boxes are vast, judged by a sample. The grid would compare them with each other.
  template <class Score>
  static bool has_vast(const Input<T, Score>& input, const Extents& extents) {
    const double greatest_area = extents.sizes[0].greatest * extents.sizes[1].greatest;
    if (!(greatest_area > std::numeric_limits<T>::max() / 2)) return false;
    size_t vast = 0;
    for (size_t k = 0; k < 1024; ++k) vast += is_vast<Metric::iou>(input.corners(input.sampled_row(k)).area());
    return vast > 1;
  }

  // Whether all boxes are near enough to the origin for a grid: by the least size and the farthest centre of all, or,
  // if that is too strict, box by box.
  template <class Score>
  static bool all_near(const Input<T, Score>& input, const Extents& extents, const GridGeometry& geometry) {
    const auto near = [&](const Interval& sizes, const Interval& centers) {
      return geometry.covers(sizes.least, centers.farthest());
    };
    if (near(extents.sizes[0], extents.centers[0]) && near(extents.sizes[1], extents.centers[1])) return true;
    for (size_t row = 0; row < input.count; ++row) {
      const Corners<T> box = input.corners(row);
      const double x = 0.5 * box.x1 + 0.5 * box.x2, y = 0.5 * box.y1 + 0.5 * box.y2;
      if (box.has_area() && !(geometry.covers(double(box.x2) - double(box.x1), std::abs(x)) &&
                              geometry.covers(double(box.y2) - double(box.y1), std::abs(y)))) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace hashnms
