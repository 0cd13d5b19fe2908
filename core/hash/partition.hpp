// Divides many keys by their hash into parts that fit into the cache, each with its claims. Parts share no cell, so
// threads can process them independently.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "hash/cell_key.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

template <class Claim>
class Partition {
 public:
  // The number of leading bits of the hash that choose a part; 0 if there are too few keys to gain from parts. One
  // thread gains if its map would not fit into the cache, several threads as soon as they are worth starting.
  static int bits_for(size_t count, size_t threads) {
    const size_t few_keys = threads == 1 ? tuning::kManyKeys : tuning::kManyKeysThreaded;
    return count < few_keys ? 0 : std::countr_zero(std::bit_ceil(count / tuning::kKeysPerPart));
  }

  Partition(const PackedKey* keys, const Claim* claims, size_t count, uint64_t seed, int bits, size_t threads)
      : keys_(count), claims_(count), starts_((size_t(1) << bits) + 1) {
    const size_t parts = size_t(1) << bits;
    const auto part_of = [=](PackedKey key) { return static_cast<size_t>(hash_of(key, seed) >> (64 - bits)); };
    // next[thread][part]: where the thread puts its next key of the part.
    std::vector<std::vector<size_t>> next(threads, std::vector<size_t>(parts));
    const auto for_range = [=](size_t thread, const auto& use) {
      const size_t first = count * thread / threads;
      for_each_piece(count * (thread + 1) / threads - first, [&](size_t begin, size_t end) {
        for (size_t k = first + begin; k < first + end; ++k) use(k);
      });
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

  // Calls filter(keys, claims, count) on each part, which moves the claims to keep to the front and returns their
  // number. Returns the kept claims of all parts.
  template <class Filter>
  LargeArray<Claim> filtered(size_t threads, const Filter& filter) && {
    const size_t parts = starts_.size() - 1;
    std::vector<size_t> kept(parts);
    run_queue(threads, parts, [&](size_t part, size_t) {
      const size_t start = starts_[part];
      kept[part] = filter(keys_.data() + start, claims_.data() + start, starts_[part + 1] - start);
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
  LargeArray<PackedKey> keys_;
  LargeArray<Claim> claims_;
  std::vector<size_t> starts_;
};

}  // namespace hashnms
