// Open addressing from the key of a cell to the best claim on it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "cell_key.hpp"
#include "dispatch.hpp"
#include "large_array.hpp"

namespace hashnms {

// Buckets of two slots, searched without a branch; a full bucket spills into the next. At most three quarters full.
template <class Key, class Claim>
class CellMap {
 public:
  // Where the keys of a map agree in the leading bits of their hash, those are not used.
  explicit CellMap(size_t cells, int known_bits = 0)
      : buckets_(std::bit_ceil(2 * cells / 3 + 2), Filled::with_zeros),
        shift_(64 - std::countr_zero(buckets_.size())),
        known_bits_(known_bits) {}

  // Where the search for a key begins.
  size_t place_of(const Key& key) const { return static_cast<size_t>((hash_of(key) << known_bits_) >> shift_); }

  void prefetch(size_t place) const { hashnms::prefetch(&buckets_[place]); }

  // The greatest claim wins the cell, whatever the order they come in. True if the cell is new.
  bool offer(const Key& key, size_t place, Claim claim) {
    for (;; place = (place + 1) & (buckets_.size() - 1)) {
      Bucket& bucket = buckets_[place];
      Slot& slot = bucket.slots[is_other(bucket.slots[0].key, key)];
      if (is_other(slot.key, key)) continue;
      const bool is_new = !slot.claim.exists();
      slot.key = key;
      slot.claim.raise_to(claim);
      return is_new;
    }
  }

  // Writes the winners, whose number offer() has told, in no particular order.
  void write_winners(size_t count, Claim* winners) const {
    size_t written = 0;
    for (const Bucket* bucket = buckets_.begin(); written < count; ++bucket) {
      for (const Slot& slot : bucket->slots) {
        if (written == count) return;
        winners[written] = slot.claim;
        written += slot.claim.exists();
      }
    }
  }

 private:
  struct Slot {  // all zero: empty
    Key key;
    Claim claim;
  };
  struct Bucket {
    Slot slots[2];
  };

  LargeArray<Bucket> buckets_;
  int shift_, known_bits_;
};

}  // namespace hashnms
