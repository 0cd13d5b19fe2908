// The plane divided into tiles with about equal numbers of boxes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/input.hpp"
#include "boxes/lanes.hpp"
#include "greedy/overlap_rule.hpp"
#include "support/dispatch.hpp"
#include "support/large_array.hpp"

namespace hashnms {

// A part of a box around its centre. If one box suppresses another, their regions intersect.
struct Region {
  double x1, y1, x2, y2;
};

// How far regions reach. IoU > t needs |dx| <= (w1 + w2) / 2 * (1 - t) / (1 + t): each box adds its own width to the
// sum. For IoS and the lowest thresholds it is only certain that the boxes intersect.
class Reach {
 public:
  explicit Reach(double least_iou) : share_((1.0 - least_iou) / (1.0 + least_iou) * (1.0 + 0x1p-40)) {}

  template <class T>
  HASHNMS_INLINE Region region(const Corners<T>& box) const {
    const auto [x1, x2] = along(box.x1, box.x2);
    const auto [y1, y2] = along(box.y1, box.y2);
    return {x1, y1, x2, y2};
  }

 private:
  // With a small margin for rounding.
  HASHNMS_INLINE std::array<double, 2> along(double from, double to) const {
    const double center = 0.5 * from + 0.5 * to;
    const double reach = (0.5 * to - 0.5 * from) * share_ + std::abs(center) * 0x1p-50;
    return {std::max(from, center - reach), std::min(to, center + reach)};
  }

  double share_;
};

// Equal steps from one place to another. Places before the range belong to the first step, places after it to the last.
struct Ruler {
  static constexpr size_t kSteps = 1024;
  double begin = 0.0, steps_per_unit = 0.0;

  HASHNMS_INLINE int32_t step(double place) const {
    const double steps = (place - begin) * steps_per_unit, last = kSteps - 1;
    return static_cast<int32_t>(steps > 0.0 ? (steps < last ? steps : last) : 0.0);
  }
  // Spans sorted places, without the outermost ones, which may be far out.
  static Ruler over(const std::vector<double>& places) {
    const size_t left_out = places.size() / 256;
    const double from = places[left_out], to = places[places.size() - 1 - left_out];
    const double steps_per_unit = kSteps / (to - from);
    return {from, std::isfinite(steps_per_unit) ? steps_per_unit : 0.0};
  }
};

// Some boxes, and the steps of two rulers where their regions begin and end.
template <class T>
struct LocatedBoxes {
  static constexpr size_t kBoxes = 64;
  BoxLanes<T, kBoxes> boxes{};
  int32_t x1[kBoxes], x2[kBoxes], y1[kBoxes], y2[kBoxes];

  HASHNMS_INLINE void locate(const Reach& reach, const Ruler& across, const Ruler& down) {
    const Reach own_reach = reach;
    const Ruler rulers[2] = {across, down};
    for (size_t k = 0; k < kBoxes; ++k) {
      const Region region = own_reach.region(boxes.get(k));
      x1[k] = rulers[0].step(region.x1), x2[k] = rulers[0].step(region.x2);
      y1[k] = rulers[1].step(region.y1), y2[k] = rulers[1].step(region.y2);
    }
  }
};

namespace detail {

HASHNMS_VECTOR_CLONES static void locate(LocatedBoxes<float>& boxes, const Reach& reach, const Ruler& across,
                                         const Ruler& down) {
  boxes.locate(reach, across, down);
}
HASHNMS_VECTOR_CLONES static void locate(LocatedBoxes<double>& boxes, const Reach& reach, const Ruler& across,
                                         const Ruler& down) {
  boxes.locate(reach, across, down);
}

}  // namespace detail

// Columns with about equal numbers of boxes, each cut into tiles with about equal numbers. Borders lie between the
// steps of a fine ruler, so a place is looked up, not searched. A region touches the tiles from that of its first
// corner to that of its last, so two regions that intersect have at least one tile in common.
class Tiles {
 public:
  // About this many tiles, from a sample of the boxes. Fewer if boxes would touch too many of them, and one if tiles do
  // not help.
  template <class T, class Score>
  static Tiles dividing(const Input<T, Score>& input, const LargeArray<uint32_t>& rows, const Reach& reach,
                        size_t wanted) {
    std::vector<Region> sample;
    const size_t sampled = std::max(kSamplePerTile * wanted, std::min(kGoodSample, rows.size() / kSamplePerTile));
    for (size_t k = 0; k < std::min(rows.size(), sampled); ++k) {
      const size_t place = (k * 0x9e3779b97f4a7c15u >> 32) * rows.size() >> 32;  // scattered, but the same in every run
      sample.push_back(reach.region(input.corners(rows[place])));
    }
    for (; wanted > 1; wanted /= 2) {
      const Tiles tiles(reach, sample, wanted);
      if (tiles.mean_touched(sample) <= kMostTouched) return tiles;
    }
    return Tiles(reach);
  }
  Tiles undivided() const { return Tiles(reach_); }

