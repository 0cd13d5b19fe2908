// The effect of selected boxes on many others, vectorized: which they may overlap, by how much, and an upper bound of
// the remaining scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "boxes/box.hpp"
#include "boxes/covers.hpp"
#include "boxes/lanes.hpp"
#include "boxes/metric.hpp"
#include "soft/decay.hpp"
#include "support/dispatch.hpp"
#include "support/tuning.hpp"

namespace hashnms {

namespace detail {

// Means that a score does not change.
template <class T>
inline constexpr T kUntouched = 2;

// For each of the first `num_boxes`, an upper bound of the share of its score that some selected boxes leave, or
// kUntouched.
template <class T, size_t lanes, class Decay>
HASHNMS_INLINE void bound_decays(const BoxLanes<T, lanes>& boxes, size_t num_boxes, const Corners<T>* selected,
                                 const uint32_t* positions, size_t count, const Decay& given, T harmless, T* bounds) {
  using Flag = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  static_assert(lanes % kTogether == 0);
  const Decay decay = given;
  for (size_t begin = 0; begin < num_boxes; begin += kTogether) {
    T areas[kTogether], all[kTogether];
    Flag touched[kTogether];
    for (size_t k = 0; k < kTogether; ++k) {
      areas[k] = boxes.get(begin + k).area();
      all[k] = Decay::template kNothing<T>, touched[k] = 0;
    }
    for (size_t p = 0; p < count; ++p) {
      const Corners<T> box = selected[positions[p]];
      const T area = box.area();
      for (size_t k = 0; k < kTogether; ++k) {
        const T overlap = iou(box, area, boxes.get(begin + k), areas[k]);
        all[k] = Decay::combined(all[k], overlap > harmless ? overlap : T(0));
        touched[k] |= Flag(overlap > harmless);
      }
    }
    for (size_t k = 0; k < kTogether; ++k) {
      const T bound = decay.at_most(all[k]);
      bounds[begin + k] = touched[k] ? bound : kUntouched<T>;
    }
  }
}

// The IoU of a box with each of some selected boxes.
template <class T>
HASHNMS_INLINE void overlaps_of(const Corners<T>& box, const Corners<T>* selected, const uint32_t* positions,
                                size_t count, T* overlaps) {
  const T area = box.area();
  size_t begin = 0;
  for (; begin + kTogether <= count; begin += kTogether) {
    BoxLanes<T, kTogether> others;
    for (size_t k = 0; k < kTogether; ++k) others.set(k, selected[positions[begin + k]]);
    for (size_t k = 0; k < kTogether; ++k) overlaps[begin + k] = iou(box, area, others.get(k), others.get(k).area());
  }
  for (; begin < count; ++begin) {
    const Corners<T>& other = selected[positions[begin]];
    overlaps[begin] = iou(box, area, other, other.area());
  }
}

// The IoU of a box with each of the first boxes in lanes.
template <class T, size_t lanes>
HASHNMS_INLINE void overlaps_of(const Corners<T>& box, const BoxLanes<T, lanes>& boxes, size_t count, T* overlaps) {
  const T area = box.area();
  for (size_t begin = 0; begin < count; begin += kTogether) {
    for (size_t k = begin; k < begin + kTogether; ++k) {
      overlaps[k] = iou(box, area, boxes.get(k), boxes.get(k).area());
    }
  }
}

// Overloads, because vector clones of a template are not possible.
#define HASHNMS_LANES(T)                                                                                        \
  HASHNMS_VECTOR_CLONES static uint32_t meeting_in_vectors(const CoverLanes<T, tuning::kNodeChildren>& covers,  \
                                                           const Corners<T>& box, T harmless) {                 \
    return covers.template meeting<Metric::iou>(box, harmless);                                                 \
  }                                                                                                             \
  HASHNMS_VECTOR_CLONES static void overlaps_in_vectors(const Corners<T>& box, const Corners<T>* selected,      \
                                                        const uint32_t* positions, size_t count, T* overlaps) { \
    overlaps_of(box, selected, positions, count, overlaps);                                                     \
  }                                                                                                             \
  HASHNMS_VECTOR_CLONES static void overlaps_in_vectors(                                                        \
      const Corners<T>& box, const BoxLanes<T, tuning::kFewToSelect>& boxes, size_t count, T* overlaps) {       \
    overlaps_of(box, boxes, count, overlaps);                                                                   \
  }
#define HASHNMS_DECAYS(T, Decay)                                                                                     \
  HASHNMS_VECTOR_CLONES static void bound_in_vectors(const BoxLanes<T, tuning::kLeafBoxes>& boxes, size_t num_boxes, \
                                                     const Corners<T>* selected, const uint32_t* positions,          \
                                                     size_t count, const Decay& decay, T harmless, T* bounds) {      \
    bound_decays(boxes, num_boxes, selected, positions, count, decay, harmless, bounds);                             \
  }

HASHNMS_LANES(float)
HASHNMS_LANES(double)
HASHNMS_DECAYS(float, GaussianDecay)
HASHNMS_DECAYS(float, LinearDecay)
HASHNMS_DECAYS(double, GaussianDecay)
HASHNMS_DECAYS(double, LinearDecay)
#undef HASHNMS_LANES
#undef HASHNMS_DECAYS

}  // namespace detail

}  // namespace hashnms
