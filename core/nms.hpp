// Exact greedy NMS: by decreasing score, a box is kept unless a kept box of its label overlaps it too much.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "boxes/claims.hpp"
#include "boxes/images.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "boxes/scan.hpp"
#include "greedy/by_label.hpp"
#include "greedy/in_tiles.hpp"
#include "greedy/keep.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/suppressors.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

struct NmsOptions {
  Metric metric;           // of overlap
  double iou_threshold;    // a box is suppressed if it overlaps a kept one by more,
  bool inclusive;          // or by exactly this much; the threshold is then above 0
  double score_threshold;  // boxes need a score above it; -inf for all
  size_t max_output;       // of each image
  int64_t* suppressor;     // written for each box: the kept box that removed it, itself, or -1; null if not wanted

  // A number is at least the threshold exactly if it is above the next lower number.
  double exclusive_threshold() const {
    return inclusive ? std::nextafter(iou_threshold, -std::numeric_limits<double>::infinity()) : iou_threshold;
  }
};

namespace detail {

// The extents of the boxes, and whether they and their scores are valid. Threads share the work.
template <class T, class Score>
Extents extents_of(const Input<T, Score>& input, size_t threads) {
  const auto of_rows = [&](size_t begin, size_t end) {
    Extents extents = hashnms::extents_of(input.boxes + 4 * begin, input.format, nullptr, end - begin);
    extents.valid = extents.valid && all_finite(input.scores + begin, end - begin);
    return extents;
  };
  if (threads == 1) return of_rows(0, input.count);
  std::vector<Extents> extents(threads);
  run_parts(threads, [&](size_t part) {
    extents[part] = of_rows(input.count * part / threads, input.count * (part + 1) / threads);
  });
  return std::accumulate(extents.begin() + 1, extents.end(), extents[0], joined);
}

// The claims of the boxes above the score threshold, greatest first.
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

// All boxes together, label by label, or tile by tile, whichever is fastest.
template <bool want_first, Metric metric, class T, class Score>
LargeArray<uint32_t> kept_rows(const Input<T, Score>& input, const NmsOptions& options, const Plan<T>& plan,
                               size_t threads, Suppressors& suppressors) {
  // With a limit and a single image, one thread can stop early.
  const bool to_the_end = options.max_output >= input.count || input.images;
  if (to_the_end && labels_serve(input, threads)) {
    return nms_by_label(input, options.score_threshold, threads, [&](RankedBoxes<T>& of_label) {
      keep_greedily<want_first, metric>(of_label, plan, of_label.size(), suppressors);
    });
  }
  const LabelIds<T> ids(input.labels, input.count);
  if (to_the_end && plan.rule.threshold < T(1) && wanted_tiles(input.count, threads) > 1) {
    const auto takes_part = [&](Score score) { return static_cast<double>(score) > options.score_threshold; };
    NmsInTiles<want_first, metric, T, Score> in_tiles(input, ids, plan, suppressors, threads);
    return in_tiles.kept(rows_with(input.scores, input.count, takes_part));
  }
  RankedBoxes<T> ranked(input, ids, claims_above(input, options.score_threshold));
  keep_greedily<want_first, metric>(ranked, plan, to_the_end ? ranked.size() : options.max_output, suppressors);
  return std::move(ranked).kept_rows();
}

}  // namespace detail

// The kept rows by rank. Nothing if a number is invalid; the caller checks the rest.
template <class T, class Score>
std::optional<LargeArray<uint32_t>> nms(const Input<T, Score>& given, const NmsOptions& options, size_t threads) {
  const size_t parts = threads_for(given.count, tuning::kBoxesPerThread, threads);
  const Extents extents = detail::extents_of(given, parts);
  if (!extents.valid) return std::nullopt;
  const PairLabels pairs(given);
  const auto input = pairs.of(given);
  const auto plan = Plan<T>::of(input, options.metric, options.exclusive_threshold(), extents);
  Suppressors suppressors(options.suppressor, input.count);
  auto rows = with_metric(options.metric, [&]<Metric metric>() {
    return suppressors.wanted() ? detail::kept_rows<true, metric>(input, options, plan, parts, suppressors)
                                : detail::kept_rows<false, metric>(input, options, plan, parts, suppressors);
  });
  const size_t kept = rows.size();
  keep_first_of_images(rows, input.images, input.count, options.max_output, [](uint32_t row) { return row; });
  if (rows.size() < kept) suppressors.forget_all_except(rows, input.count);
  return rows;
}

}  // namespace hashnms
