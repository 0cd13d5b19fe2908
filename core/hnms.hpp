// HNMS: the best box of each cell (Alg. 2), K hashes in a row (Alg. 3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cell_key.hpp"
#include "cell_map.hpp"
#include "extents.hpp"
#include "iou_hash.hpp"
#include "parallel.hpp"
#include "rank.hpp"

namespace hashnms {

template <class Score>
using Claims = std::vector<Claim<Score>>;

namespace detail {

// Every box may have a cell of its own; of very many, about half do, and a smaller map then saves more in page faults
// than growing it sometimes costs.
inline size_t expected_cells(size_t boxes) { return boxes < (size_t(1) << 18) ? boxes : boxes / 2; }

// Which part of the cells falls to a thread.
struct Share {
  size_t part, parts;

  template <class Key>
  bool holds(const Key& key) const {
    return (static_cast<uint32_t>(hash_of(key)) * static_cast<uint64_t>(parts)) >> 32 == part;
  }
};

// Gathers the winners of the share's cells, and its boxes without one. `shared` is false where the share is all.
template <bool shared, class Key, class T, class Score>
void append_winners(const Key* keys, const BoxView<T>& view, const Score* scores, const Share& share,
                    Claims<Score>& winners) {
  constexpr size_t kBlock = 64;
  CellMap<Key, Claim<Score>> cells(expected_cells(view.count / share.parts));
  size_t mine[kBlock], places[kBlock];
  Claim<Score> claims[kBlock];
  for (size_t begin = 0; begin < view.count; begin += kBlock) {
    size_t count = std::min(kBlock, view.count - begin);
    if constexpr (shared) {
      const size_t end = begin + std::exchange(count, 0);
      for (size_t k = begin; k < end; ++k) {  // chosen without a branch: nobody could predict it
        mine[count] = k;
        count += share.holds(keys[k]);
      }
    }
    const auto at = [&](size_t k) { return shared ? mine[k] : begin + k; };
    cells.make_room(count);
    for (size_t k = 0; k < count; ++k) {
      places[k] = cells.place_of(keys[at(k)]);
      cells.prefetch(places[k]);
    }
    for (size_t k = 0; k < count; ++k) {
      const size_t row = view.row(at(k));
      claims[k] = Claim<Score>(scores[row], static_cast<uint32_t>(row));
    }
    size_t found = 0;
    for (size_t k = 0; k < count; ++k) {
      const Key& key = keys[at(k)];
      if (key == Key{}) {
        winners.push_back(claims[k]);
      } else {
        found += cells.offer(key, places[k], claims[k]);
      }
    }
    cells.add_size(found);
  }
  cells.append_winners(winners);
}

// Every thread reads all keys and takes the cells of its share, so one thread decides a cell.
template <class Key, class T, class Score>
Claims<Score> winners_of(const Key* keys, const BoxView<T>& view, const Score* scores, size_t threads) {
  std::vector<Claims<Score>> winners(threads);
  if (threads == 1) {
    append_winners<false>(keys, view, scores, Share{0, 1}, winners[0]);
    return std::move(winners[0]);
  }
  run_parts(threads,
            [&](size_t part) { append_winners<true>(keys, view, scores, Share{part, threads}, winners[part]); });
  for (size_t part = 1; part < threads; ++part) {
    winners[0].insert(winners[0].end(), winners[part].begin(), winners[part].end());
  }
  return std::move(winners[0]);
}

// One hash (Alg. 2); nothing if a box has no code.
template <class T, class Score>
std::optional<Claims<Score>> best_of_cells(const BoxView<T>& view, const Score* scores, const Extents& extents,
                                           const IoUHash& hash, size_t threads) {
  if (const std::optional<KeyLayout> layout = KeyLayout::fit(extents, hash)) {
    const auto keys = std::make_unique_for_overwrite<PackedKey[]>(view.count);
    run_ranges(threads, view.count,
               [&](size_t begin, size_t end) { make_keys(view, hash, *layout, begin, end, keys.get()); });
    return winners_of(keys.get(), view, scores, threads);
  }
  const auto keys = std::make_unique_for_overwrite<WideKey[]>(view.count);
  std::vector<uint8_t> finite(threads, 1);
  run_parts(threads, [&](size_t part) {
    finite[part] = make_keys(view, hash, view.count * part / threads, view.count * (part + 1) / threads, keys.get());
  });
  if (std::count(finite.begin(), finite.end(), 0) > 0) return std::nullopt;
  return winners_of(keys.get(), view, scores, threads);
}

}  // namespace detail

// The kept boxes as claims, greatest first. Nothing if a number is not legal or a box has no code; the caller's
// other checks are trusted. Labels may be null.
template <class T, class Score>
std::optional<Claims<Score>> hnms(const T* boxes, BoxFormat format, const Score* scores, const int64_t* labels,
                                  size_t count, const HashFamily& family, size_t threads) {
  const Extents extents = extents_of(boxes, format, labels, count);
  if (!extents.legal || !all_finite(scores, count)) return std::nullopt;
  BoxView<T> view{boxes, format, labels, nullptr, count};
  Claims<Score> kept;
  if (count == 0) return kept;
  std::vector<uint32_t> selected;
  for (size_t k = 0; k < family.size(); ++k) {
    auto best = family.with_hash(k, [&](const IoUHash& hash) {
      return detail::best_of_cells(view, scores, extents, hash, threads_for(view.count, threads));
    });
    if (!best) return std::nullopt;
    kept = *std::move(best);
    if (k + 1 == family.size()) break;
    selected.resize(kept.size());
    std::transform(kept.begin(), kept.end(), selected.begin(), [](const auto& claim) { return claim.box(); });
    view.selected = selected.data();
    view.count = selected.size();
  }
  sort_claims(kept);
  return kept;
}

}  // namespace hashnms
