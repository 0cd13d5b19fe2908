// Memory that calls have freed, kept for the next ones: to map fresh pages takes the system about as long as a call of
// some ten thousand boxes takes to compute.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "support/tuning.hpp"

namespace hashnms {

// One store for all threads, of blocks between 64 KiB and 2 MiB: smaller ones malloc keeps itself, larger ones are soon
// paid for by what is done with them. If another thread is at it, malloc serves: nobody waits, not even a forked
// process whose parent was at it.
class SpareBlocks {
 public:
  // The size of the block that serves for so many bytes.
  static size_t rounded(size_t bytes) { return is_kept(bytes) ? std::bit_ceil(bytes) : bytes; }

  // A block of rounded(bytes), or null.
  static void* take(size_t bytes) {
    if (!is_kept(bytes)) return nullptr;
    const std::unique_lock lock(store().mutex, std::try_to_lock);
    if (!lock) return nullptr;
    for (Block& block : store().blocks) {
      if (block.data && block.bytes == rounded(bytes)) return std::exchange(block.data, nullptr);
    }
    return nullptr;
  }

  // Keeps or frees a block of rounded(bytes).
  static void give(void* data, size_t bytes) {
    if (data && is_kept(bytes)) {
      const std::unique_lock lock(store().mutex, std::try_to_lock);
      if (lock) {
        for (Block& block : store().blocks) {
          if (block.data) continue;
          block = {data, rounded(bytes)};
          return;
        }
      }
    }
    std::free(data);
  }

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };
  struct Store {
    std::mutex mutex;
    std::array<Block, 12> blocks;
  };

#if defined(__SANITIZE_ADDRESS__)
  static bool is_kept(size_t) { return false; }  // lets it see every use after free
#else
  static bool is_kept(size_t bytes) { return bytes >= tuning::kLeastSpareBlock && bytes <= tuning::kMostSpareBlock; }
#endif
  static Store& store() {
    static Store* const one = new Store;  // never destroyed: threads may outlive main
    return *one;
  }
};

}  // namespace hashnms
