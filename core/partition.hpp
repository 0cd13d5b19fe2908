// Many keys split by their hash into parts that fit the cache, each with its claims. Parts share no cell, so threads
// can take them one by one.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cell_key.hpp"
#include "large_array.hpp"
#include "parallel.hpp"

namespace hashnms {

template <class Key, class Claim>
class Partition {
 public:
  // The leading bits of the hash that name a part; 0 where there are too few keys to gain from parts: one thread
  // gains when its map would leave the cache, more threads as soon as they are worth starting (benchmarks/hnms.py).
  static int bits_for(size_t count, size_t threads) {
    constexpr size_t kKeysPerPart = size_t(1) << 13;
    const size_t few_keys = size_t(1) << (threads == 1 ? 20 : 17);
    return count < few_keys ? 0 : std::countr_zero(std::bit_ceil(count / kKeysPerPart));
  }

  Partition(const Key* keys, const Claim* claims, size_t count, int bits, size_t threads)
      : keys_(count), claims_(count), starts_((size_t(1) << bits) + 1) {
    const size_t parts = size_t(1) << bits;
    const auto part_of = [=](const Key& key) { return static_cast<size_t>(hash_of(key) >> (64 - bits)); };
    // next[thread][part]: where the thread puts its next key of the part.
    std::vector<std::vector<size_t>> next(threads, std::vector<size_t>(parts));
    const auto for_range = [=](size_t thread, const auto& use) {
      for (size_t k = count * thread / threads; k < count * (thread + 1) / threads; ++k) use(k);
    };
    run_parts(threads, [&](size_t thread) { for_range(thread, [&](size_t k) { ++next[thread][part_of(keys[k])]; }); });
    size_t total = 0;
    for (size_t part = 0; part < parts; ++part) {
      starts_[part] = total;
      for (std::vector<size_t>& of_thread : next) total += std::exchange(of_thread[part], total);
    }
    starts_[parts] = total;
    run_parts(threads, [&](size_t thread) {
      for_range(thread, [&](size_t k) {
        const size_t at = next[thread][part_of(keys[k])]++;
        keys_[at] = keys[k];
        claims_[at] = claims[k];
      });
    });
  }

  // Calls filter(keys, claims, count) on each part; it moves the claims to keep to the front and returns their number.
  // What is kept of all parts is returned.
  template <class Filter>
  LargeArray<Claim> filtered(size_t threads, const Filter& filter) && {
    const size_t parts = starts_.size() - 1;
    std::vector<size_t> kept(parts);
    std::atomic<size_t> next_part = 0;
    run_parts(threads, [&](size_t) {
      for (size_t part = next_part++; part < parts; part = next_part++) {
        const size_t start = starts_[part];
        kept[part] = filter(keys_.data() + start, claims_.data() + start, starts_[part + 1] - start);
      }
    });
    Claim* end = claims_.begin();
    for (size_t part = 0; part < parts; ++part) {
      const Claim* const first = claims_.begin() + starts_[part];
      end = std::copy(first, first + kept[part], end);
    }
    claims_.shrink(static_cast<size_t>(end - claims_.begin()));
    return std::move(claims_);
  }

 private:
  LargeArray<Key> keys_;
  LargeArray<Claim> claims_;
  std::vector<size_t> starts_;
};

}  // namespace hashnms
