// Greedy NMS of few boxes: each kept box is compared with all boxes after it, in vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "boxes/box.hpp"
#include "boxes/labels.hpp"
#include "boxes/lanes.hpp"
#include "boxes/metric.hpp"
#include "greedy/overlap_rule.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/suppressors.hpp"
#include "support/dispatch.hpp"

namespace hashnms::detail {

// Boxes by rank, at most kFewRanked<T>, and for each the rank of the kept box that removes it: its own if it is kept.
template <class T>
struct FewRanked {
  using Rank = LabelId<T>;  // as wide as T, for vectors
  static constexpr Rank kNobody = std::numeric_limits<Rank>::max();

  BoxLanes<T, kFewRanked<T>> boxes;
  T areas[kFewRanked<T>];
  LabelId<T> labels[kFewRanked<T>];
  Rank by[kFewRanked<T>];

  HASHNMS_INLINE explicit FewRanked(const RankedBoxes<T>& ranked) {
    for (size_t k = 0; k < ranked.size(); ++k) {
      boxes.set(k, ranked.corners[k]);
      areas[k] = ranked.corners[k].area();
      labels[k] = ranked.label(k);
      by[k] = kNobody;
    }
    // Unused lanes hold boxes without area, which overlap nothing.
    for (size_t k = ranked.size(); k % kTogether != 0; ++k) boxes.set(k, {}), areas[k] = 0, labels[k] = 0, by[k] = 0;
  }

  template <Metric metric>
  HASHNMS_INLINE void keep(size_t kept, size_t count, T threshold) {
    const Corners<T> box = boxes.get(kept);
    const T area = areas[kept];
    const LabelId<T> label = labels[kept];
    const Rank rank = by[kept] = static_cast<Rank>(kept);
    // From the first lane of its group. Boxes decided before keep their lower rank.
    for (size_t begin = kept / kTogether * kTogether; begin < count; begin += kTogether) {
      for (size_t k = begin; k < begin + kTogether; ++k) {
        const T overlap = overlap_of<metric>(box, area, boxes.get(k), areas[k]);
        const Rank removed_by = ((overlap > threshold) & (labels[k] == label)) ? rank : kNobody;
        by[k] = std::min(by[k], removed_by);
      }
    }
  }
};

template <Metric metric, class T>
HASHNMS_INLINE void keep_few_ranked(RankedBoxes<T>& ranked, T threshold, size_t most, Suppressors& suppressors) {
  const size_t count = ranked.size();
  FewRanked<T> few(ranked);
  uint32_t rows[kFewRanked<T>];
  std::copy(ranked.rows.begin(), ranked.rows.end(), rows);
  for (size_t k = 0; k < count && ranked.kept < most; ++k) {
    if (few.by[k] != few.kNobody) continue;
    few.template keep<metric>(k, count, threshold);
    ranked.keep({few.boxes.get(k), few.labels[k], rows[k]});
  }
  if (!suppressors.wanted()) return;
  for (size_t k = 0; k < count; ++k) {
    if (few.by[k] != few.kNobody) suppressors.set(rows[k], rows[few.by[k]]);
  }
}

template <class T>
HASHNMS_INLINE void keep_few_by(const OverlapRule<T>& rule, RankedBoxes<T>& ranked, size_t most,
                                Suppressors& suppressors) {
  with_metric(rule.metric, [&]<Metric metric>() HASHNMS_INLINE_LAMBDA {
    keep_few_ranked<metric>(ranked, rule.threshold, most, suppressors);
  });
}

HASHNMS_VECTOR_CLONES static void keep_few(const OverlapRule<float>& rule, RankedBoxes<float>& ranked, size_t most,
                                           Suppressors& suppressors) {
  keep_few_by(rule, ranked, most, suppressors);
}
HASHNMS_VECTOR_CLONES static void keep_few(const OverlapRule<double>& rule, RankedBoxes<double>& ranked, size_t most,
                                           Suppressors& suppressors) {
  keep_few_by(rule, ranked, most, suppressors);
}

}  // namespace hashnms::detail
