// Merges sorted lists of claims into one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "boxes/claims.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// The rows of all claims, greatest first. They are divided into parts of about equal numbers, from the greatest claims
// to the least: each part is sorted in the cache, by whichever thread is idle.
template <class Score>
LargeArray<uint32_t> merged_rows(const std::vector<std::vector<Claim<Score>>>& lists, size_t threads) {
  using Item = Claim<Score>;
  const auto greater = [](const Item& a, const Item& b) { return b < a; };
  size_t total = 0;
  for (const auto& list : lists) total += list.size();
  const size_t parts = (total >> tuning::kLogClaimsMerged) + 1;
  std::vector<Item> sample;
  const size_t step = total / (parts * 64) + 1;
  for (const auto& list : lists) {
    for (size_t k = step / 2; k < list.size(); k += step) sample.push_back(list[k]);
  }
  std::sort(sample.begin(), sample.end(), greater);

  std::vector<std::vector<size_t>> begins(parts + 1, std::vector<size_t>(lists.size()));  // of parts, in each list
  std::vector<size_t> starts(parts + 1);                                                  // of parts, in the result
  for (size_t part = 1; part <= parts; ++part) {
    for (size_t k = 0; k < lists.size(); ++k) {
      const auto& list = lists[k];
      const auto begin =
          part == parts ? list.end()
                        : std::lower_bound(list.begin(), list.end(), sample[part * sample.size() / parts], greater);
      begins[part][k] = static_cast<size_t>(begin - list.begin());
      starts[part] += begins[part][k];
    }
  }
  LargeArray<uint32_t> rows(total);
  run_queue(threads, parts, [&](size_t part, size_t) {
    Claims<Score> claims(starts[part + 1] - starts[part]);
    Item* end = claims.begin();
    for (size_t k = 0; k < lists.size(); ++k) {
      end = std::copy(lists[k].begin() + begins[part][k], lists[k].begin() + begins[part + 1][k], end);
    }
    sort_claims(claims);
    std::transform(claims.begin(), claims.end(), rows.begin() + starts[part], [](const Item& c) { return c.box(); });
  });
  return rows;
}

}  // namespace hashnms
