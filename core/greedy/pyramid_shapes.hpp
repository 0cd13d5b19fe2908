// The shapes by which a pyramid stores boxes: the octave, or the group of octaves, of the width and of the height.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/input.hpp"
#include "support/tuning.hpp"

namespace hashnms {

inline constexpr int kLeastOctave = -1022;

// The exponent of the greatest power of two that is not above the size; subnormal sizes get the least one.
inline int octave_of(double size) {
  return std::max<int>(static_cast<int>(std::bit_cast<uint64_t>(size) >> 52) - 1023, kLeastOctave);
}

// The groups of octaves of the width and height, 16 bits each.
inline uint32_t shape_of(double width, double height, int octaves) {
  const auto group = [=](double size) { return static_cast<uint32_t>((octave_of(size) - kLeastOctave) / octaves); };
  return group(width) << 16 | group(height);
}

// Vast boxes (boxes/metric.hpp) have shapes of their own, so that they are not compared with each other.
inline constexpr uint32_t kVast = 1u << 15;

struct PyramidShapes {
  int octaves = 1;              // of sizes that are treated alike,
  size_t count = 1;             // and how many shapes that gives, about, up to tuning::kFewShapes
  double tile[2] = {1.0, 1.0};  // of shape_tiles.hpp

  // Chooses the least number of octaves with which a sample of the boxes has few shapes, because a search goes through
  // all shapes near its own. The number is limited so that the boxes of a shape have similar sizes: by the octaves
  // between two boxes that can overlap enough, and by kMostOctaves.
  template <class T, class Score>
  static PyramidShapes in(const Input<T, Score>& input, double least_iou) {
    const double most_octaves = std::clamp(std::floor(-std::log2(least_iou)), 1.0, double{tuning::kMostOctaves});
    constexpr size_t kSample = 1024;
    std::vector<Corners<T>> boxes;
    for (size_t k = 0; k < kSample; ++k) {
      const Corners<T> box = input.corners(input.sampled_row(k));
      if (box.area() > 0) boxes.push_back(box);
    }
    PyramidShapes shapes;
    shapes.tile[0] = tile_of(boxes, [](const Corners<T>& box) { return double(box.x2) - double(box.x1); });
    shapes.tile[1] = tile_of(boxes, [](const Corners<T>& box) { return double(box.y2) - double(box.y1); });
    for (;; ++shapes.octaves) {
      std::unordered_set<uint32_t> different;
      for (const Corners<T>& box : boxes) {
        different.insert(shape_of(double(box.x2) - double(box.x1), double(box.y2) - double(box.y1), shapes.octaves));
      }
      shapes.count = std::min(different.size(), tuning::kFewShapes);
      if (different.size() <= tuning::kFewShapes || shapes.octaves >= most_octaves) return shapes;
    }
  }

 private:
  // A multiple of the usual size.
  template <class T, class SizeOf>
  static double tile_of(std::vector<Corners<T>>& boxes, const SizeOf& size_of) {
    if (boxes.empty()) return 1.0;
    const auto middle = boxes.begin() + boxes.size() / 2;
    std::nth_element(boxes.begin(), middle, boxes.end(),
                     [&](const auto& a, const auto& b) { return size_of(a) < size_of(b); });
    return std::clamp(tuning::kUsualSizesPerTile * size_of(*middle), 0x1p-1000, 0x1p1000);
  }
};

}  // namespace hashnms
