// Random numbers of this process: hashes are made with them, so that nobody can choose boxes or labels that collide.
// No answer depends on them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

namespace hashnms {

// An odd number for each k below kSeeds: what a hash multiplies a word by.
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
