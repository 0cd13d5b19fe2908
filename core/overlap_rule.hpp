// When one box suppresses another, and what that says about their sizes and places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "box.hpp"
#include "extents.hpp"

namespace hashnms {

template <class T>
struct OverlapRule {
  T threshold;  // a box is suppressed where the IoU in T is above it
  // Two boxes of ordinary sizes then have at least this IoU in real numbers; of boxes of other sizes, whose areas T
  // rounds coarsely, only some intersection is certain. 0: so it is with all, the threshold is too low to be of use.
  double certain;
  Range sizes[2];         // of the boxes: width and height
  int shape_octaves = 1;  // of sizes that KeptPyramid treats alike,
  size_t num_shapes = 1;  // and how many shapes that gives

  static OverlapRule of(double threshold, const Extents& extents) {
    // Up to rounding; and no closer to 1 than tells the sizes of neighbouring classes well apart.
    const double certain = std::min(threshold, 1.0 - 0x1p-20) * (1.0 - 64.0 * std::numeric_limits<T>::epsilon());
    return {
        rounded_down<T>(threshold), threshold >= 1.0 / kUseful ? certain : 0.0, {extents.sizes[0], extents.sizes[1]}};
  }

  // The same for boxes of any size.
  OverlapRule without_certainty() const {
    OverlapRule rule = *this;
    rule.certain = 0.0;
    return rule;
  }

  // Whether the box is of an ordinary size, and so is every box that it can suppress or that can suppress it.
  static bool is_safe(const Corners<T>& box) { return is_ordinary(box.x2 - box.x1, box.y2 - box.y1, 2.0 * kUseful); }
  // Whether it is of an ordinary size itself.
  static bool is_ordinary(const Corners<T>& box) { return is_ordinary(box.x2 - box.x1, box.y2 - box.y1, 1.0); }
  // Whether all boxes are, or it does not matter.
  bool all_are_safe() const {
    if (certain == 0.0) return true;
    return is_ordinary(sizes[0].least, sizes[1].least, 2.0 * kUseful) &&
           is_ordinary(sizes[0].greatest, sizes[1].greatest, 2.0 * kUseful);
  }

 private:
  static constexpr double kUseful = 0x1p10;  // 1 / the least threshold that says something about sizes

  static bool is_ordinary(double width, double height, double margin) {
    const auto in_range = [=](double size) { return size >= 0x1p-900 * margin && size <= 0x1p900 / margin; };
    return in_range(width) && in_range(height) &&
           width * height >= 0x1p10 * kUseful * margin * std::numeric_limits<T>::min();
  }
};

}  // namespace hashnms
