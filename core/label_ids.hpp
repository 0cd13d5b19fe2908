// Labels as integers as wide as T, so that both are compared in the same vector lanes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "dispatch.hpp"
#include "extents.hpp"

namespace hashnms {

template <class T>
using LabelId = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

HASHNMS_INLINE uint32_t hash_of_label(int64_t label) {
  const auto bits = static_cast<uint64_t>(label);
  return static_cast<uint32_t>(bits) * 0x165667b1u + static_cast<uint32_t>(bits >> 32) * 0x9e3779b1u;
}

// As they are if T is wide enough, else counted from the least, else by their rank. Null labels are all alike.
template <class T>
class LabelIds {
 public:
  LabelIds(const int64_t* labels, size_t count) : labels_(labels) {
    if (!labels || count == 0 || sizeof(T) == 8) return;
    const LabelRange range = range_of_labels(labels, count);
    least_ = range.least;
    if ((static_cast<uint64_t>(range.greatest) - static_cast<uint64_t>(range.least)) >> 32 == 0) return;
    ranks_.assign(labels, labels + count);
    std::sort(ranks_.begin(), ranks_.end());
    ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
  }

  LabelId<T> operator[](size_t row) const {
    if (!labels_) return 0;
    if (ranks_.empty())
      return static_cast<LabelId<T>>(static_cast<uint64_t>(labels_[row]) - static_cast<uint64_t>(least_));
    return static_cast<LabelId<T>>(std::lower_bound(ranks_.begin(), ranks_.end(), labels_[row]) - ranks_.begin());
  }

 private:
  const int64_t* labels_;
  int64_t least_ = 0;
  std::vector<int64_t> ranks_;
};

}  // namespace hashnms