  size_t count() const { return count_; }
  // Whether the region of a box touches only one tile.
  template <class T>
  HASHNMS_INLINE bool in_one(const Corners<T>& box) const {
    const Region region = reach_.region(box);
    const size_t column = column_at(region.x1);
    return column == column_at(region.x2) && tile_at(column, region.y1) == tile_at(column, region.y2);
  }
  template <class T, class Use>
  HASHNMS_INLINE void for_each_touched(const Corners<T>& box, const Use& use) const {
    for_each_touched(reach_.region(box), use);
  }
  // Calls use(k, touched) for each of some rows: the tile that the box touches, or kSeveral.
  template <class T, class Score, class Use>
  HASHNMS_INLINE void for_each_located(const Input<T, Score>& input, const LargeArray<uint32_t>& rows, size_t begin,
                                       size_t end, const Use& use) const {
    LocatedBoxes<T> located;
    for (; begin < end; begin += LocatedBoxes<T>::kBoxes) {
      const size_t count = std::min(LocatedBoxes<T>::kBoxes, end - begin);
      for (size_t k = 0; k < count; ++k) located.boxes.set(k, input.corners(rows[begin + k]));
      detail::locate(located, reach_, x_ruler_, y_ruler_);
      for (size_t k = 0; k < count; ++k) {
        const uint32_t column = columns_[located.x1[k]];
        const uint32_t* const tiles = &tiles_[column * kSteps];
        const uint32_t tile = tiles[located.y1[k]];
        const bool one = (column == columns_[located.x2[k]]) & (tile == tiles[located.y2[k]]);
        use(begin + k, one ? tile : kSeveral);
      }
    }
  }
  static constexpr uint32_t kSeveral = ~uint32_t(0);

  // How many tiles the box touches.
  template <class Box>
  size_t touched(const Box& box) const {
    size_t count = 0;
    for_each_touched(box, [&](size_t) { ++count; });
    return count;
  }

 private:
  static constexpr size_t kSteps = Ruler::kSteps, kSamplePerTile = 64, kGoodSample = 2048;
  static constexpr double kMostTouched = 1.3;

  // Calls use(tile) for every tile that a region touches.
  template <class Use>
  HASHNMS_INLINE void for_each_touched(const Region& region, const Use& use) const {
    const int32_t y1 = y_ruler_.step(region.y1), y2 = y_ruler_.step(region.y2);
    for (size_t column = column_at(region.x1); column <= column_at(region.x2); ++column) {
      const uint32_t* const tiles = &tiles_[column * kSteps];
      for (uint32_t tile = tiles[y1]; tile <= tiles[y2]; ++tile) use(tile);
    }
  }

  explicit Tiles(const Reach& reach) : reach_(reach), columns_(kSteps), tiles_(kSteps) {}

  Tiles(const Reach& reach, const std::vector<Region>& sample, size_t wanted) : reach_(reach), columns_(kSteps) {
    std::vector<double> xs, ys;
    double width = 0.0, height = 0.0;
    for (const Region& region : sample) {
      xs.push_back(0.5 * region.x1 + 0.5 * region.x2), ys.push_back(0.5 * region.y1 + 0.5 * region.y2);
      width += region.x2 - region.x1, height += region.y2 - region.y1;
    }
    const std::vector<double> ys_of_sample = ys;
    std::sort(xs.begin(), xs.end());
    std::sort(ys.begin(), ys.end());
    x_ruler_ = Ruler::over(xs), y_ruler_ = Ruler::over(ys);
    // The number of columns with which the fewest boxes cross a border.
    const double across = width * x_ruler_.steps_per_unit, down = height * y_ruler_.steps_per_unit;
    const double best = std::sqrt(static_cast<double>(wanted) * down / across);
    const size_t most_columns = std::min<size_t>(wanted, 256);
    const size_t columns = best >= 1.0 ? std::min(static_cast<size_t>(std::min(best, 1e6) + 0.5), most_columns) : 1;
    const size_t num_columns = divide(x_ruler_, xs, columns, 0, columns_.data());
    tiles_.resize(num_columns * kSteps);
    std::vector<std::vector<double>> of_columns(num_columns);
    for (size_t k = 0; k < sample.size(); ++k) {
      of_columns[column_at(0.5 * sample[k].x1 + 0.5 * sample[k].x2)].push_back(ys_of_sample[k]);
    }
    count_ = 0;
    for (size_t column = 0; column < num_columns; ++column) {
      std::sort(of_columns[column].begin(), of_columns[column].end());
      const size_t rows = std::max<size_t>((wanted * of_columns[column].size() + sample.size() / 2) / sample.size(), 1);
      count_ += divide(y_ruler_, of_columns[column], rows, count_, &tiles_[column * kSteps]);
    }
  }

  // Divides the steps of a ruler into parts with about equal numbers of places, and numbers them from `first` on.
  // Returns the number of parts.
  static size_t divide(const Ruler& ruler, const std::vector<double>& sorted_places, size_t parts, size_t first,
                       uint32_t* numbers) {
    size_t part = 0, step = 0;
    for (size_t k = 1; k < parts && !sorted_places.empty(); ++k) {
      const auto border = static_cast<size_t>(ruler.step(sorted_places[k * sorted_places.size() / parts]));
      if (border <= step) continue;
      for (; step < border; ++step) numbers[step] = static_cast<uint32_t>(first + part);
      ++part;
    }
    for (; step < kSteps; ++step) numbers[step] = static_cast<uint32_t>(first + part);
    return part + 1;
  }

  double mean_touched(const std::vector<Region>& sample) const {
    size_t touched_by_all = 0;
    for (const Region& region : sample) touched_by_all += touched(region);
    return static_cast<double>(touched_by_all) / static_cast<double>(sample.size());
  }

  HASHNMS_INLINE size_t column_at(double x) const { return columns_[x_ruler_.step(x)]; }
  HASHNMS_INLINE size_t tile_at(size_t column, double y) const {
    return tiles_[column * kSteps + static_cast<size_t>(y_ruler_.step(y))];
  }

  Reach reach_;
  Ruler x_ruler_, y_ruler_;
  std::vector<uint32_t> columns_;  // of each step across
  std::vector<uint32_t> tiles_;    // of each step down, column by column
  size_t count_ = 1;
};

}  // namespace hashnms
