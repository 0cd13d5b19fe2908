// Random numbers of this process for hashes, so that no input can be crafted to collide. Results do not depend on them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

namespace hashnms {

// An odd number for each k below kSeeds, by which a hash multiplies a word.
inline constexpr size_t kSeeds = 8;

inline uint64_t seed(size_t k) {
  static const std::array<uint64_t, kSeeds> seeds = [] {
    std::random_device random;
    std::array<uint64_t, kSeeds> all;
    for (uint64_t& one : all) one = (uint64_t{random()} << 32 | random()) | 1;
    return all;
  }();
  return seeds[k];
}

}  // namespace hashnms
