// Exact NMS label by label: what is looked up for the boxes of one label is small and stays in the cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "boxes/claims.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "greedy/ranked_boxes.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// Whether label by label is faster than all labels at once, judged by a sample. It is if there are many labels, or too
// many boxes for the cache. It is not if one label is so large that only one thread would be busy.
template <class T, class Score>
bool labels_serve(const Input<T, Score>& input, size_t threads) {
  if (!input.labels || input.count < tuning::kManyForLabels) return false;
  std::array<int64_t, 64> sample;
  for (size_t k = 0; k < sample.size(); ++k) sample[k] = input.labels[input.sampled_row(k)];
  std::sort(sample.begin(), sample.end());
  size_t labels = 0, most_of_one = 0;
  for (size_t begin = 0, end = 0; begin < sample.size(); begin = end, ++labels) {
    while (end < sample.size() && sample[end] == sample[begin]) ++end;
    most_of_one = std::max(most_of_one, end - begin);
  }
  const size_t enough_labels = input.count < tuning::kVeryManyForLabels ? tuning::kEnoughLabels : 2;
  const bool are_balanced = threads == 1 || 3 * most_of_one * threads <= 4 * sample.size();
  return labels >= enough_labels && are_balanced;
}

// The kept rows by rank. keep(boxes) gets the boxes of one label and moves the kept ones to the front.
template <class T, class Score, class Keep>
LargeArray<uint32_t> nms_by_label(const Input<T, Score>& input, double score_threshold, size_t threads,
                                  const Keep& keep) {
  const auto takes_part = [=](Score score) { return static_cast<double>(score) > score_threshold; };
  const LabelGroups groups(rows_with(input.scores, input.count, takes_part), input.labels);
  const Input<T, Score> unlabelled{input.boxes, input.format, input.scores, nullptr, nullptr, input.count};
  Claims<Score> claims(groups.rows.size());  // of kept boxes: first at the start of their group, then in front
  std::vector<size_t> kept(groups.count());
  run_queue(threads, groups.count(), [&](size_t group, size_t) {
    Claims<Score> of_group(groups.size(group));
    std::transform(groups.begin(group), groups.begin(group) + of_group.size(), of_group.begin(),
                   [&](uint32_t row) { return input.claim(row); });
    sort_claims(of_group);
    RankedBoxes<T> boxes(unlabelled, LabelIds<T>(nullptr, 0), of_group);
    keep(boxes);
    kept[group] = boxes.kept;
    std::transform(boxes.rows.begin(), boxes.rows.begin() + boxes.kept, claims.begin() + groups.starts[group],
                   [&](uint32_t row) { return input.claim(row); });
  });
  Claim<Score>* end = claims.begin();
  for (size_t group = 0; group < groups.count(); ++group) {
    const Claim<Score>* const first = claims.begin() + groups.starts[group];
    end = std::copy(first, first + kept[group], end);
  }
  claims.shrink(static_cast<size_t>(end - claims.begin()));
  sort_claims(claims);
  LargeArray<uint32_t> rows(claims.size());
  std::transform(claims.begin(), claims.end(), rows.begin(), [](const auto& claim) { return claim.box(); });
  return rows;
}

}  // namespace hashnms
