// Boxes in an order in which neighbours of similar sizes follow each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "box.hpp"

namespace hashnms {

template <class T, class Score>
struct ScoredBox {
  T corners[4];
  Score score;
  uint32_t row;

  Corners<T> box() const { return {corners[0], corners[1], corners[2], corners[3]}; }
};

// Puts boxes into an order in which those of a range are neighbours of similar sizes, and calls use(begin, end) on
// ranges of up to `most` that follow each other: halves along the coordinate that differs most, again and again.
template <class Box, class Use>
void for_each_neighbourhood(Box* begin, Box* end, size_t most, const Use& use) {
  const auto count = static_cast<size_t>(end - begin);
  if (count <= most) return use(begin, end);
  const size_t step = std::max<size_t>(count / 16, 1);
  Box least = *begin, greatest = *begin;
  for (size_t at = step; at < count; at += step) {
    for (int axis = 0; axis < 4; ++axis) {
      least.corners[axis] = std::min(least.corners[axis], begin[at].corners[axis]);
      greatest.corners[axis] = std::max(greatest.corners[axis], begin[at].corners[axis]);
    }
  }
  int widest = 0;
  const auto width = [&](int axis) { return double(greatest.corners[axis]) - double(least.corners[axis]); };
  for (int axis = 1; axis < 4; ++axis) widest = width(axis) > width(widest) ? axis : widest;
  const auto key = [widest](const Box& box) { return box.corners[widest]; };

  Box* middle = begin;
  if (count > 8 * most) {  // about in the middle, by the median of a sample, without a branch that cannot be foreseen
    constexpr size_t kSample = 15;
    decltype(key(*begin)) sample[kSample];
    for (size_t k = 0; k < kSample; ++k) sample[k] = key(begin[count * k / kSample]);
    std::nth_element(sample, sample + kSample / 2, sample + kSample);
    const auto pivot = sample[kSample / 2];
    for (Box* at = begin; at < end; ++at) {
      const Box box = *at;
      *at = *middle;
      *middle = box;
      middle += key(box) < pivot;
    }
  }
  // Where few are left or many are equal, so that ranges become full.
  if (static_cast<size_t>(std::min(middle - begin, end - middle)) < count / 8) {
    middle = begin + (count / most + 1) / 2 * most;
    std::nth_element(begin, middle, end, [&](const Box& a, const Box& b) { return key(a) < key(b); });
  }
  for_each_neighbourhood(begin, middle, most, use);
  for_each_neighbourhood(middle, end, most, use);
}

}  // namespace hashnms
