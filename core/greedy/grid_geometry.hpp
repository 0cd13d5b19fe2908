// Classes of sizes and cells of centres: the boxes that can overlap a given box enough are all in a few cells.
//
// IoU > t needs t <= w1/w2 <= 1/t and |dx| <= (w1 + w2) / 2 * (1 - t) / (1 + t), and the same for heights.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "support/dispatch.hpp"

namespace hashnms {

// The numbers of the grid that follow from the least IoU of a suppressed box. Along one axis, a box searches two cells
// in each of three classes. Integers are stored in doubles, so that the code runs in vectors.
class GridGeometry {
 public:
  explicit GridGeometry(double least_iou)
      : reach_((1.0 - least_iou) / (1.0 + least_iou)),
        class_width_(-kSteepest * std::log2(least_iou)),
        inverse_class_width_(1.0 / class_width_),
        pitch_exponent_(std::log2((std::exp2(class_width_) + 1.0) * reach_) + 2 * kExpError + 1e-9) {}

  // Approximates log2(size) from the bits of the size, by a parabola in each octave. The approximation increases, its
  // error is at most kLogError, and its slope is at most kSteepest times that of log2.
  HASHNMS_INLINE double class_of(double size) const {
    const uint64_t bits = std::bit_cast<uint64_t>(size);
    const double mantissa = std::bit_cast<double>((bits & kMantissa) | kOne);
    const double exponent = std::bit_cast<double>((bits >> 52) | kTwoTo52) - (0x1p52 + 1023.0);
    return std::floor((exponent + ((-1.0 / 3.0 * mantissa + 2.0) * mantissa - 5.0 / 3.0)) * inverse_class_width_);
  }

  // The first cell of a class that a box of this size and centre searches.
  HASHNMS_INLINE double first_cell(double index, double size, double center) const {
    const double greatest_size = exp2_from_above((index + 1.0) * class_width_ + kLogError);
    const double reach = 0.5 * (size + greatest_size) * reach_ + std::abs(center) * 0x1p-50;
    return cell_of(center - reach, index);
  }

  HASHNMS_INLINE double cell_of(double position, double index) const {
    // One over the pitch. Take a box of this class and one of a neighbouring class that overlap enough: the pitch is at
    // least twice the distance that their centres can have. So a box searches two cells.
    const double inverse_pitch = exp2_from_above(-((index + 1.0) * class_width_ + kLogError + pitch_exponent_));
    return std::floor(position * inverse_pitch);
  }

  // The bits of an integer up to 2^51 in size; those of the next integer are greater by 1.
  HASHNMS_INLINE static uint64_t bits_of(double integer) { return std::bit_cast<uint64_t>(integer + 0x1.8p52); }

  // Whether boxes of this size or larger, with centres up to `farthest` from 0, are within 2^44 cells of 0. There,
  // rounding moves a centre by at most 2^-50 of its value, or 1.6 % of a pitch. The pitch has a margin of 4 %.
  bool covers(double size, double farthest) const { return cell_of(farthest, class_of(size)) < 0x1p44; }

 private:
  static constexpr uint64_t kMantissa = (uint64_t(1) << 52) - 1, kOne = uint64_t(1023) << 52;
  static constexpr uint64_t kTwoTo52 = uint64_t(1023 + 52) << 52;
  static constexpr double kSteepest = 1.05, kLogError = 0.01, kExpError = 0.0861;

  // 2^x or up to 2^kExpError times that: linear within an octave.
  HASHNMS_INLINE static double exp2_from_above(double x) {
    const double exponent = std::floor(x);
    const uint64_t mantissa = std::bit_cast<uint64_t>(1.0 + (x - exponent));
    return std::bit_cast<double>(mantissa + (std::bit_cast<uint64_t>(exponent + 0x1.8p52) << 52));
  }

  double reach_, class_width_, inverse_class_width_, pitch_exponent_;
};

}  // namespace hashnms
