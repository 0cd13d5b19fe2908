// IoUHash: the cell of a width, and from it the code (i, j, m, n) of a box (Alg. 1).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "box.hpp"
#include "dispatch.hpp"
#include "double_double.hpp"

namespace hashnms {

// One axis of a cell: its index i (or j) and 1/delta_i, the number of cells per unit of offset.
struct AxisCell {
  int64_t index;
  double inverse_delta;
};

// The cells of all widths for one (alpha, W_0); heights use the same table.
//
// Eqn. 2 rounds (log W_0 - log w) / log alpha, so cell i holds the widths from W_0 alpha^(1/2 - i), its edge, up to
// the next edge. No logarithm is taken per box: the top bits of w name a bucket so narrow that it holds at most one
// edge, and one comparison decides.
class CellTable {
 public:
  CellTable(double alpha, double origin)
      : alpha_(alpha),
        ratio_(to_double_double(alpha)),
        origin_(to_double_double(origin)),
        edge_origin_(origin_ * square_root(ratio_)),
        log_origin_(std::log(origin)),
        cells_per_nat_(-1.0 / std::log1p(alpha - 1.0)) {
    if (alpha <= kLargestTabulatedAlpha) build_buckets();
  }

  // Whether find() answers for these widths (never for an empty range).
  bool covers(const Range& widths) const {
    return !buckets_.empty() && widths.least >= kSmallestWidth && widths.least <= widths.greatest &&
           widths.greatest < kWidthLimit;
  }

  // The cell of a width for which covers() holds, in two steps so that the first can run in vectors. A width of 0 is
  // taken for the smallest.
  HASHNMS_INLINE uint64_t bucket_of(double width) const {
    const double tabulated = width > kSmallestWidth ? width : kSmallestWidth;
    return (std::bit_cast<uint64_t>(tabulated) >> shift_) - first_bucket_;
  }
  HASHNMS_INLINE AxisCell find(double width, uint64_t bucket_index) const {
    const Bucket& bucket = buckets_[bucket_index];
    const size_t past_edge = width >= bucket.edge;
    return {bucket.index + static_cast<int64_t>(past_edge), bucket.inverse_delta[past_edge]};
  }
  AxisCell find(double width) const { return find(width, bucket_of(width)); }

  // The cell of any width above 0.
  AxisCell find_any(double width) const { return covers({width, width}) ? find(width) : find_slowly(width); }

  // NaN for inverse_delta where the cell's index or pitch is beyond what 64 bits hold.
  AxisCell find_slowly(double width) const {
    const DoubleDouble exact = to_double_double(width);
    const double estimate = std::floor((std::log(width) - log_origin_) * cells_per_nat_ + 0.5);
    if (!(std::abs(estimate) < 0x1p62)) return {0, std::numeric_limits<double>::quiet_NaN()};
    auto index = static_cast<int64_t>(estimate);
    // Near 1 an estimate is off by many cells: go on from what is left, then step to the very cell.
    for (int k = 0; k < 3; ++k) {
      const double left = std::log(nearest_double(exact / over_alpha_power(edge_origin_, index))) * cells_per_nat_;
      if (std::abs(left) < 0x1p62) index += static_cast<int64_t>(std::floor(left));
    }
    while (exact < over_alpha_power(edge_origin_, index)) --index;
    while (!(exact < over_alpha_power(edge_origin_, index + 1))) ++index;
    return {index, inverse_delta(index)};
  }

  // The least double in cell `index`: W_0 alpha^(1/2 - index), rounded up.
  double edge(int64_t index) const { return rounded_up(over_alpha_power(edge_origin_, index)); }

  double inverse_delta(int64_t index) const {
    const double center = nearest_double(over_alpha_power(origin_, index));   // Eqn. 1
    const double inverse = 1.0 / (center * (1.0 - alpha_) / (1.0 + alpha_));  // Eqn. 4
    return std::isnormal(inverse) ? inverse : std::numeric_limits<double>::quiet_NaN();
  }

