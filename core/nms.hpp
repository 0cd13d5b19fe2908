// Exact greedy NMS: by decreasing score, a box is kept unless a kept box of its label overlaps it too much.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "box.hpp"
#include "dispatch.hpp"
#include "extents.hpp"
#include "input.hpp"
#include "kept_grid.hpp"
#include "kept_list.hpp"
#include "kept_odd.hpp"
#include "kept_pyramid.hpp"
#include "label_ids.hpp"
#include "large_array.hpp"
#include "nms_few.hpp"
#include "nms_labels.hpp"
#include "nms_strips.hpp"
#include "overlap_rule.hpp"
#include "parallel.hpp"
#include "rank.hpp"
#include "ranked_boxes.hpp"
#include "strips.hpp"
#include "suppressors.hpp"

namespace hashnms {

struct NmsOptions {
  double iou_threshold;
  double score_threshold;  // boxes need a score above it; -inf for all
  size_t max_output;
  int64_t* suppressor;  // of each box: where to write the kept box that removed it, itself, or -1; null if not wanted
};

namespace detail {

// Goes on until `stop` boxes are kept; where that is `most`, the limit, suppressors of the rest are still found if they
// are wanted. An Index files kept boxes and finds one that overlaps a given box.
template <class T, class Index>
HASHNMS_INLINE void keep_until(RankedBoxes<T>& ranked, size_t stop, size_t most, Index& index,
                               Suppressors& suppressors) {
  typename Index::Cells cells;
  for (size_t k = Index::Cells::kBoxes; !ranked.done(); ++ranked.next, ++k) {
    if (ranked.kept == stop && !(stop == most && suppressors.wanted())) return;
    if (k == Index::Cells::kBoxes) {
      index.look_at(ranked, ranked.next, cells);
      k = 0;
    }
    const Corners<T> box = ranked.corners[ranked.next];
    const LabelId<T> label = ranked.label(ranked.next);
    const uint32_t row = ranked.rows[ranked.next];
    const uint32_t found = index.find(box, label, cells, k);
    if (found != kNone) {
      suppressors.set(row, ranked.rows[found]);
    } else if (ranked.kept < most) {
      ranked.keep(box, label, row);
      index.add(box, label, cells, k);
      suppressors.set(row, row);
    }
  }
}

HASHNMS_VECTOR_CLONES static void keep_with_list(RankedBoxes<float>& ranked, size_t stop, size_t most,
                                                 KeptList<float>& list, Suppressors& suppressors) {
  keep_until(ranked, stop, most, list, suppressors);
}
HASHNMS_VECTOR_CLONES static void keep_with_list(RankedBoxes<double>& ranked, size_t stop, size_t most,
                                                 KeptList<double>& list, Suppressors& suppressors) {
  keep_until(ranked, stop, most, list, suppressors);
}

// The claims of the boxes that take part, greatest first.
template <class T, class Score>
Claims<Score> claims_above(const Input<T, Score>& input, double score_threshold) {
  Claims<Score> claims(input.count);
  size_t taking_part = 0;
  for (size_t row = 0; row < input.count; ++row) {
    claims[taking_part] = input.claim(row);
    taking_part += static_cast<double>(input.scores[row]) > score_threshold;
  }
  claims.shrink(taking_part);
  sort_claims(claims);
  return claims;
}

// No IoU is above 1: at that threshold nothing is suppressed, and nothing need be filed.
template <class T>
struct KeptNothing {
  using Cells = typename KeptList<T>::Cells;
  KeptNothing(const OverlapRule<T>&, const RankedBoxes<T>&) {}
  void look_at(const RankedBoxes<T>&, size_t, Cells&) const {}
  void add(const Corners<T>&, LabelId<T>, const Cells&, size_t) {}
  uint32_t find(const Corners<T>&, LabelId<T>, const Cells&, size_t) const { return kNone; }
};

// The one rule that decides how kept boxes are found, from what benchmarks/nms.py --iou measured: by a list while they
// are few, then by the grid, or the pyramid where the threshold is low.
template <class T>
bool grid_serves(const OverlapRule<T>& rule) {
  return rule.certain > 0.34;
}
template <class T>
size_t few_kept(const OverlapRule<T>& rule) {
  return grid_serves(rule) ? 64 : std::max<size_t>(512, 32 * rule.num_shapes);
}

// Files the boxes kept so far and goes on.
template <class Index, class T>
void keep_with(RankedBoxes<T>& ranked, const OverlapRule<T>& rule, size_t most, Suppressors& suppressors) {
  Index index(rule, ranked);
  typename Index::Cells cells;
  constexpr size_t kBoxes = Index::Cells::kBoxes;
  for (size_t k = 0; k < ranked.kept; ++k) {
    if (k % kBoxes == 0) index.look_at(ranked, k, cells);
    index.add(ranked.corners[k], ranked.label(k), cells, k % kBoxes);
  }
  keep_until(ranked, most, most, index, suppressors);
}

template <bool first, class T>
void keep_greedily(RankedBoxes<T>& ranked, const OverlapRule<T>& rule, size_t most, Suppressors& suppressors) {
  if (rule.threshold >= T(1)) return keep_with<KeptNothing<T>>(ranked, rule, most, suppressors);
  if (ranked.size() <= kFewRanked<T>) return keep_few(ranked, rule.threshold, most, suppressors);
  KeptList<T> list(rule.threshold);
  keep_with_list(ranked, std::min(most, few_kept(rule)), most, list, suppressors);
  if (ranked.done() || ranked.kept == most) return;
  using Grid = KeptGrid<T, first>;
  using Pyramid = KeptPyramid<T, first>;
  if (grid_serves(rule)) {
    if (rule.all_are_safe()) return keep_with<Grid>(ranked, rule, most, suppressors);
    return keep_with<WithOddBoxes<Grid, T, first>>(ranked, rule, most, suppressors);
  }
  if (rule.all_are_safe()) return keep_with<Pyramid>(ranked, rule, most, suppressors);
  return keep_with<WithOddBoxes<Pyramid, T, first>>(ranked, rule, most, suppressors);
}

inline constexpr size_t kBoxesPerStrip = size_t(1) << 16;

template <bool first, class T, class Score>
LargeArray<uint32_t> kept_rows(const Input<T, Score>& input, const NmsOptions& options, const OverlapRule<T>& rule,
                               size_t threads, Suppressors& suppressors) {
  // A limit lets one thread stop early.
  const bool to_the_end = options.max_output >= input.count;
  const size_t parts = threads_for(input.count, kBoxesPerStrip, threads);
  if (to_the_end && labels_serve(input, parts)) {
    return nms_by_label(input, options.score_threshold, parts, [&](RankedBoxes<T>& of_label) {
      keep_greedily<first>(of_label, rule, of_label.size(), suppressors);
    });
  }
  const LabelIds<T> ids(input.labels, input.count);
  if (to_the_end && rule.threshold < T(1) && rule.all_are_safe()) {  // boxes of odd sizes are rare
    const auto strips = Strips::dividing(input, ids, rule, parts);
    if (strips.count() > 1) {
      const auto run = [&]<class Index>() {
        return NmsInStrips<T, Score, Index>(input, ids, rule, strips, suppressors).rows(options.score_threshold);
      };
      return grid_serves(rule) ? run.template operator()<KeptGrid<T, first>>()
                               : run.template operator()<KeptPyramid<T, first>>();
    }
  }
  RankedBoxes<T> ranked(input, ids, claims_above(input, options.score_threshold));
  keep_greedily<first>(ranked, rule, options.max_output, suppressors);
  return std::move(ranked).kept_rows();
}

}  // namespace detail

// The kept rows by rank. Nothing if a number is not legal; the caller's other checks are trusted.
template <class T, class Score>
std::optional<LargeArray<uint32_t>> nms(const Input<T, Score>& input, const NmsOptions& options, size_t threads) {
  const Extents extents = extents_of(input.boxes, input.format, nullptr, input.count);
  if (!extents.legal || !all_finite(input.scores, input.count)) return std::nullopt;
  auto rule = OverlapRule<T>::of(options.iou_threshold, extents);
  const bool needs_pyramid = !detail::grid_serves(rule) || !rule.all_are_safe();
  if (needs_pyramid && input.count > detail::few_kept(rule)) choose_shapes(input, rule);
  Suppressors suppressors(options.suppressor, input.count);
  return suppressors.wanted() ? detail::kept_rows<true>(input, options, rule, threads, suppressors)
                              : detail::kept_rows<false>(input, options, rule, threads, suppressors);
}

}  // namespace hashnms
