// The plane divided by given borders, and which boxes touch which tile: for scenes that no call holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "boxes/box.hpp"
#include "greedy/tiles.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

// Columns, each cut into tiles, which are numbered column by column. A region touches the tiles from that of its first
// corner to that of its last: regions that meet touch one tile at least in common.
class Borders {
 public:
  // `across` between columns; `down` between the tiles of a column, those of column c from row_starts[c] on. Sorted.
  Borders(std::span<const double> across, std::span<const double> down, std::span<const int64_t> row_starts)
      : across_(across), down_(down), row_starts_(row_starts) {}

  size_t num_tiles() const { return down_.size() + across_.size() + 1; }

  // Calls use(tile) for all that a region touches.
  template <class Use>
  HASHNMS_INLINE void for_each_touched(const Region& region, const Use& use) const {
    for (size_t column = place_of(across_, region.x1);; ++column) {
      const auto start = static_cast<size_t>(row_starts_[column]);
      const auto rows = down_.subspan(start, static_cast<size_t>(row_starts_[column + 1]) - start);
      for (size_t row = place_of(rows, region.y1);; ++row) {
        use(start + column + row);
        if (row == rows.size() || rows[row] > region.y2) break;
      }
      if (column == across_.size() || across_[column] > region.x2) break;
    }
  }

 private:
  // How many borders lie at or before a place.
  static HASHNMS_INLINE size_t place_of(std::span<const double> borders, double place) {
    const double* first = borders.data();
    for (size_t count = borders.size(); count > 0;) {
      const size_t half = (count + 1) / 2;
      first += half * static_cast<size_t>(first[half - 1] <= place);  // no branch to guess
      count -= half;
    }
    return static_cast<size_t>(first - borders.data());
  }

  std::span<const double> across_, down_;
  std::span<const int64_t> row_starts_;
};

// Of each tile the rows of the boxes that touch it, increasing.
struct Touches {
  std::vector<int64_t> starts;  // of the tiles; and the end
  std::vector<int64_t> rows;
  std::vector<int8_t> copies;  // 0: the box touches no other tile; 1: it does, and this is the first; 2: a later one
};

template <class T>
Touches touches_of(const T* boxes, BoxFormat format, size_t count, const Reach& reach, const Borders& borders) {
  struct Touch {
    uint32_t tile, row;
    int8_t copy;
  };
  std::vector<Touch> touches;
  touches.reserve(count + count / 8);
  Touches result{std::vector<int64_t>(borders.num_tiles() + 1), {}, {}};
  for (size_t row = 0; row < count; ++row) {
    const size_t first = touches.size();
    borders.for_each_touched(reach.region(corners_of(boxes + 4 * row, format)), [&](size_t tile) {
      touches.push_back({static_cast<uint32_t>(tile), static_cast<uint32_t>(row), 2});
      ++result.starts[tile + 1];
    });
    touches[first].copy = touches.size() > first + 1 ? 1 : 0;
  }
  for (size_t tile = 0; tile < borders.num_tiles(); ++tile) result.starts[tile + 1] += result.starts[tile];
  result.rows.resize(touches.size());
  result.copies.resize(touches.size());
  std::vector<int64_t> next = result.starts;
  for (const Touch& touch : touches) {
    const auto place = static_cast<size_t>(next[touch.tile]++);
    result.rows[place] = touch.row;
    result.copies[place] = touch.copy;
  }
  return result;
}

}  // namespace hashnms
