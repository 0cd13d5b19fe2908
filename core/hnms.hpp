// HNMS: the best box of each cell (Alg. 2), for K hashes one after another (Alg. 3).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "boxes/claims.hpp"
#include "boxes/images.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "boxes/scan.hpp"
#include "hash/cell_key.hpp"
#include "hash/iou_hash.hpp"
#include "hash/winners.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

namespace detail {

// One hash (Alg. 2) over the view's boxes and their claims; nothing if a box has no code.
template <class T, class Score>
std::optional<Claims<Score>> best_of_cells(const BoxView<T>& view, Claims<Score> claims, const Extents& extents,
                                           const IoUHash& hash, size_t threads) {
  if (const std::optional<KeyLayout> layout = KeyLayout::fit(extents, hash, kOffsetLimit<T>)) {
    LargeArray<PackedKey> keys(view.count);
    run_ranges(threads, view.count, [&](size_t first, size_t last) {
      for_each_piece(last - first, [&](size_t begin, size_t end) {
        make_keys(view, hash, *layout, first + begin, first + end, keys.data());
      });
    });
    return winners_of(keys.data(), std::move(claims), threads);
  }
  LargeArray<WideKey> keys(view.count);
  std::atomic<bool> fits = true;
  run_ranges(threads, view.count, [&](size_t first, size_t last) {
    for_each_piece(last - first, [&](size_t begin, size_t end) {
      if (!make_keys(view, hash, kOffsetLimit<T>, first + begin, first + end, keys.data())) fits = false;
    });
  });
  if (!fits) return std::nullopt;
  return winners_by_sorting(keys.data(), claims);
}

}  // namespace detail

// Which functions of a family: all, or a range.
struct Functions {
  size_t first, last;  // last is excluded

  explicit Functions(const HashFamily& family) : first(0), last(family.size()) {}
  explicit Functions(size_t only) : first(only), last(only + 1) {}
};

// The kept boxes as claims, greatest first. Nothing if a number is invalid or a box has no code; the caller checks the
// rest.
template <class T, class Score>
std::optional<Claims<Score>> hnms(const Input<T, Score>& given, const HashFamily& family, const Functions& functions,
                                  size_t threads) {
  const PairLabels pairs(given);
  const auto input = pairs.of(given);
  Extents extents = extents_of(input.boxes, input.format, input.labels, input.count);
  if (!extents.valid || !all_finite(input.scores, input.count)) return std::nullopt;
  Claims<Score> kept(input.count);
  if (input.count == 0) return kept;
  for (size_t row = 0; row < input.count; ++row) kept[row] = input.claim(row);
  BoxView<T> view{input.boxes, input.format, input.labels, nullptr, input.count};
  const auto fits = [&](const IoUHash& hash) { return KeyLayout::fit(extents, hash, kOffsetLimit<T>).has_value(); };
  std::optional<NumberedLabels> numbered;  // for labels too far apart to fit into keys
  if (input.labels && extents.labels.span() >= input.count && !family.with_hash(functions.first, fits)) {
    numbered.emplace(input.labels, input.count);
    view.labels = numbered->numbers.data();
    extents.labels = {0, numbered->count - 1};
  }
  std::vector<uint32_t> rows;
  for (size_t k = functions.first; k < functions.last; ++k) {
    auto best = family.with_hash(k, [&](const IoUHash& hash) {
      return detail::best_of_cells(view, std::move(kept), extents, hash,
                                   threads_for(view.count, tuning::kHashedPerThread, threads));
    });
    if (!best) return std::nullopt;
    kept = *std::move(best);
    if (k + 1 == functions.last) break;
    rows.resize(kept.size());
    std::transform(kept.begin(), kept.end(), rows.begin(), [](const auto& claim) { return claim.box(); });
    view.rows = rows.data();
    view.count = rows.size();
  }
  sort_claims(kept);
  return kept;
}

}  // namespace hashnms
