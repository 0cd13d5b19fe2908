// The share of its score that a box keeps when a box that overlaps it is selected.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "boxes/box.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

// A decay has
//   exactly(iou)   the share of its score that a box keeps, in the score's type: the definition;
//   harmless()     the IoU up to which this share is 1;
//   combined()     several IoUs in one number, starting from kNothing;
//   at_most()      an upper bound of the share that a box keeps after all of them, vectorized and without libm.
// A bound allows for the rounding errors of kMostAtOnce IoUs and decays. It is never below 2^-116, because smaller
// exact decays may be rounded coarsely.
inline constexpr size_t kMostAtOnce = 32;

namespace detail {

// More than the error of exp_of_minus, 4.3e-6, plus four roundings of 2^-24 for each of kMostAtOnce.
inline constexpr double kSlack = 0x1p-16;
static_assert(kSlack > 4.3e-6 + 4 * kMostAtOnce * 0x1p-24);

// exp(-x) for x from 0 to 80, with a relative error of up to 4.3e-6 in float: 2^-n exp(r) with |r| <= ln(2) / 2.
template <class T>
HASHNMS_INLINE T exp_of_minus(T x) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr int kFractionBits = std::numeric_limits<T>::digits - 1;
  constexpr T kShift = T(1.5) * T(Bits(1) << kFractionBits);  // adding it rounds to an integer in the lowest bits
  const T shifted = x * T(1.4426950408889634) + kShift;
  const T r = (shifted - kShift) * T(0.6931471805599453) - x;
  T series = T(1.0 / 720);
  for (const double term : {1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) series = series * r + T(term);
  constexpr Bits kBias = std::numeric_limits<T>::max_exponent - 1;
  return series * std::bit_cast<T>((kBias - std::bit_cast<Bits>(shifted)) << kFractionBits);
}

}  // namespace detail

// exp(-IoU^2 / sigma): libm's exp in double, rounded once to the score's type. Sigma is from 1e-30 to 1e30.
struct GaussianDecay {
  double sigma;

  template <class Score>
  Score exactly(double iou) const {
    return static_cast<Score>(std::exp(-(iou * iou) / sigma));
  }
  template <class T, class Score>
  T harmless() const {
    return rounded_down<T>(std::min(std::sqrt(sigma * (sizeof(Score) == 4 ? 0x1p-26 : 0x1p-60)), 1.0));
  }

  template <class T>
  static constexpr T kNothing = 0;
  template <class T>
  HASHNMS_INLINE static T combined(T all, T iou) {
    return all + iou * iou;
  }
  template <class T>
  HASHNMS_INLINE T at_most(T all) const {
    const T x = all * T((1.0 - detail::kSlack) / sigma);
    return detail::exp_of_minus(x < T(80) ? x : T(80)) * T(1.0 + detail::kSlack);
  }
};

// 1 - IoU where that is above the threshold: in double, rounded once to the score's type.
struct LinearDecay {
  double threshold;

  template <class Score>
  Score exactly(double iou) const {
    return static_cast<Score>(iou < 1.0 ? 1.0 - iou : 0.0);
  }
  // 1 minus less than half of a last place is 1.
  template <class T, class Score>
  T harmless() const {
    return rounded_down<T>(std::max(threshold, sizeof(Score) == 4 ? 0x1p-26 : 0x1p-55));
  }

  template <class T>
  static constexpr T kNothing = 1;
  template <class T>
  HASHNMS_INLINE static T combined(T all, T iou) {
    return iou < 1 ? all * (1 - iou) : T(0);
  }
  template <class T>
  HASHNMS_INLINE T at_most(T all) const {
    return (all > T(0x1p-100) ? all : T(0x1p-100)) * T(1.0 + detail::kSlack);
  }
};

}  // namespace hashnms
