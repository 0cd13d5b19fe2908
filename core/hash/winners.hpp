// The best claim on each cell (Alg. 2), from the keys of the boxes' cells.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "boxes/claims.hpp"
#include "hash/cell_key.hpp"
#include "hash/cell_map.hpp"
#include "hash/partition.hpp"
#include "support/interrupt.hpp"
#include "support/large_array.hpp"
#include "support/seeds.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// keep_winners() moves the winners of the cells, and the claims without a cell, to the front, in no particular order,
// and returns their number.

// For few claims: each is compared with those before it, which is faster than a map.
template <class Score>
size_t keep_winners_of_few(const PackedKey* keys, Claim<Score>* claims, size_t count) {
  bool loses[tuning::kFewInCells] = {};
  for (size_t k = 1; k < count; ++k) {
    for (size_t other = 0; other < k; ++other) {
      if (keys[k] == keys[other] && keys[k] != PackedKey{}) loses[claims[k] < claims[other] ? k : other] = true;
    }
  }
  size_t kept = 0;
  for (size_t k = 0; k < count; ++k) {
    claims[kept] = claims[k];
    kept += !loses[k];
  }
  return kept;
}

// Positions sorted by key.
inline LargeArray<uint32_t> positions_by_key(const PackedKey* keys, size_t count) {
  Claims<double> ranked(count);
  for (size_t k = 0; k < count; ++k) ranked[k] = Claim<double>::ranked(keys[k], static_cast<uint32_t>(k));
  sort_claims(ranked);
  LargeArray<uint32_t> positions(count);
  std::transform(ranked.begin(), ranked.end(), positions.begin(), [](const auto& claim) { return claim.box(); });
  return positions;
}
// Positions of wide keys sorted by hash, so that equal hashes, nearly always equal keys, are adjacent.
inline LargeArray<uint32_t> positions_by_key(const WideKey* keys, size_t count) {
  LargeArray<PackedKey> hashes(count);
  for_each_piece(count, [&](size_t begin, size_t end) {
    std::transform(keys + begin, keys + end, hashes.begin() + begin, [](const WideKey& key) { return hash_of(key); });
  });
  LargeArray<uint32_t> positions = positions_by_key(hashes.data(), count);
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    bool all_equal = true;
    for (end = begin; end < count && hashes[positions[end]] == hashes[positions[begin]]; ++end) {
      all_equal &= keys[positions[end]] == keys[positions[begin]];
    }
    if (all_equal) continue;
    std::sort(positions.begin() + begin, positions.begin() + end,
              [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  }
  return positions;
}

// By sorting: slower than a map, but no keys can make it slow.
template <class Key, class Score>
Claims<Score> winners_by_sorting(const Key* keys, const Claims<Score>& claims) {
  const LargeArray<uint32_t> positions = positions_by_key(keys, claims.size());
  Claims<Score> winners(claims.size());
  size_t kept = 0;
  for (size_t k = 0; k < claims.size(); ++k) {
    const Key& key = keys[positions[k]];
    const bool shares_cell = k > 0 && key == keys[positions[k - 1]] && key != Key{};
    if (!shares_cell) winners[kept++] = {};
    winners[kept - 1].raise_to(claims[positions[k]]);
  }
  winners.shrink(kept);
  return winners;
}

// Combines the contents of a map with more claims by sorting, for a crowded map. Writes the winners and returns their
// number.
template <class Score>
size_t write_winners_of_both(const CellMap<Claim<Score>>& cells, size_t held, const PackedKey* more_keys,
                             const Claim<Score>* more_claims, size_t more, Claim<Score>* to) {
  LargeArray<PackedKey> keys(held + more);
  Claims<Score> claims(held + more);
  cells.write(held, keys.data(), claims.data());
  std::copy_n(more_keys, more, keys.begin() + held);
  std::copy_n(more_claims, more, claims.begin() + held);
  const Claims<Score> winners = winners_by_sorting(keys.data(), claims);
  std::copy(winners.begin(), winners.end(), to);
  return winners.size();
}

// With a map.
template <class Score>
size_t keep_winners(const PackedKey* keys, Claim<Score>* claims, size_t count, uint64_t seed, int known_bits) {
  if (count <= tuning::kFewInCells) return keep_winners_of_few(keys, claims, count);
  constexpr size_t kBlock = 64;
  CellMap<Claim<Score>> cells(count, seed, known_bits);
  size_t places[kBlock], without_cell = 0, winners = 0;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    for (size_t k = begin; k < end; ++k) {
      places[k - begin] = cells.place_of(keys[k]);
      cells.prefetch(places[k - begin]);
    }
    for (size_t k = begin; k < end; ++k) {
      if (keys[k] == PackedKey{}) {
        claims[without_cell++] = claims[k];
      } else {
        winners += cells.offer(keys[k], places[k - begin], claims[k]);
      }
    }
    if (cells.is_crowded()) {
      return without_cell +
             write_winners_of_both(cells, winners, keys + end, claims + end, count - end, claims + without_cell);
    }
  }
  cells.write(winners, nullptr, claims + without_cell);
  return without_cell + winners;
}

template <class Score>
Claims<Score> winners_of(const PackedKey* keys, Claims<Score> claims, size_t threads) {
  using Parts = Partition<Claim<Score>>;
  const uint64_t seed = hashnms::seed(0);
  const int bits = Parts::bits_for(claims.size(), threads);
  if (bits == 0) {
    claims.shrink(keep_winners(keys, claims.data(), claims.size(), seed, 0));
    return claims;
  }
  return Parts(keys, claims.data(), claims.size(), seed, bits, threads)
      .filtered(threads, [=](const PackedKey* some_keys, Claim<Score>* some_claims, size_t count) {
        return keep_winners(some_keys, some_claims, count, seed, bits);
      });
}

}  // namespace hashnms
