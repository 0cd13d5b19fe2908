// Rows of the input, label by label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "large_array.hpp"
#include "rank.hpp"

namespace hashnms {

struct LabelGroups {
  LargeArray<uint32_t> rows;   // increasing within a group
  std::vector<size_t> starts;  // of the groups in them, and their end

  // Of increasing rows; labels may be null, then there is one group.
  LabelGroups(LargeArray<uint32_t> some_rows, const int64_t* labels) : rows(std::move(some_rows)), starts{0} {
    if (rows.size() == 0) return;
    if (labels) sort_by(labels);
    starts.push_back(rows.size());
  }

  size_t count() const { return starts.size() - 1; }
  size_t size(size_t group) const { return starts[group + 1] - starts[group]; }
  const uint32_t* begin(size_t group) const { return rows.data() + starts[group]; }

 private:
  void sort_by(const int64_t* labels) {
    Claims<double> claims(rows.size());  // whose ranks are the labels, in their order: so they differ in few bits
    for (size_t k = 0; k < rows.size(); ++k) {
      claims[k] = Claim<double>::ranked(static_cast<uint64_t>(labels[rows[k]]) + (uint64_t(1) << 63), rows[k]);
    }
    sort_claims(claims);
    for (size_t k = 0; k < rows.size(); ++k) {
      rows[k] = claims[k].box();
      if (k > 0 && claims[k].rank() != claims[k - 1].rank()) starts.push_back(k);
    }
  }
};

// The rows with a score that fits.
template <class Score, class Fits>
LargeArray<uint32_t> rows_with(const Score* scores, size_t count, const Fits& fits) {
  LargeArray<uint32_t> rows(count);
  size_t found = 0;
  for (size_t row = 0; row < count; ++row) {
    rows[found] = static_cast<uint32_t>(row);
    found += fits(scores[row]);
  }
  rows.shrink(found);
  return rows;
}

}  // namespace hashnms
