// HNMS: the best box of each cell (Alg. 2), K hashes in a row (Alg. 3).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cell_key.hpp"
#include "cell_map.hpp"
#include "extents.hpp"
#include "input.hpp"
#include "iou_hash.hpp"
#include "large_array.hpp"
#include "parallel.hpp"
#include "partition.hpp"
#include "rank.hpp"

namespace hashnms {

namespace detail {

inline constexpr size_t kBoxesPerThread = size_t(1) << 16;

inline constexpr size_t kFewClaims = 24;

// keep_winners() of few boxes: each is compared with those before it, which is sooner than to file them.
template <class Key, class Score>
size_t keep_winners_of_few(const Key* keys, Claim<Score>* claims, size_t count) {
  bool loses[kFewClaims] = {};
  for (size_t k = 1; k < count; ++k) {
    for (size_t other = 0; other < k; ++other) {
      if (keys[k] == keys[other] && !(keys[k] == Key{})) loses[claims[k] < claims[other] ? k : other] = true;
    }
  }
  size_t kept = 0;
  for (size_t k = 0; k < count; ++k) {
    claims[kept] = claims[k];
    kept += !loses[k];
  }
  return kept;
}

// Moves the winners of the cells, and the boxes without one, to the front, in no particular order; their number.
template <class Key, class Score>
size_t keep_winners(const Key* keys, Claim<Score>* claims, size_t count, int known_bits) {
  if (count <= kFewClaims) return keep_winners_of_few(keys, claims, count);
  constexpr size_t kBlock = 64;
  CellMap<Key, Claim<Score>> cells(count, known_bits);
  size_t places[kBlock], without_cell = 0, winners = 0;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    for (size_t k = begin; k < end; ++k) {
      places[k - begin] = cells.place_of(keys[k]);
      cells.prefetch(places[k - begin]);
    }
    for (size_t k = begin; k < end; ++k) {
      if (keys[k] == Key{}) {
        claims[without_cell++] = claims[k];
      } else {
        winners += cells.offer(keys[k], places[k - begin], claims[k]);
      }
    }
  }
  cells.write_winners(winners, claims + without_cell);
  return without_cell + winners;
}

template <class Key, class Score>
Claims<Score> winners_of(const Key* keys, Claims<Score> claims, size_t threads) {
  using Parts = Partition<Key, Claim<Score>>;
  const int bits = Parts::bits_for(claims.size(), threads);
  if (bits == 0) {
    claims.shrink(keep_winners(keys, claims.data(), claims.size(), 0));
    return claims;
  }
  return Parts(keys, claims.data(), claims.size(), bits, threads)
      .filtered(threads, [=](const Key* some_keys, Claim<Score>* some_claims, size_t count) {
        return keep_winners(some_keys, some_claims, count, bits);
      });
}

// One hash (Alg. 2) over the view's boxes, whose claims these are; nothing if a box has no code.
template <class T, class Score>
std::optional<Claims<Score>> best_of_cells(const BoxView<T>& view, Claims<Score> claims, const Extents& extents,
                                           const IoUHash& hash, size_t threads) {
  if (const std::optional<KeyLayout> layout = KeyLayout::fit(extents, hash, kOffsetLimit<T>)) {
    LargeArray<PackedKey> keys(view.count);
    run_ranges(threads, view.count,
               [&](size_t begin, size_t end) { make_keys(view, hash, *layout, begin, end, keys.data()); });
    return winners_of(keys.data(), std::move(claims), threads);
  }
  LargeArray<WideKey> keys(view.count);
  std::atomic<bool> fits = true;
  run_ranges(threads, view.count, [&](size_t begin, size_t end) {
    if (!make_keys(view, hash, kOffsetLimit<T>, begin, end, keys.data())) fits = false;
  });
  if (!fits) return std::nullopt;
  return winners_of(keys.data(), std::move(claims), threads);
}

}  // namespace detail

// The kept boxes as claims, greatest first. Nothing if a number is not legal or a box has no code; the caller's
// other checks are trusted.
template <class T, class Score>
std::optional<Claims<Score>> hnms(const Input<T, Score>& input, const HashFamily& family, size_t threads) {
  const Extents extents = extents_of(input.boxes, input.format, input.labels, input.count);
  if (!extents.legal || !all_finite(input.scores, input.count)) return std::nullopt;
  Claims<Score> kept(input.count);
  if (input.count == 0) return kept;
  for (size_t row = 0; row < input.count; ++row) kept[row] = input.claim(row);
  BoxView<T> view{input.boxes, input.format, input.labels, nullptr, input.count};
  std::vector<uint32_t> rows;
  for (size_t k = 0; k < family.size(); ++k) {
    auto best = family.with_hash(k, [&](const IoUHash& hash) {
      return detail::best_of_cells(view, std::move(kept), extents, hash,
                                   threads_for(view.count, detail::kBoxesPerThread, threads));
    });
    if (!best) return std::nullopt;
    kept = *std::move(best);
    if (k + 1 == family.size()) break;
    rows.resize(kept.size());
    std::transform(kept.begin(), kept.end(), rows.begin(), [](const auto& claim) { return claim.box(); });
    view.rows = rows.data();
    view.count = rows.size();
  }
  sort_claims(kept);
  return kept;
}

}  // namespace hashnms
