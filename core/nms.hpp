// Exact greedy NMS: by decreasing score, a box is kept unless a kept box of its label overlaps it too much.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "boxes/claims.hpp"
#include "boxes/images.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "boxes/scan.hpp"
#include "greedy/by_label.hpp"
#include "greedy/in_strips.hpp"
#include "greedy/keep.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/strips.hpp"
#include "greedy/suppressors.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

struct NmsOptions {
  Metric metric;           // of overlap
  double iou_threshold;    // a box is suppressed where it overlaps a kept one by more,
  bool inclusive;          // or by just that; then the threshold is above 0
  double score_threshold;  // boxes need a score above it; -inf for all
  size_t max_output;       // of each image
  int64_t* suppressor;  // of each box: where to write the kept box that removed it, itself, or -1; null if not wanted

  // A box is suppressed where it overlaps a kept one by more: what is at least a number is above the one before it.
  double threshold_above() const {
    return inclusive ? std::nextafter(iou_threshold, -std::numeric_limits<double>::infinity()) : iou_threshold;
  }
};

namespace detail {

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

// All labels and all boxes together, label by label, or strip by strip: whichever is fastest.
template <bool want_first, Metric metric, class T, class Score>
LargeArray<uint32_t> kept_rows(const Input<T, Score>& input, const NmsOptions& options, const Plan<T>& plan,
                               size_t threads, Suppressors& suppressors) {
  // A limit lets one thread stop early, of one image.
  const bool to_the_end = options.max_output >= input.count || input.images;
  const size_t parts = threads_for(input.count, tuning::kBoxesPerThread, threads);
  if (to_the_end && labels_serve(input, parts)) {
    return nms_by_label(input, options.score_threshold, parts, [&](RankedBoxes<T>& of_label) {
      keep_greedily<want_first, metric>(of_label, plan, of_label.size(), suppressors);
    });
  }
  const LabelIds<T> ids(input.labels, input.count);
  if (to_the_end && plan.rule.threshold < T(1)) {
    const auto strips = Strips::dividing(input, plan.rule, parts);
    if (strips.count() > 1) {
      return with_index<want_first, metric>(plan, [&]<class Index>() {
        return NmsInStrips<T, Score, Index>(input, ids, plan, strips, suppressors).rows(options.score_threshold);
      });
    }
  }
  RankedBoxes<T> ranked(input, ids, claims_above(input, options.score_threshold));
  keep_greedily<want_first, metric>(ranked, plan, to_the_end ? ranked.size() : options.max_output, suppressors);
  return std::move(ranked).kept_rows();
}

}  // namespace detail

// The kept rows by rank. Nothing if a number is not legal; the caller's other checks are trusted.
template <class T, class Score>
std::optional<LargeArray<uint32_t>> nms(const Input<T, Score>& given, const NmsOptions& options, size_t threads) {
  const Extents extents = extents_of(given.boxes, given.format, nullptr, given.count);
  if (!extents.legal || !all_finite(given.scores, given.count)) return std::nullopt;
  const PairLabels pairs(given);
  const auto input = pairs.of(given);
  const auto plan = Plan<T>::of(input, options.metric, options.threshold_above(), extents);
  Suppressors suppressors(options.suppressor, input.count);
  auto rows = with_metric(options.metric, [&]<Metric metric>() {
    return suppressors.wanted() ? detail::kept_rows<true, metric>(input, options, plan, threads, suppressors)
                                : detail::kept_rows<false, metric>(input, options, plan, threads, suppressors);
  });
  const size_t kept = rows.size();
  keep_first_of_images(rows, input.images, input.count, options.max_output, [](uint32_t row) { return row; });
  if (rows.size() < kept) suppressors.forget_all_except(rows, input.count);
  return rows;
}

}  // namespace hashnms
