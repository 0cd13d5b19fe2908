// When one box suppresses another, and what that says about their sizes and places.
#pragma once

#include <algorithm>
#include <limits>

#include "box.hpp"
#include "extents.hpp"

namespace hashnms {

struct OverlapRule {
  double threshold;  // a box is suppressed where the IoU in T is above it
  // Its IoU in real numbers is then at least this much; 0 if only some intersection is certain: where areas are so
  // small that T rounds them coarsely, and at thresholds where it hardly matters.
  double certain;
  double greatest_size[2];  // of the boxes: width and height
  int shape_octaves = 1;    // of sizes that KeptPyramid treats alike

  template <class T>
  static OverlapRule of(double threshold, const Extents& extents) {
    const Range& widths = extents.sizes[0];
    const Range& heights = extents.sizes[1];
    const auto in_range = [](const Range& sizes) { return sizes.least >= 0x1p-900 && sizes.greatest <= 0x1p900; };
    const bool precise = threshold >= kLeastCertain && in_range(widths) && in_range(heights) &&
                         widths.least * heights.least >= 0x1p10 / kLeastCertain * std::numeric_limits<T>::min();
    return {threshold,
            precise ? threshold * (1.0 - 64.0 * std::numeric_limits<T>::epsilon()) : 0.0,
            {widths.greatest, heights.greatest}};
  }

 private:
  static constexpr double kLeastCertain = 0x1p-10;
};

}  // namespace hashnms
