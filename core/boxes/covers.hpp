// The cover of all boxes of a group, and a bound on how much one of them can overlap a given box.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "boxes/box.hpp"
#include "boxes/lanes.hpp"
#include "boxes/metric.hpp"
#include "support/dispatch.hpp"
#include "support/work.hpp"

namespace hashnms {

template <class T>
struct Cover {
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();
  Corners<T> box{kInfinity, kInfinity, -kInfinity, -kInfinity};
  T greatest_width = -kInfinity, greatest_height = -kInfinity, least_area = kInfinity;

  Cover() = default;  // covers nothing
  explicit Cover(const Corners<T>& one)
      : box(one), greatest_width(one.x2 - one.x1), greatest_height(one.y2 - one.y1), least_area(one.area()) {}

  void include(const Cover& other) {
    box.x1 = std::min(box.x1, other.box.x1), box.y1 = std::min(box.y1, other.box.y1);
    box.x2 = std::max(box.x2, other.box.x2), box.y2 = std::max(box.y2, other.box.y2);
    greatest_width = std::max(greatest_width, other.greatest_width);
    greatest_height = std::max(greatest_height, other.greatest_height);
    least_area = std::min(least_area, other.least_area);
  }
};

template <class T, size_t lanes>
struct CoverLanes {
  BoxLanes<T, lanes> boxes;
  T greatest_width[lanes], greatest_height[lanes], least_area[lanes];

  void set(size_t k, const Cover<T>& cover) {
    boxes.set(k, cover.box);
    greatest_width[k] = cover.greatest_width, greatest_height[k] = cover.greatest_height;
    least_area[k] = cover.least_area;
  }

  // The bits of the groups that may have a box which overlaps this one by more than a threshold. Rounding preserves
  // order: no intersection is above the bound from sizes and positions, and no union is below its bound by more than a
  // few units in the last place. DIoU is at most IoU.
  template <Metric metric>
  HASHNMS_INLINE uint32_t meeting(const Corners<T>& box, T threshold) const {
    static_assert(lanes <= 32);
    using Mask = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr T kMargin = 1 - 32 * std::numeric_limits<T>::epsilon();
    const auto least = [](T a, T b) HASHNMS_INLINE_LAMBDA { return a < b ? a : b; };
    const auto greatest = [](T a, T b) HASHNMS_INLINE_LAMBDA { return a > b ? a : b; };
    const T width = box.x2 - box.x1, height = box.y2 - box.y1, area = box.area();
    Mask mask = 0;
    count_work(lanes);
    for (size_t k = 0; k < lanes; ++k) {
      const T across = least(boxes.x2[k], box.x2) - greatest(boxes.x1[k], box.x1);
      const T down = least(boxes.y2[k], box.y2) - greatest(boxes.y1[k], box.y1);
      // The largest possible intersection, and the least that it is divided by.
      const T most = least(across, least(width, greatest_width[k])) * least(down, least(height, greatest_height[k]));
      // Areas whose sum overflows make it infinite, as in iou().
      const T divisor =
          metric == Metric::ios ? least(area, least_area[k]) : greatest(area + least_area[k] - most, area);
      // Minus the least normal number, because products below it are rounded coarsely.
      const T needed = divisor * (threshold * kMargin) - std::numeric_limits<T>::min();
      const bool meets = (across > T(0)) & (down > T(0)) & (most > needed);
      mask |= meets ? Mask(1) << k : Mask(0);
    }
    return static_cast<uint32_t>(mask);
  }
};

}  // namespace hashnms
