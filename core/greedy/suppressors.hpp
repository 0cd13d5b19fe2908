// For each box, which kept box removed it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "support/large_array.hpp"

namespace hashnms {

// Rows of the input; -1 for a box that was not removed. Threads may set different rows at the same time.
class Suppressors {
 public:
  // Suppressors are written to `rows`, which is null if they are not wanted.
  Suppressors(int64_t* rows, size_t count) : rows_(rows) {
    if (rows) std::fill_n(rows, count, -1);
  }
  bool wanted() const { return rows_ != nullptr; }
  bool has(uint32_t row) const { return rows_[row] >= 0; }
  uint32_t of(uint32_t row) const { return static_cast<uint32_t>(rows_[row]); }
  void set(uint32_t row, uint32_t by) {
    if (rows_) rows_[row] = by;
  }
  // Only these rows are kept after all: forgets what other rows removed.
  void forget_all_except(const LargeArray<uint32_t>& kept, size_t count) {
    if (!rows_) return;
    for (size_t row = 0; row < count; ++row) {
      if (rows_[row] == static_cast<int64_t>(row)) rows_[row] = -1;
    }
    for (const uint32_t row : kept) rows_[row] = row;
    for (size_t row = 0; row < count; ++row) {
      if (rows_[row] >= 0 && rows_[rows_[row]] != rows_[row]) rows_[row] = -1;
    }
  }

 private:
  int64_t* rows_;
};

}  // namespace hashnms
