// Which shapes of a pyramid have boxes near a given box: usually few.
#pragma once

#include <cstddef>
#include <cstdint>

#include "boxes/box.hpp"
#include "boxes/cells.hpp"
#include "greedy/cell_hash.hpp"
#include "greedy/pyramid_geometry.hpp"
#include "greedy/slot_table.hpp"

namespace hashnms {

// The plane in tiles of about twice the usual size of a box. For each tile, a mask says which shapes have a box in it:
// up to 64 of them. Two boxes that intersect share a tile.
class ShapeTiles {
 public:
  explicit ShapeTiles(const double (&pitch)[2]) : inverse_pitch_{1.0 / pitch[0], 1.0 / pitch[1]} {}

  template <class T>
  void note(const Corners<T>& box, uint64_t label_sum, size_t shape) {
    const uint64_t bit = uint64_t(1) << shape;
    const CellRange xs = range(box.x1, box.x2, 0), ys = range(box.y1, box.y2, 1);
    if (!are_few(xs, ys)) {
      everywhere_ |= bit;
      return;
    }
    for_each(xs, ys, label_sum, [&](uint32_t hash) {
      Tile& tile = tiles_.at(hash);
      tile.head = 1;
      tile.shapes |= bit;
    });
  }

  // The shapes that may have a box which intersects this one.
  template <class T>
  uint64_t around(const Corners<T>& box, uint64_t label_sum) const {
    const CellRange xs = range(box.x1, box.x2, 0), ys = range(box.y1, box.y2, 1);
    if (!are_few(xs, ys)) return ~uint64_t(0);
    uint64_t shapes = everywhere_;
    for_each(xs, ys, label_sum, [&](uint32_t hash) {
      const Tile* const tile = tiles_.find(hash);
      if (tile) shapes |= tile->shapes;
    });
    return shapes;
  }

 private:
  // If a box reaches over more tiles along an axis, its shape counts as present in all tiles, and its search goes
  // through all shapes.
  static constexpr int64_t kMostTiles = 4;
  static bool are_few(CellRange xs, CellRange ys) {
    return xs.last - xs.first < kMostTiles && ys.last - ys.first < kMostTiles;
  }

  struct Tile {
    uint32_t hash, head;
    uint64_t shapes;
  };

  CellRange range(double from, double to, int axis) const {
    return {cell_at(from, inverse_pitch_[axis]), cell_at(to, inverse_pitch_[axis])};
  }

  template <class Use>
  void for_each(CellRange xs, CellRange ys, uint64_t label_sum, const Use& use) const {
    for (int64_t y = ys.first; y <= ys.last; ++y) {
      for (int64_t x = xs.first; x <= xs.last; ++x) {
        use(hash_of_sum(label_sum + static_cast<uint64_t>(x) * factors_.x + static_cast<uint64_t>(y) * factors_.y));
      }
    }
  }

  double inverse_pitch_[2];
  CellFactors factors_;
  SlotTable<Tile> tiles_;
  uint64_t everywhere_ = 0;
};

}  // namespace hashnms
