// Cells along an axis: which one a position is in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace hashnms {

// A range of cells, or of blocks of cells, along an axis.
struct CellRange {
  int64_t first, last;

  // The blocks of 8^level cells.
  CellRange blocks(int level) const { return {first >> 3 * level, last >> 3 * level}; }
};

// Cells are numbered up to 2^61 in size, so no difference of two numbers overflows. All positions farther out share the
// outermost cells, which only makes these larger.
inline constexpr double kFarthestCell = 0x1p61;

// The cell of a position, which may be infinite.
inline int64_t cell_at(double position, double inverse_pitch) {
  constexpr double kLargest = std::numeric_limits<double>::max();  // infinity times 0 would not be a number
  const double cell =
      std::clamp(std::clamp(position, -kLargest, kLargest) * inverse_pitch, -kFarthestCell, kFarthestCell);
  const auto truncated = static_cast<int64_t>(cell);
  return truncated - (static_cast<double>(truncated) > cell);
}

}  // namespace hashnms
