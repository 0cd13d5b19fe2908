// Open addressing from the key of a cell to the best claim on it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "hash/cell_key.hpp"
#include "support/dispatch.hpp"
#include "support/large_array.hpp"

namespace hashnms {

// Buckets of two slots, searched without a branch; a full bucket spills into the next. At most three quarters full.
template <class Claim>
class CellMap {
 public:
  // If all keys of a map share the leading bits of their hash, these bits are not used.
  CellMap(size_t cells, uint64_t seed, int known_bits)
      : buckets_(std::bit_ceil(2 * cells / 3 + 2), Filled::with_zeros),
        seed_(seed),
        shift_(64 - std::countr_zero(buckets_.size())),
        known_bits_(known_bits) {}

  // Where the search for a key begins.
  size_t place_of(PackedKey key) const { return static_cast<size_t>((hash_of(key, seed_) << known_bits_) >> shift_); }

  void prefetch(size_t place) const { hashnms::prefetch(&buckets_[place]); }

  // The greatest claim wins the cell, whatever the order of claims. True if the cell is new.
  bool offer(PackedKey key, size_t place, Claim claim) {
    for (size_t tried = 1;; place = (place + 1) & (buckets_.size() - 1)) {
      Bucket& bucket = buckets_[place];
      Slot& slot = bucket.slots[is_other(bucket.slots[0].key, key)];
      if (is_other(slot.key, key)) {
        is_crowded_ |= ++tried > kLongestRun;
        continue;
      }
      const bool is_new = !slot.claim.exists();
      slot.key = key;
      slot.claim.raise_to(claim);
      return is_new;
    }
  }

  // Whether many cells collide, so that searches take long: extremely unlikely, unless somebody knows the seed.
  bool is_crowded() const { return is_crowded_; }

  // Writes the keys, if wanted, and the claims of the cells, in no particular order. `count` is how often offer()
  // returned true.
  void write(size_t count, PackedKey* keys, Claim* claims) const {
    size_t written = 0;
    for (const Bucket* bucket = buckets_.begin(); written < count; ++bucket) {
      for (const Slot& slot : bucket->slots) {
        if (written == count) return;
        if (keys) keys[written] = slot.key;
        claims[written] = slot.claim;
        written += slot.claim.exists();
      }
    }
  }

 private:
  static constexpr size_t kLongestRun = 256;
  struct Slot {  // all zero: empty
    PackedKey key;
    Claim claim;
  };
  struct Bucket {
    Slot slots[2];
  };

  LargeArray<Bucket> buckets_;
  uint64_t seed_;
  int shift_, known_bits_;
  bool is_crowded_ = false;
};

}  // namespace hashnms
