// IoUHash: the code (i, j, m, n) of a box (Alg. 1), and the family of functions that Multi-HNMS uses.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "boxes/box.hpp"
#include "hash/cell_table.hpp"
#include "hash/double_double.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

// One function of the family used by HNMS, where W_0 = H_0 and b_x = b_y (Eqn. 16).
struct IoUHash {
  const CellTable* cells;
  double shift;
};

// The K functions of Multi-HNMS (Eqn. 16): function k has W_0 = alpha^(-k/K) and is shifted by k/K.
class HashFamily {
 public:
  static constexpr size_t kMostHashes = 1000;  // more shifts of a cell would only cost time

  HashFamily(double alpha, size_t count) : alpha_(alpha), origins_(origins(alpha, count)) {
    if (count > kMostTables) return;
    for (const double origin : origins_) tables_.emplace_back(alpha, origin);
  }

  // W_0 of each function, rounded to the nearest double.
  static std::vector<double> origins(double alpha, size_t count) {
    std::vector<double> all;
    for (size_t k = 0; k < count; ++k) {
      const DoubleDouble inverse_power = to_double_double(1.0) / power(to_double_double(alpha), k);
      const double origin = nearest_double(root(inverse_power, count));
      all.push_back(std::min(origin, std::numeric_limits<double>::max()));
    }
    return all;
  }

  double alpha() const { return alpha_; }
  size_t size() const { return origins_.size(); }
  double shift(size_t k) const { return static_cast<double>(k) / static_cast<double>(size()); }

  // Calls use(hash) with function k. In a large family, each table is made when it is needed.
  template <class Use>
  auto with_hash(size_t k, const Use& use) const {
    if (!tables_.empty()) return use(IoUHash{&tables_[k], shift(k)});
    const CellTable table(alpha_, origins_[k]);
    return use(IoUHash{&table, shift(k)});
  }

 private:
  static constexpr size_t kMostTables = 64;
  double alpha_;
  std::vector<double> origins_;
  std::vector<CellTable> tables_;
};

// Offsets of boxes of type T must stay below this, or rounding could merge cells. For float64 boxes, cells merge from
// 2^53 on; at this limit, rounding moves the edges of a cell by up to an eighth of a cell. Cells of float32 boxes never
// merge.
template <class T>
inline constexpr double kOffsetLimit = sizeof(T) == 4 ? std::numeric_limits<double>::max() : 0x1p50;

// m = round(x / delta - b), Eqn. 6, where round is floor(v + 1/2), which fits the half-open cells of Eqn. 15. An offset
// is an integer held in a double: exact up to 2^53, and it cannot wrap around.
HASHNMS_INLINE double offset_of(double center, double inverse_delta, double shift) {
  return std::floor(center * inverse_delta - shift + 0.5);
}

// Half of a code: i and m, or j and n.
struct AxisCode {
  int64_t index;
  double offset;  // not finite if the cell does not fit into 64 bits

  bool has_cell() const { return index != std::numeric_limits<int64_t>::min(); }
};

// A size of 0 has no cell: its index is the limit for smaller and smaller sizes.
inline AxisCode axis_code(double size, double center, const CellTable& cells, double shift) {
  if (size == 0) return {std::numeric_limits<int64_t>::min(), 0.0};
  const AxisCell cell = cells.find_any(size);
  return {cell.index, offset_of(center, cell.inverse_delta, shift)};
}

// The code of a box with any two tables and shifts.
template <class T>
std::array<AxisCode, 2> axis_codes(const T* box, BoxFormat format, const CellTable& widths, const CellTable& heights,
                                   double bx, double by) {
  return {axis_code(size_along(0, box, format), center_along(0, box, format), widths, bx),
          axis_code(size_along(1, box, format), center_along(1, box, format), heights, by)};
}

}  // namespace hashnms
