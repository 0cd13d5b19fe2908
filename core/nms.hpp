// Exact greedy NMS: by decreasing score, a box is kept unless a kept box of its label overlaps it too much.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "box.hpp"
#include "dispatch.hpp"
#include "extents.hpp"
#include "kept_grid.hpp"
#include "kept_list.hpp"
#include "label_ids.hpp"
#include "large_array.hpp"
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
  bool want_suppressor;
};

struct NmsResult {
  LargeArray<int64_t> keep;
  LargeArray<int64_t> suppressor;  // of each box: the kept box that removed it, itself, or -1; empty unless wanted
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
      index.look_at(&ranked.corners[ranked.next], &ranked.labels[ranked.next],
                    std::min(k, ranked.corners.size() - ranked.next), cells);
      k = 0;
    }
    const Corners<T> box = ranked.corners[ranked.next];
    const LabelId<T> label = ranked.labels[ranked.next];
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

template <class T, class Score>
Claims<Score> claims_above(const Input<T, Score>& input, double score_threshold) {
  Claims<Score> claims(input.count);
  size_t taking_part = 0;
  for (size_t row = 0; row < input.count; ++row) {
    claims[taking_part] = input.claim(row);
    taking_part += static_cast<double>(input.scores[row]) > score_threshold;
  }
  claims.shrink(taking_part);
  return claims;
}

// From how many kept boxes on the grid is faster than trying all (benchmarks/nms.py). The lower the threshold, the more
// differ the boxes that can suppress each other, the larger are the cells, and the more kept boxes lie in one.
inline size_t few_kept(double threshold) {
  if (threshold >= 0.35) return 96;
  return static_cast<size_t>(std::min(250.0 / (threshold * threshold), 0x1p40));
}

template <class Index, class T>
void keep_with(RankedBoxes<T>& ranked, const OverlapRule& rule, size_t most, Suppressors& suppressors) {
  Index index(rule, ranked.corners.data(), ranked.labels.data(), ranked.kept);
  keep_until(ranked, most, most, index, suppressors);
}

template <class T>
void keep_greedily(RankedBoxes<T>& ranked, const OverlapRule& rule, size_t most, Suppressors& suppressors) {
  KeptList<T> list(rounded_down<T>(rule.threshold));
  keep_with_list(ranked, std::min(most, few_kept(rule.threshold)), most, list, suppressors);
  if (ranked.done() || ranked.kept == most) return;
  if (rule.certain == 0) return keep_with_list(ranked, most, most, list, suppressors);
  if (suppressors.wanted()) {
    keep_with<KeptGrid<T, true>>(ranked, rule, most, suppressors);
  } else {
    keep_with<KeptGrid<T, false>>(ranked, rule, most, suppressors);
  }
}

}  // namespace detail

// Nothing if a number is not legal; the caller's other checks are trusted.
template <class T, class Score>
std::optional<NmsResult> nms(const Input<T, Score>& input, const NmsOptions& options, size_t threads) {
  const Extents extents = extents_of(input.boxes, input.format, nullptr, input.count);
  if (!extents.legal || !all_finite(input.scores, input.count)) return std::nullopt;
  const OverlapRule rule = OverlapRule::of<T>(options.iou_threshold, extents);
  const LabelIds<T> ids(input.labels, input.count);
  Suppressors suppressors(input.count, options.want_suppressor);
  if (options.max_output >= input.count && rule.certain > 0.35) {
    const auto strips = Strips::dividing(input, ids, threads_for(input.count, threads));
    if (strips.count() > 1) {
      auto keep =
          options.want_suppressor
              ? detail::nms_in_strips<KeptGrid<T, true>>(input, ids, options.score_threshold, rule, strips, suppressors)
              : detail::nms_in_strips<KeptGrid<T, false>>(input, ids, options.score_threshold, rule, strips,
                                                          suppressors);
      return NmsResult{std::move(keep), std::move(suppressors).take()};
    }
  }
  RankedBoxes<T> ranked(input, ids, detail::claims_above(input, options.score_threshold));
  detail::keep_greedily(ranked, rule, options.max_output, suppressors);
  NmsResult result{LargeArray<int64_t>(ranked.kept), std::move(suppressors).take()};
  std::copy_n(ranked.rows.begin(), ranked.kept, result.keep.begin());
  return result;
}

}  // namespace hashnms
