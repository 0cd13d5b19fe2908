// Orders boxes so that neighbours of similar sizes are adjacent.
#pragma once

#include <algorithm>
#include <cstddef>

#include "support/interrupt.hpp"

namespace hashnms {

namespace detail {

// The coordinate that varies most in a sample.
template <class Box>
int widest_axis(const Box* boxes, size_t count) {
  const size_t step = std::max<size_t>(count / 16, 1);
  double least[4], greatest[4];
  for (int axis = 0; axis < 4; ++axis) least[axis] = greatest[axis] = boxes[0].corners[axis];
  for (size_t at = step; at < count; at += step) {
    for (int axis = 0; axis < 4; ++axis) {
      least[axis] = std::min<double>(least[axis], boxes[at].corners[axis]);
      greatest[axis] = std::max<double>(greatest[axis], boxes[at].corners[axis]);
    }
  }
  int widest = 0;
  for (int axis = 1; axis < 4; ++axis) {
    if (greatest[axis] - least[axis] > greatest[widest] - least[widest]) widest = axis;
  }
  return widest;
}

// Splits boxes by a coordinate: near the middle, or, if there are few boxes, into full ranges of `most`.
template <class Box>
Box* halved_by(int axis, Box* begin, Box* end, size_t most) {
  const auto count = static_cast<size_t>(end - begin);
  const auto key = [axis](const Box& box) { return box.corners[axis]; };
  Box* middle = begin;
  if (count > 8 * most) {  // by the median of a sample, without an unpredictable branch
    constexpr size_t kSample = 15;
    decltype(key(*begin)) sample[kSample];
    for (size_t k = 0; k < kSample; ++k) sample[k] = key(begin[count * k / kSample]);
    std::nth_element(sample, sample + kSample / 2, sample + kSample);
    for (Box* at = begin; at < end; ++at) {
      const Box box = *at;
      *at = *middle;
      *middle = box;
      middle += key(box) < sample[kSample / 2];
    }
  }
  // For few boxes, or if the sample was misleading: no part gets more than seven eighths, so there are few levels.
  if (static_cast<size_t>(std::min(middle - begin, end - middle)) < count / 8) {
    middle = begin + (count / most + 1) / 2 * most;
    std::nth_element(begin, middle, end, [&](const Box& a, const Box& b) { return key(a) < key(b); });
  }
  return middle;
}

}  // namespace detail

// Splits more than `most` boxes into two parts, each of neighbours of similar sizes; returns where the second begins.
template <class Box>
Box* halved(Box* begin, Box* end, size_t most) {
  const auto count = static_cast<size_t>(end - begin);
  if (count > (size_t(1) << 14)) Interrupt::check();
  return detail::halved_by(detail::widest_axis(begin, count), begin, end, most);
}

// Orders boxes so that each range holds neighbours of similar sizes, and calls use(begin, end) on consecutive ranges of
// up to `most`.
template <class Box, class Use>
void for_each_neighbourhood(Box* begin, Box* end, size_t most, const Use& use) {
  if (static_cast<size_t>(end - begin) <= most) return use(begin, end);
  Box* const middle = halved(begin, end, most);
  for_each_neighbourhood(begin, middle, most, use);
  for_each_neighbourhood(middle, end, most, use);
}

}  // namespace hashnms
