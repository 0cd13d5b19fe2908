// A Bloom filter with one bit per hash: a hash was certainly not added, or it may have been.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "greedy/cell_hash.hpp"
#include "support/dispatch.hpp"
#include "support/large_array.hpp"

namespace hashnms {

class BloomFilter {
 public:
  // Has 32 * words bits; words must be a power of two.
  explicit BloomFilter(size_t words) : words_(words, Filled::with_zeros), shift_(32 - std::countr_zero(words)) {}

  HASHNMS_INLINE bool may_have(uint32_t hash) const {
    const uint32_t bits = mixed(hash);
    return words_[bits >> shift_] >> bit_of(bits) & 1;
  }
  void add(uint32_t hash) {
    const uint32_t bits = mixed(hash);
    words_[bits >> shift_] |= uint32_t(1) << bit_of(bits);
  }
  size_t words() const { return words_.size(); }

 private:
  // The five bits after those that choose the word.
  HASHNMS_INLINE uint32_t bit_of(uint32_t bits) const { return bits >> std::max(shift_ - 5, 0) & 31; }

  LargeArray<uint32_t> words_;
  int shift_;
};

}  // namespace hashnms