  // The least width and 1/delta of each cell from the one that holds `least` up to the first that starts at `limit` or
  // above; `first` is the index of the first.
  struct Cells {
    int64_t first;
    std::vector<double> edges;
    std::vector<double> inverse_deltas;
  };
  Cells cells_between(double least, double limit) const {
    Cells cells{find_slowly(least).index, {}, {}};
    for (int64_t index = cells.first; cells.edges.empty() || cells.edges.back() < limit; ++index) {
      cells.edges.push_back(edge(index));
      cells.inverse_deltas.push_back(inverse_delta(index));
    }
    return cells;
  }
  // All that float32 boxes can have, for backends that search the table themselves.
  Cells float32_cells() const { return cells_between(0x1p-149, 0x1p129); }

 private:
  // Widths that are found fast; the others, rare in pixels and in parts of an image alike, are found slowly.
  static constexpr double kSmallestWidth = 0x1p-40;
  static constexpr double kWidthLimit = 0x1p40;
  // The table has about 55 / (1 - alpha) cells: 5,500 here. Nearer to 1 a cell is found slowly.
  static constexpr double kLargestTabulatedAlpha = 0.99;

  struct Bucket {
    double edge;  // of cell index + 1
    double inverse_delta[2];
    int64_t index;
  };

  DoubleDouble over_alpha_power(const DoubleDouble& value, int64_t index) const {
    return index < 0 ? value * power(ratio_, -static_cast<uint64_t>(index))
                     : value / power(ratio_, static_cast<uint64_t>(index));
  }

  void build_buckets() {
    int mantissa_bits = 0;
    while (std::ldexp(1.0, -mantissa_bits) >= 1.0 / alpha_ - 1.0) ++mantissa_bits;
    shift_ = 52 - mantissa_bits;
    first_bucket_ = std::bit_cast<uint64_t>(kSmallestWidth) >> shift_;
    const uint64_t end = std::bit_cast<uint64_t>(kWidthLimit) >> shift_;
    buckets_.reserve(end - first_bucket_);
    const Cells cells = cells_between(kSmallestWidth, kWidthLimit);
    size_t cell = 0;
    for (uint64_t top = first_bucket_; top < end; ++top) {
      const auto start = std::bit_cast<double>(top << shift_);
      while (start >= cells.edges[cell + 1]) ++cell;
      buckets_.push_back({cells.edges[cell + 1],
                          {cells.inverse_deltas[cell], cells.inverse_deltas[cell + 1]},
                          cells.first + static_cast<int64_t>(cell)});
    }
  }

  double alpha_;
  DoubleDouble ratio_, origin_, edge_origin_;
  double log_origin_, cells_per_nat_;
  std::vector<Bucket> buckets_;
  uint64_t first_bucket_ = 0;
  int shift_ = 0;
};

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

  // W_0 of each function, the double that is nearest.
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

  // Calls use(hash) with function k. In a large family each table is made when it is needed.
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

// Offsets of T's boxes must stay below this for cells to be told apart. The centres of float64 boxes are so fine that
// rounding merges cells from 2^53 on, and blurs their edges by an eighth of a cell here; float32 ones stay apart.
template <class T>
inline constexpr double kOffsetLimit = sizeof(T) == 4 ? std::numeric_limits<double>::max() : 0x1p50;

// m = round(x / delta - b), Eqn. 6, where round is floor(v + 1/2): the one that fits the half-open cells of Eqn. 15.
// An offset is an integer held in a double: exact up to 2^53, and it cannot wrap beyond.
HASHNMS_INLINE double offset_of(double center, double inverse_delta, double shift) {
  return std::floor(center * inverse_delta - shift + 0.5);
}

// Half of a code: i and m, or j and n.
struct AxisCode {
  int64_t index;
  double offset;  // not finite where the cell is beyond what 64 bits hold

  bool has_cell() const { return index != std::numeric_limits<int64_t>::min(); }
};

// A size of 0 has no cell: its index is the limit of ever smaller sizes.
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
