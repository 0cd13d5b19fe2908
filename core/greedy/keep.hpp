// Greedy NMS of ranked boxes: which are kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "boxes/metric.hpp"
#include "greedy/few.hpp"
#include "greedy/kept_grid.hpp"
#include "greedy/kept_list.hpp"
#include "greedy/kept_pyramid.hpp"
#include "greedy/overlap_rule.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/suppressors.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

namespace detail {

// Decides boxes until `stop` of them are kept. If `stop` is the limit `most` and suppressors are wanted, it still finds
// the suppressors of the rest. An Index stores kept boxes and finds one that overlaps a given box.
template <class T, class Index>
HASHNMS_INLINE void keep_until(RankedBoxes<T>& ranked, size_t stop, size_t most, Index& index,
                               Suppressors& suppressors) {
  const bool to_the_end = stop == most && suppressors.wanted();
  for_each_ranked(ranked, index, [&](const RankedBox<T>& box, const auto& prepared, size_t k) HASHNMS_INLINE_LAMBDA {
    if (ranked.kept == stop && !to_the_end) return false;
    const uint32_t found = index.find(box.corners, box.label, prepared, k);
    if (found != kNone) {
      suppressors.set(box.row, ranked.rows[found]);
    } else if (ranked.kept < most) {
      ranked.keep(box);
      index.add(box.corners, box.label, prepared, k);
      suppressors.set(box.row, box.row);
    }
    return true;
  });
}

template <class T>
HASHNMS_INLINE void keep_with_list_by(const OverlapRule<T>& rule, RankedBoxes<T>& ranked, size_t stop, size_t most,
                                      Suppressors& suppressors) {
  with_metric(rule.metric, [&]<Metric metric>() HASHNMS_INLINE_LAMBDA {
    KeptList<T, metric> list(rule.threshold);
    keep_until(ranked, stop, most, list, suppressors);
  });
}

HASHNMS_VECTOR_CLONES static void keep_with_list(const OverlapRule<float>& rule, RankedBoxes<float>& ranked,
                                                 size_t stop, size_t most, Suppressors& suppressors) {
  keep_with_list_by(rule, ranked, stop, most, suppressors);
}
HASHNMS_VECTOR_CLONES static void keep_with_list(const OverlapRule<double>& rule, RankedBoxes<double>& ranked,
                                                 size_t stop, size_t most, Suppressors& suppressors) {
  keep_with_list_by(rule, ranked, stop, most, suppressors);
}

// Stores the boxes kept so far in the index.
template <class T, class Index>
void file_kept(const RankedBoxes<T>& boxes, Index& index) {
  constexpr size_t kBoxes = Index::Prepared::kBoxes;
  typename Index::Prepared prepared;
  for (size_t k = 0; k < boxes.kept; ++k) {
    if (k % kBoxes == 0) index.prepare(boxes, k, prepared);
    index.add(boxes.corners[k], boxes.label(k), prepared, k % kBoxes);
  }
}

// No overlap is above 1.
template <class T>
void keep_all(RankedBoxes<T>& ranked, size_t most, Suppressors& suppressors) {
  ranked.kept = std::min(ranked.size(), most);
  for (size_t k = 0; k < ranked.kept; ++k) suppressors.set(ranked.rows[k], ranked.rows[k]);
}

}  // namespace detail

// Calls use.operator()<Index>() with the index of the plan.
template <bool want_first, Metric metric, class T, class Use>
decltype(auto) with_index(const Plan<T>& plan, const Use& use) {
  if constexpr (metric != Metric::ios) {  // sizes say nothing about it, so it has no grid
    if (plan.uses_grid) return use.template operator()<KeptGrid<T, want_first, metric>>();
  }
  return use.template operator()<KeptPyramid<T, want_first, metric>>();
}

// Moves the kept boxes, at most `most`, to the front. A suppressor is the first by rank, which needs want_first.
template <bool want_first, Metric metric, class T>
void keep_greedily(RankedBoxes<T>& ranked, const Plan<T>& plan, size_t most, Suppressors& suppressors) {
  if (plan.rule.threshold >= T(1)) return detail::keep_all(ranked, most, suppressors);
  if (ranked.size() <= kFewRanked<T>) return detail::keep_few(plan.rule, ranked, most, suppressors);
  detail::keep_with_list(plan.rule, ranked, std::min(most, plan.few_kept), most, suppressors);
  if (ranked.done() || ranked.kept == most) return;
  with_index<want_first, metric>(plan, [&]<class Index>() {
    Index index(plan, ranked);
    detail::file_kept(ranked, index);
    detail::keep_until(ranked, most, most, index, suppressors);
  });
}

}  // namespace hashnms
