// Of each box, which kept box removed it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hashnms {

// Rows of the input; -1 of a box that none has removed. Threads may set different rows at once.
class Suppressors {
 public:
  // They are written to `rows`; null if they are not wanted.
  Suppressors(int64_t* rows, size_t count) : rows_(rows) {
    if (rows) std::fill_n(rows, count, -1);
  }
  bool wanted() const { return rows_ != nullptr; }
  void set(uint32_t row, uint32_t by) {
    if (rows_) rows_[row] = by;
  }

 private:
  int64_t* rows_;
};

}  // namespace hashnms
