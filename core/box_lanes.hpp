// Several boxes side by side, for loops that run in vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "box.hpp"
#include "decay.hpp"
#include "dispatch.hpp"

namespace hashnms {

template <class T, size_t lanes>
struct BoxLanes {
  T x1[lanes], y1[lanes], x2[lanes], y2[lanes];

  HASHNMS_INLINE Corners<T> get(size_t k) const { return {x1[k], y1[k], x2[k], y2[k]}; }
  HASHNMS_INLINE void set(size_t k, const Corners<T>& box) {
    x1[k] = box.x1, y1[k] = box.y1, x2[k] = box.x2, y2[k] = box.y2;
  }
};

// Where boxes can lie whose IoU with this one is above `harmless`: they meet it, and their areas are not too different.
template <class T>
struct Neighbourhood {
  Corners<T> box;
  T least_area, greatest_area;

  Neighbourhood(const Corners<T>& corners, T harmless) : box(corners) {
    // An intersection is never above either area, rounded or not: so an IoU is above the ratio of the areas by a few
    // units in the last place at most.
    constexpr T kMargin = 1 - 32 * std::numeric_limits<T>::epsilon();
    const T area = box.area();
    least_area = area * harmless * kMargin;
    if (least_area < std::numeric_limits<T>::min()) least_area = 0;  // where products are rounded coarsely
    greatest_area = area / (harmless * kMargin);
  }
};

// What covers all boxes of each of several groups.
template <class T, size_t lanes>
struct CoverLanes {
  BoxLanes<T, lanes> boxes;
  T least_area[lanes], greatest_area[lanes];

  // The bits of the groups that may have a box in the neighbourhood.
  HASHNMS_INLINE uint32_t meeting(const Neighbourhood<T>& place) const {
    using Mask = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    Mask mask = 0;
    for (size_t k = 0; k < lanes; ++k) {
      const bool meets = (boxes.x1[k] < place.box.x2) & (boxes.x2[k] > place.box.x1) & (boxes.y1[k] < place.box.y2) &
                         (boxes.y2[k] > place.box.y1) & (least_area[k] <= place.greatest_area) &
                         (greatest_area[k] >= place.least_area);
      mask |= meets ? Mask(1) << k : Mask(0);
    }
    return static_cast<uint32_t>(mask);
  }
};

namespace detail {

inline constexpr size_t kLeafBoxes = 32, kNodeChildren = 16, kPast = 16;

// Says that a score stays as it is.
template <class T>
inline constexpr T kUntouched = 2;

// Of each box, a bound of what some selected boxes leave of its score, or kUntouched.
template <class T, size_t lanes, class Decay>
HASHNMS_INLINE void bound_decays(const BoxLanes<T, lanes>& boxes, const Corners<T>* selected, const uint32_t* positions,
                                 size_t count, const Decay& given, T harmless, T* bounds) {
  const Decay decay = given;
  using Flag = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  T areas[lanes], all[lanes];
  Flag touched[lanes];
  for (size_t k = 0; k < lanes; ++k) areas[k] = (boxes.x2[k] - boxes.x1[k]) * (boxes.y2[k] - boxes.y1[k]);
  for (size_t k = 0; k < lanes; ++k) all[k] = Decay::template kNothing<T>, touched[k] = 0;
  for (size_t p = 0; p < count; ++p) {
    const Corners<T> box = selected[positions[p]];
    const T area = box.area();
    for (size_t k = 0; k < lanes; ++k) {
      const T overlap = iou(box, area, boxes.get(k), areas[k]);
      all[k] = Decay::combined(all[k], overlap > harmless ? overlap : T(0));
      touched[k] |= Flag(overlap > harmless);
    }
  }
  for (size_t k = 0; k < lanes; ++k) {
    const T bound = decay.at_most(all[k]);
    bounds[k] = touched[k] ? bound : kUntouched<T>;
  }
}

// The IoU of a box with up to kPast selected ones.
template <class T>
HASHNMS_INLINE void overlaps_of(const Corners<T>& box, const Corners<T>* selected, const uint32_t* positions,
                                size_t count, T* overlaps) {
  BoxLanes<T, kPast> others;
  const T area = box.area();
  for (size_t k = 0; k < kPast; ++k) others.set(k, selected[positions[k < count ? k : 0]]);
  for (size_t k = 0; k < kPast; ++k) overlaps[k] = iou(box, area, others.get(k), others.get(k).area());
}

#define HASHNMS_LANES(T)                                                                                               \
  HASHNMS_VECTOR_CLONES static uint32_t meeting_in_vectors(const CoverLanes<T, kNodeChildren>& covers,                 \
                                                           const Neighbourhood<T>& place) {                            \
    return covers.meeting(place);                                                                                      \
  }                                                                                                                    \
  HASHNMS_VECTOR_CLONES static void bound_in_vectors(const BoxLanes<T, kLeafBoxes>& boxes, const Corners<T>* selected, \
                                                     const uint32_t* positions, size_t count,                          \
                                                     const GaussianDecay& decay, T harmless, T* out) {                 \
    bound_decays(boxes, selected, positions, count, decay, harmless, out);                                             \
  }                                                                                                                    \
  HASHNMS_VECTOR_CLONES static void bound_in_vectors(const BoxLanes<T, kLeafBoxes>& boxes, const Corners<T>* selected, \
                                                     const uint32_t* positions, size_t count,                          \
                                                     const LinearDecay& decay, T harmless, T* out) {                   \
    bound_decays(boxes, selected, positions, count, decay, harmless, out);                                             \
  }                                                                                                                    \
  HASHNMS_VECTOR_CLONES static void overlaps_in_vectors(const Corners<T>& box, const Corners<T>* selected,             \
                                                        const uint32_t* positions, size_t count, T* overlaps) {        \
    overlaps_of(box, selected, positions, count, overlaps);                                                            \
  }

HASHNMS_LANES(float)
HASHNMS_LANES(double)
#undef HASHNMS_LANES

}  // namespace detail

}  // namespace hashnms
