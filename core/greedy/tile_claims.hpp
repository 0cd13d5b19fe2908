// The boxes of a call, tile by tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "boxes/claims.hpp"
#include "boxes/input.hpp"
#include "greedy/tiles.hpp"
#include "support/interrupt.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"

namespace hashnms {

// The claims of some rows of the input: in each of the tiles that a box touches.
template <class Score>
class TileClaims {
 public:
  // Tiles become one where the boxes touch so many, unlike the sample that these were made from, that they are no use.
  template <class T>
  TileClaims(const Input<T, Score>& input, const LargeArray<uint32_t>& rows, Tiles& tiles, size_t threads)
      : claims_(0) {
    if (tiles.count() > 1 && distribute(input, rows, tiles, threads)) return;
    tiles = tiles.undivided();
    claims_ = Claims<Score>(rows.size());
    std::transform(rows.begin(), rows.end(), claims_.begin(), [&](uint32_t row) { return input.claim(row); });
    starts_ = {0, rows.size()};
  }

  // Those of one tile, greatest first.
  Claims<Score> sorted(size_t tile) const {
    Claims<Score> claims(starts_[tile + 1] - starts_[tile]);
    std::copy(claims_.begin() + starts_[tile], claims_.begin() + starts_[tile + 1], claims.begin());
    sort_claims(claims);
    return claims;
  }

 private:
  static constexpr auto kSeveral = static_cast<uint16_t>(Tiles::kSeveral);

  // Whether it is any use.
  template <class T>
  bool distribute(const Input<T, Score>& input, const LargeArray<uint32_t>& rows, const Tiles& tiles, size_t threads) {
    LargeArray<uint16_t> tile_of(rows.size());  // of each row; kSeveral of one that touches several
    // Of each thread: how many in each tile; then where they go.
    std::vector<std::vector<size_t>> places(threads, std::vector<size_t>(tiles.count()));
    for_each_piece_of(rows, threads, [&](size_t part, size_t begin, size_t end) {
      size_t* const counts = places[part].data();
      tiles.for_each_located(input, rows, begin, end, [&](size_t k, uint32_t tile) HASHNMS_INLINE_LAMBDA {
        tile_of[k] = static_cast<uint16_t>(tile);
        if (tile != Tiles::kSeveral) {
          ++counts[tile];
        } else {
          tiles.for_each_touched(input.corners(rows[k]), [&](size_t touched) { ++counts[touched]; });
        }
      });
    });
    const size_t total = assign(places, tiles.count());
    if (total > 2 * rows.size()) return false;
    claims_ = Claims<Score>(total);
    for_each_piece_of(rows, threads, [&](size_t part, size_t begin, size_t end) {
      size_t* const next = places[part].data();
      for (size_t k = begin; k < end; ++k) {
        const Claim<Score> claim = input.claim(rows[k]);
        const auto put = [&](size_t tile) { claims_[next[tile]++] = claim; };
        if (tile_of[k] == kSeveral) {
          tiles.for_each_touched(input.corners(rows[k]), put);
        } else {
          put(tile_of[k]);
        }
      }
    });
    return true;
  }

  // Calls use(part, begin, end) for pieces of the rows: each thread for those of its part.
  template <class Use>
  static void for_each_piece_of(const LargeArray<uint32_t>& rows, size_t threads, const Use& use) {
    run_parts(threads, [&](size_t part) {
      const size_t first = rows.size() * part / threads, last = rows.size() * (part + 1) / threads;
      for_each_piece(last - first, [&](size_t begin, size_t end) { use(part, first + begin, first + end); });
    });
  }

  // Gives each thread its place in each tile, in exchange for its counts; how many there are in all.
  size_t assign(std::vector<std::vector<size_t>>& counts_of_threads, size_t tiles) {
    size_t total = 0;
    for (size_t tile = 0; tile < tiles; ++tile) {
      starts_.push_back(total);
      for (std::vector<size_t>& counts : counts_of_threads) total += std::exchange(counts[tile], total);
    }
    starts_.push_back(total);
    return total;
  }

  std::vector<size_t> starts_;  // of the tiles, and their end
  Claims<Score> claims_;
};

}  // namespace hashnms
