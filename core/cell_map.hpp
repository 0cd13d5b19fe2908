// Open addressing from the key of a cell to the best claim on it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroed_array.hpp"

namespace hashnms {

// Buckets of two slots, searched without a branch; a full bucket spills into the next.
template <class Key, class Claim>
class CellMap {
 public:
  // At most three quarters full with `cells` cells in it; they must not be more.
  explicit CellMap(size_t cells)
      : buckets_(std::bit_ceil(2 * cells / 3 + 2)), shift_(64 - std::countr_zero(buckets_.size())) {}

  size_t bytes() const { return buckets_.size() * sizeof(Bucket); }

  void prefetch([[maybe_unused]] const Key& key) const {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(&buckets_[place_of(key)], 1);
#endif
  }

  // The greatest claim wins the cell, whatever the order they come in. True if the cell is new.
  bool offer(const Key& key, Claim claim) {
    for (size_t place = place_of(key);; place = (place + 1) & (buckets_.size() - 1)) {
      Bucket& bucket = buckets_[place];
      Slot& slot = bucket.slots[is_other(bucket.slots[0].key, key)];
      if (is_other(slot.key, key)) continue;
      const bool is_new = !slot.claim.exists();
      slot.key = key;
      slot.claim.raise_to(claim);
      return is_new;
    }
  }

  // Appends the winners, whose number is known from offer(), in no particular order.
  void append_winners(size_t count, std::vector<Claim>& winners) const {
    size_t end = winners.size();
    winners.resize(end + count + 1);  // one more, to write before knowing whether it counts
    for (const Bucket& bucket : buckets_) {
      for (const Slot& slot : bucket.slots) {
        winners[end] = slot.claim;
        end += slot.claim.exists();
      }
    }
    winners.resize(end);
  }

 private:
  struct Slot {  // all zero: empty
    Key key;
    Claim claim;
  };
  struct Bucket {
    Slot slots[2];
  };

  size_t place_of(const Key& key) const { return static_cast<size_t>(hash_of(key) >> shift_); }
  ZeroedArray<Bucket> buckets_;
  int shift_;
};

}  // namespace hashnms
