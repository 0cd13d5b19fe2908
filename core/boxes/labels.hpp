// Labels: rows label by label, and labels as small integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "boxes/claims.hpp"
#include "boxes/scan.hpp"
#include "support/large_array.hpp"

namespace hashnms {

// Rows of the input, label by label.
struct LabelGroups {
  LargeArray<uint32_t> rows;   // increasing within a group
  std::vector<size_t> starts;  // where each group starts in rows, and the end

  // Rows must increase. If labels are null, there is one group.
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
    Claims<double> claims(rows.size());  // ranks are the labels, in order, so they differ in few bits
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

// Labels numbered from 0; equal labels have equal numbers.
struct NumberedLabels {
  LargeArray<int64_t> numbers;  // of each row
  int64_t count;

  NumberedLabels(const int64_t* labels, size_t rows) : numbers(rows) {
    const LabelGroups groups(rows_with(labels, rows, [](int64_t) { return true; }), labels);
    count = static_cast<int64_t>(groups.count());
    for (size_t group = 0; group < groups.count(); ++group) {
      for (size_t k = groups.starts[group]; k < groups.starts[group + 1]; ++k) {
        numbers[groups.rows[k]] = static_cast<int64_t>(group);
      }
    }
  }
};

// An integer as wide as T, so that both are compared in the same vector lanes.
template <class T>
using LabelId = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// Labels as such integers: unchanged if T is wide enough, otherwise counted from the least, otherwise numbered. Null
// labels are all the same.
template <class T>
class LabelIds {
 public:
  LabelIds(const int64_t* labels, size_t count) : labels_(labels), numbered_(0) {
    if (!labels || count == 0 || sizeof(T) == 8) return;
    const LabelRange range = range_of_labels(labels, count);
    least_ = range.least;
    if (range.span() >> 32 == 0) return;
    numbered_ = NumberedLabels(labels, count).numbers;
    labels_ = numbered_.data();
    least_ = 0;
  }

  LabelId<T> operator[](size_t row) const {
    if (!labels_) return 0;
    return static_cast<LabelId<T>>(static_cast<uint64_t>(labels_[row]) - static_cast<uint64_t>(least_));
  }

 private:
  const int64_t* labels_;
  int64_t least_ = 0;
  LargeArray<int64_t> numbered_;
};

}  // namespace hashnms
