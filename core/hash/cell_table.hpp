// The cell of a width: i and j of a code (Eqn. 1 and 2).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "boxes/box.hpp"
#include "hash/double_double.hpp"
#include "support/dispatch.hpp"

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

  // Whether find() works for these widths (never for an empty range).
  bool covers(const Interval& widths) const {
    return !buckets_.empty() && widths.least >= kSmallestWidth && widths.least <= widths.greatest &&
           widths.greatest < kWidthLimit;
  }

  // The cell of a width for which covers() holds, in two steps so that the first can be vectorized. A width of 0 is
  // treated as the smallest.
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

  // inverse_delta is NaN if the cell's index or pitch does not fit into 64 bits.
  AxisCell find_slowly(double width) const {
    const DoubleDouble exact = to_double_double(width);
    const double estimate = std::floor((std::log(width) - log_origin_) * cells_per_nat_ + 0.5);
    if (!(std::abs(estimate) < 0x1p62)) return {0, std::numeric_limits<double>::quiet_NaN()};
    auto index = static_cast<int64_t>(estimate);
    // For alpha near 1 an estimate is off by many cells: refine it, then step to the exact cell.
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
  struct Edges {
    int64_t first;
    std::vector<double> edges;
    std::vector<double> inverse_deltas;
  };
  Edges edges_between(double least, double limit) const {
    Edges cells{find_slowly(least).index, {}, {}};
    for (int64_t index = cells.first; cells.edges.empty() || cells.edges.back() < limit; ++index) {
      cells.edges.push_back(edge(index));
      cells.inverse_deltas.push_back(inverse_delta(index));
    }
    return cells;
  }
  // All cells that float32 boxes can have, for backends that search the table themselves.
  Edges float32_cells() const { return edges_between(0x1p-149, 0x1p129); }

 private:
  // Widths that are found fast. Others are found slowly; they are rare in pixels and in relative coordinates.
  static constexpr double kSmallestWidth = 0x1p-40;
  static constexpr double kWidthLimit = 0x1p40;
  // The table has about 55 / (1 - alpha) cells: 5,500 here. Closer to 1, cells are found slowly.
  static constexpr double kLargestTabulatedAlpha = 0.99;

  struct Bucket {
    double edge;  // the edge of cell index + 1
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
    const Edges cells = edges_between(kSmallestWidth, kWidthLimit);
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

}  // namespace hashnms
