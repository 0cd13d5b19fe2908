// Of each box, which kept box removed it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "large_array.hpp"

namespace hashnms {

// Rows of the input; -1 of a box that none has removed. Threads may set different rows at once.
class Suppressors {
 public:
  Suppressors(size_t count, bool wanted) : rows_(wanted ? count : 0), wanted_(wanted) {
    std::fill(rows_.begin(), rows_.end(), -1);
  }
  bool wanted() const { return wanted_; }
  void set(uint32_t row, uint32_t by) {
    if (wanted_) rows_[row] = by;
  }
  LargeArray<int64_t> take() && { return std::move(rows_); }

 private:
  LargeArray<int64_t> rows_;
  bool wanted_;
};

}  // namespace hashnms
