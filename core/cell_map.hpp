// Open addressing from the key of a cell to the best claim on it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "zeroed_array.hpp"

namespace hashnms {

// Buckets of two slots, searched without a branch; a full bucket spills into the next. At most three quarters full.
template <class Key, class Claim>
class CellMap {
 public:
  explicit CellMap(size_t cells) : CellMap(BucketCount{std::bit_ceil(2 * cells / 3 + 2)}) {}

  size_t bytes() const { return buckets_.size() * sizeof(Bucket); }

  // Makes room for so many more cells, to be called before they come.
  void make_room(size_t cells) {
    if (size_ + cells <= buckets_.size() * 3 / 2) return;
    CellMap larger(BucketCount{2 * std::bit_ceil(buckets_.size() + cells)});
    for (const Bucket& bucket : buckets_) {
      for (const Slot& slot : bucket.slots) {
        if (slot.claim.exists()) larger.offer(slot.key, larger.place_of(slot.key), slot.claim);
      }
    }
    larger.size_ = size_;
    *this = std::move(larger);
  }

  // Where the search for a key begins.
  size_t place_of(const Key& key) const { return static_cast<size_t>(hash_of(key) >> shift_); }

  void prefetch([[maybe_unused]] size_t place) const {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(&buckets_[place], 1);
#endif
  }

  // The greatest claim wins the cell, whatever the order they come in. True if the cell is new: the caller adds the
  // new ones up and tells add_size(), which spares this loop a counter in memory.
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
  void add_size(size_t cells) { size_ += cells; }

  // Appends the winners, in no particular order.
  void append_winners(std::vector<Claim>& winners) const {
    size_t end = winners.size();
    winners.resize(end + size_ + 1);  // one more, to write before knowing whether it counts
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
  struct BucketCount {
    size_t value;
  };

  explicit CellMap(BucketCount count) : buckets_(count.value), shift_(64 - std::countr_zero(count.value)) {}

  ZeroedArray<Bucket> buckets_;
  int shift_;
  size_t size_ = 0;
};

}  // namespace hashnms
