// Hashes of the cells that store kept boxes.
//
// The hash of a cell is the upper half of a sum: each number that names the cell, times a random factor. Two cells
// share a hash with a probability of about 2^-31. The factors of a process are secret, so nobody can choose cells that
// share one. The sum of the next cell along an axis is one factor greater.
#pragma once

#include <cstdint>

#include "support/dispatch.hpp"
#include "support/seeds.hpp"

namespace hashnms {

struct CellFactors {
  uint64_t x = seed(1), y = seed(2);           // of the cell's place
  uint64_t width = seed(3), height = seed(4);  // of its class of sizes
  uint64_t level = seed(5);                    // of its level, in a pyramid
  uint64_t label = seed(6);

  HASHNMS_INLINE uint64_t of_label(int64_t value) const { return static_cast<uint64_t>(value) * label; }
};

// Spreads hashes over a table. Sums of cells in a row have equal differences: without this, some factors would put them
// all into a few slots.
HASHNMS_INLINE uint32_t mixed(uint32_t hash) { return (hash ^ (hash >> 15)) * 0x2c1b3c6du; }

HASHNMS_INLINE uint32_t hash_of_sum(uint64_t sum) { return static_cast<uint32_t>(sum >> 32); }

}  // namespace hashnms
