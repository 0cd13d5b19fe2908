// The boxes with the highest scores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "boxes/claims.hpp"
#include "boxes/images.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "support/large_array.hpp"

namespace hashnms {

struct TopOptions {
  double score_threshold;             // boxes need a score above it; -inf for all
  size_t most_of_label, most_in_all;  // of each image
};

// The boxes as claims, greatest first. Nothing if a number is invalid; the caller checks the rest.
template <class T, class Score>
std::optional<Claims<Score>> top_k(const Input<T, Score>& given, const TopOptions& options) {
  if (!given.is_valid()) return std::nullopt;
  const PairLabels pairs(given);
  const auto input = pairs.of(given);
  const LabelGroups groups(
      rows_with(input.scores, input.count, [&](Score score) { return double(score) > options.score_threshold; }),
      options.most_of_label < input.count ? input.labels : nullptr);
  Claims<Score> claims(groups.rows.size());
  Claim<Score>* end = claims.begin();
  for (size_t group = 0; group < groups.count(); ++group) {
    Claim<Score>* const begin = end;
    end = std::transform(groups.begin(group), groups.begin(group) + groups.size(group), begin,
                         [&](uint32_t row) { return input.claim(row); });
    end = move_greatest(begin, end, options.most_of_label);
  }
  if (!input.images) end = move_greatest(claims.begin(), end, options.most_in_all);
  claims.shrink(static_cast<size_t>(end - claims.begin()));
  sort_claims(claims);
  keep_first_of_images(claims, input.images, input.count, options.most_in_all, [](auto claim) { return claim.box(); });
  return claims;
}

}  // namespace hashnms
