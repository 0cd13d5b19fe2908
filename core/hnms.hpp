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

// Gathers the winners of the cells, and the boxes without one, among the boxes whose key `is_mine`.
template <class Key, class T, class Score, class Mine>
void append_winners(const Key* keys, const BoxView<T>& view, const Score* scores, size_t cells_at_most,
                    const Mine& is_mine, Claims<Score>& winners) {
  CellMap<Key, Claim<Score>> cells(cells_at_most);
  constexpr size_t kCache = 256 * 1024;
  const size_t lookahead = cells.bytes() > kCache ? 16 : view.count;
  size_t cell_count = 0;
  for (size_t k = 0; k < view.count; ++k) {
    if (k + lookahead < view.count) cells.prefetch(keys[k + lookahead]);
    if (!is_mine(keys[k])) continue;
    const size_t row = view.row(k);
    const Claim<Score> claim(scores[row], static_cast<uint32_t>(row));
    if (keys[k] == Key{}) {
      winners.push_back(claim);
    } else {
      cell_count += cells.offer(keys[k], claim);
    }
  }
  cells.append_winners(cell_count, winners);
}

// Every thread reads all keys and takes the cells that fall to it, so one thread decides a cell.
template <class Key, class T, class Score>
Claims<Score> winners_of(const Key* keys, const BoxView<T>& view, const Score* scores, size_t threads) {
  std::vector<Claims<Score>> winners(threads);
  if (threads == 1) {
    append_winners(keys, view, scores, view.count, [](const Key&) { return true; }, winners[0]);
    return std::move(winners[0]);
  }
  run_parts(threads, [&](size_t part) {
    const auto is_mine = [&](const Key& key) { return (hash_of(key) >> 16) % threads == part; };
    const auto mine = static_cast<size_t>(std::count_if(keys, keys + view.count, is_mine));
    append_winners(keys, view, scores, mine, is_mine, winners[part]);
  });
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
    finite[part] =
        make_keys(view, hash, view.count * part / threads, view.count * (part + 1) / threads, keys.get());
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
