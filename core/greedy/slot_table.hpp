// Open addressing from 32-bit hashes to slots. Keys with the same hash share a slot, so users check what they find in
// it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "greedy/cell_hash.hpp"
#include "support/dispatch.hpp"
#include "support/large_array.hpp"
#include "support/work.hpp"

namespace hashnms {

// A Slot has `hash` and `head`, which is 0 if it is empty.
template <class Slot>
class SlotTable {
 public:
  // Null if there is none.
  HASHNMS_INLINE const Slot* find(uint32_t hash) const {
    for (size_t place = place_of(hash);; place = following(place)) {
      count_work();
      const Slot& slot = slots_[place];
      if (slot.head == 0) return nullptr;
      if (slot.hash == hash) return &slot;
    }
  }

  // The slot of the hash, or an empty one to be used for it.
  Slot& at(uint32_t hash) {
    if (4 * (used_ + 1) > 3 * slots_.size()) grow();
    size_t place = place_of(hash);
    while (slots_[place].head != 0 && slots_[place].hash != hash) place = following(place);
    if (slots_[place].head == 0) {
      slots_[place].hash = hash;
      ++used_;
    }
    return slots_[place];
  }

  // Probably the slot of the hash: a guess, to be fetched before it is needed.
  const Slot& likely(uint32_t hash) const { return slots_[place_of(hash)]; }

  size_t capacity() const { return slots_.size(); }

  template <class Use>
  void for_each(const Use& use) const {
    for (const Slot& slot : slots_) {
      if (slot.head != 0) use(slot);
    }
  }

 private:
  static constexpr size_t kFewest = 1024;

  size_t place_of(uint32_t hash) const { return mixed(hash) >> shift_; }
  size_t following(size_t place) const { return (place + 1) & (slots_.size() - 1); }

  void grow() {
    const LargeArray<Slot> old = std::exchange(slots_, LargeArray<Slot>(2 * slots_.size(), Filled::with_zeros));
    --shift_;
    for (const Slot& slot : old) {
      if (slot.head == 0) continue;
      size_t place = place_of(slot.hash);
      while (slots_[place].head != 0) place = following(place);
      slots_[place] = slot;
    }
  }

  LargeArray<Slot> slots_{kFewest, Filled::with_zeros};
  size_t used_ = 0;
  int shift_ = 32 - std::countr_zero(kFewest);
};

}  // namespace hashnms
