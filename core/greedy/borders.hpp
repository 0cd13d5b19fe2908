// The plane divided by given borders, and which boxes touch which tile: for scenes too large for one call.
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
// corner to that of its last, so two regions that intersect have at least one tile in common.
class Borders {
 public:
  // `across`: borders between columns. `down`: borders between the tiles of a column; those of column c start at
  // row_starts[c]. Both are sorted.
  Borders(std::span<const double> across, std::span<const double> down, std::span<const int64_t> row_starts)
      : across_(across), down_(down), row_starts_(row_starts) {}

  size_t num_tiles() const { return down_.size() + across_.size() + 1; }

  // Calls use(tile) for every tile that a region touches.
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
      first += half * static_cast<size_t>(first[half - 1] <= place);  // without an unpredictable branch
      count -= half;
    }
    return static_cast<size_t>(first - borders.data());
  }

  std::span<const double> across_, down_;
  std::span<const int64_t> row_starts_;
};

// For each tile, the rows of the boxes that touch it, in increasing order.
struct Touches {
  std::vector<int64_t> starts;  // of the tiles; and the end
  std::vector<int64_t> rows;
  std::vector<int8_t> copies;  // 0: the box touches no other tile; 1: it does, and this is the first; 2: a later one
};

// The first boxes, until they have more than `most` copies in all; at least one.
template <class T>
Touches touches_of(const T* boxes, BoxFormat format, size_t count, const Reach& reach, const Borders& borders,
                   size_t most) {
  std::vector<uint32_t> tiles;  // that the boxes touch, box by box
  std::vector<int8_t> copies;
  const size_t usual = std::min(count + count / 8, most);
  tiles.reserve(usual), copies.reserve(usual);
  for (size_t row = 0; row < count; ++row) {
    const size_t first = tiles.size();
    borders.for_each_touched(reach.region(corners_of(boxes + 4 * row, format)), [&](size_t tile) {
      tiles.push_back(static_cast<uint32_t>(tile));
      copies.push_back(2);
    });
    copies[first] = tiles.size() > first + 1 ? 1 : 0;
    if (tiles.size() > most && row > 0) {
      tiles.resize(first), copies.resize(first);
      break;
    }
  }
  Touches result{std::vector<int64_t>(borders.num_tiles() + 1), std::vector<int64_t>(tiles.size()),
                 std::vector<int8_t>(tiles.size())};
  for (const uint32_t tile : tiles) ++result.starts[tile + 1];
  for (size_t tile = 0; tile < borders.num_tiles(); ++tile) result.starts[tile + 1] += result.starts[tile];
  std::vector<int64_t> next = result.starts;
  int64_t row = -1;
  for (size_t k = 0; k < tiles.size(); ++k) {
    row += copies[k] < 2;
    const auto place = static_cast<size_t>(next[tiles[k]]++);
    result.rows[place] = row;
    result.copies[place] = copies[k];
  }
  return result;
}

}  // namespace hashnms
