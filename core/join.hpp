// Transitive groups: a box joins the group of the first box by rank that overlaps it, kept or not, within its label.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "boxes/claims.hpp"
#include "boxes/images.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "greedy/suppressors.hpp"
#include "joining/tree.hpp"
#include "nms.hpp"
#include "support/interrupt.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

namespace detail {

// The claims of some rows, greatest first.
template <class T, class Score>
Claims<Score> ranked_claims(const Input<T, Score>& input, const uint32_t* rows, size_t count) {
  Claims<Score> claims(count);
  std::transform(rows, rows + count, claims.begin(), [&](uint32_t row) { return input.claim(row); });
  sort_claims(claims);
  return claims;
}

// For each rank among the boxes of one label, the first rank that overlaps it, or itself.
template <class T, class Score>
LargeArray<uint32_t> first_overlaps(const Input<T, Score>& input, const Claims<Score>& claims, const JoinRule<T>& rule,
                                    size_t threads) {
  LargeArray<uint32_t> firsts(claims.size());
  LargeArray<RankedPlace<T>> boxes(claims.size());
  size_t count = 0;
  for_each_piece(claims.size(), [&](size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) {
      const size_t ahead = k + tuning::kFetchedAhead;
      if (ahead < claims.size()) prefetch(input.boxes + 4 * size_t{claims[ahead].box()});
      const Corners<T> box = input.corners(claims[k].box());
      firsts[k] = static_cast<uint32_t>(k);
      boxes[count] = {{box.x1, box.y1, box.x2, box.y2}, static_cast<uint32_t>(k)};
      count += with_metric(rule.metric, [&]<Metric metric>() { return can_overlap<metric>(box); });
    }
  });
  if (count == 0) return firsts;
  const JoinTree<T> tree(boxes.data(), count, rule);
  run_ranges(threads_for(count, tuning::kJoinedPerThread, threads), tree.leaves(), [&](size_t begin, size_t end) {
    for (size_t leaf = begin; leaf < end; ++leaf) {
      if (leaf % 8 == 7) Interrupt::check();
      tree.for_each_first(leaf, [&](uint32_t rank, uint32_t first) { firsts[rank] = first; });
    }
  });
  return firsts;
}

// Writes which box each box has joined, and the first box of its group. Overwrites `firsts`.
template <class Score>
void follow(const Claims<Score>& claims, LargeArray<uint32_t>& firsts, int64_t* joined, int64_t* suppressor) {
  for_each_piece(claims.size(), [&](size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) joined[claims[k].box()] = claims[firsts[k]].box();
  });
  for_each_piece(claims.size(), [&](size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) {
      firsts[k] = firsts[firsts[k]];  // a better rank already leads to the end
      suppressor[claims[k].box()] = claims[firsts[k]].box();
    }
  });
}

// Drops groups beyond the first max_output of each image.
template <class T, class Score>
void keep_first_groups(const Input<T, Score>& input, const NmsOptions& options, Suppressors& suppressors) {
  LargeArray<uint32_t> firsts(input.count);
  size_t count = 0;
  for (size_t row = 0; row < input.count; ++row) {
    firsts[count] = static_cast<uint32_t>(row);
    count += options.suppressor[row] == static_cast<int64_t>(row);
  }
  const auto claims = ranked_claims(input, firsts.data(), count);
  std::transform(claims.begin(), claims.end(), firsts.begin(), [](const auto& claim) { return claim.box(); });
  firsts.shrink(count);
  keep_first_of_images(firsts, input.images, input.count, options.max_output, [](uint32_t row) { return row; });
  if (firsts.size() < count) suppressors.forget_all_except(firsts, input.count);
}

}  // namespace detail

// Writes for each row the box that it has joined, or itself, to `joined`, and the first box of its group to the
// suppressor; -1 for both if the row is not used. Groups beyond max_output have the suppressor -1, but their boxes are
// still joined. False if a number is invalid; the caller checks the rest.
template <class T, class Score>
bool join(const Input<T, Score>& given, const NmsOptions& options, size_t threads, int64_t* joined) {
  if (!given.is_valid()) return false;
  const PairLabels pairs(given);
  const auto input = pairs.of(given);
  const JoinRule<T> rule{options.metric, rounded_down<T>(options.exclusive_threshold())};
  std::fill_n(joined, input.count, -1);
  Suppressors suppressors(options.suppressor, input.count);
  const auto takes_part = [&](Score score) { return static_cast<double>(score) > options.score_threshold; };
  const LabelGroups groups(rows_with(input.scores, input.count, takes_part), input.labels);
  // Several labels in parallel, or one label on all threads.
  const size_t at_once = groups.count() < threads ? 1 : threads_for(input.count, tuning::kJoinedPerThread, threads);
  run_queue(at_once, groups.count(), [&](size_t group, size_t) {
    const auto claims = detail::ranked_claims(input, groups.begin(group), groups.size(group));
    auto firsts = detail::first_overlaps(input, claims, rule, at_once == 1 ? threads : 1);
    detail::follow(claims, firsts, joined, options.suppressor);
  });
  if (options.max_output < input.count) detail::keep_first_groups(input, options, suppressors);
  return true;
}

}  // namespace hashnms
