// What is decided about a call before its first box: when boxes suppress each other, and which index finds them.
#pragma once

#include <algorithm>
#include <cstddef>

#include "boxes/input.hpp"
#include "boxes/scan.hpp"
#include "greedy/grid_geometry.hpp"
#include "greedy/overlap_rule.hpp"
#include "greedy/pyramid_shapes.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// Kept boxes are found by a list while they are few; then by a grid, or by a pyramid where the threshold is low, some
// boxes have sizes that floats round coarsely, or some lie too far out for their size.
template <class T>
struct Plan {
  OverlapRule<T> rule;
  bool uses_grid;
  PyramidShapes shapes;  // of the pyramid
  size_t few_kept;       // up to so many the list serves

  template <class Score>
  static Plan of(const Input<T, Score>& input, double iou_threshold, const Extents& extents) {
    Plan plan{OverlapRule<T>::of(iou_threshold, extents), false, {}, tuning::kFewKeptForPyramid};
    if (plan.rule.ordinary_sizes && plan.rule.least_iou > tuning::kLeastIouOfGrid) {
      const GridGeometry geometry(plan.rule.least_iou);
      plan.uses_grid = geometry.covers(extents.sizes[0], extents.centers[0]) &&
                       geometry.covers(extents.sizes[1], extents.centers[1]);
    }
    if (plan.uses_grid) {
      plan.few_kept = tuning::kFewKeptForGrid;
    } else if (input.count > plan.few_kept) {
      plan.shapes = PyramidShapes::in(input, plan.rule.least_iou == 0.0);
      plan.few_kept = std::max(plan.few_kept, tuning::kFewKeptPerShape * plan.shapes.count);
    }
    return plan;
  }
};

}  // namespace hashnms
