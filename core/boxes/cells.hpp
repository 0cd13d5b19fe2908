// Cells along an axis: which one a position is in.
#pragma once

#include <algorithm>
#include <cstdint>

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

// The cell of a position, which may be infinite. The inverse pitch is above 0.
inline int64_t cell_at(double position, double inverse_pitch) {
  const double cell = std::clamp(position * inverse_pitch, -kFarthestCell, kFarthestCell);
  const auto truncated = static_cast<int64_t>(cell);
  return truncated - (static_cast<double>(truncated) > cell);
}

}  // namespace hashnms
