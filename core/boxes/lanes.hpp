// Several boxes in vector lanes, for vectorized loops.
#pragma once

#include <cstddef>

#include "boxes/box.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

inline constexpr size_t kTogether = 8;  // boxes per step of a loop

template <class T, size_t lanes>
struct BoxLanes {
  T x1[lanes], y1[lanes], x2[lanes], y2[lanes];

  HASHNMS_INLINE Corners<T> get(size_t k) const { return {x1[k], y1[k], x2[k], y2[k]}; }
  HASHNMS_INLINE void set(size_t k, const Corners<T>& box) {
    x1[k] = box.x1, y1[k] = box.y1, x2[k] = box.x2, y2[k] = box.y2;
  }
};

}  // namespace hashnms
