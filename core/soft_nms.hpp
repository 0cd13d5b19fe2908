// Exact Soft-NMS: select the box with the highest current score, lower the scores of those that it overlaps, repeat.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "boxes/claims.hpp"
#include "boxes/images.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "nms.hpp"
#include "soft/decay.hpp"
#include "soft/few.hpp"
#include "soft/tree.hpp"
#include "support/interrupt.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

enum class SoftMethod : int { gaussian = 0, linear = 1, hard = 2 };

struct SoftNmsOptions {
  SoftMethod method;
  double sigma;          // of the gaussian
  double iou_threshold;  // of the linear and the hard
  double min_score;      // at least 0; boxes with a lower score are never selected
  size_t max_output;     // of each image
};

// The selected boxes, in order.
template <class Score>
struct Selection {
  Claims<Score> claims;
  LargeArray<Score> scores;  // of every selected row

  explicit Selection(size_t rows) : claims(0), scores(rows) {}
};

namespace detail {

// The boxes that one thread has selected, as far as they can be among the first `most` of all.
template <class Score>
class BestClaims {
 public:
  explicit BestClaims(size_t most) : most_(most) {}

  bool wants(Claim<Score> claim) const { return !(claim < least_); }

  void add(Claim<Score> claim) {
    claims_.push_back(claim);
    if (claims_.size() / 2 < most_) return;  // now and then
    claims_.resize(
        static_cast<size_t>(move_greatest(claims_.data(), claims_.data() + claims_.size(), most_) - claims_.data()));
    least_ = *std::min_element(claims_.begin(), claims_.end());
  }

  const std::vector<Claim<Score>>& claims() const { return claims_; }

 private:
  size_t most_;
  Claim<Score> least_{};  // that is wanted
  std::vector<Claim<Score>> claims_;
};

// Selects up to `most` of the waiting boxes, whose rows are indices into `rows`.
template <class Waiting, class Score>
void select_from(Waiting&& waiting, const uint32_t* rows, size_t most, LargeArray<Score>& scores,
                 BestClaims<Score>& selected) {
  for (size_t k = 0; k < most; ++k) {
    if (k % 8 == 0) Interrupt::check();
    const auto box = waiting.next();
    if (!box) return;
    const Claim<Score> claim(box->score, rows[box->row]);
    if (!selected.wants(claim)) return;
    scores[claim.box()] = box->score;
    selected.add(claim);
  }
}

// Selects among the boxes of one label.
template <class T, class Score, class Decay>
void select_group(const Input<T, Score>& input, const uint32_t* rows, size_t count, const Decay& decay, Score min_score,
                  size_t most, LargeArray<Score>& scores, BestClaims<Score>& selected) {
  Claim<Score> best{};
  for (size_t k = 0; k < count; ++k) best.raise_to(input.claim(rows[k]));
  if (!selected.wants(best)) return;
  LargeArray<ScoredBox<T, Score>> boxes(count);
  for (size_t k = 0; k < count; ++k) {
    const Corners<T> box = input.corners(rows[k]);
    boxes[k] = {{box.x1, box.y1, box.x2, box.y2}, input.scores[rows[k]], static_cast<uint32_t>(k)};
  }
  using Few = SelectionLoop<T, Score, Decay>;
  using Tree = SelectionTree<T, Score, Decay>;
  if (count <= Few::kMost) {
    select_from(Few(boxes.data(), count, decay, min_score), rows, most, scores, selected);
  } else {
    select_from(Tree(boxes.data(), count, decay, min_score), rows, most, scores, selected);
  }
}

// Groups are independent. Sorting their selections by score afterwards gives the order of a single loop: a box selected
// later has no higher score, and at the same score a higher row.
template <class T, class Score, class Decay>
Selection<Score> select(const Input<T, Score>& input, const Decay& decay, Score min_score, size_t most,
                        size_t threads) {
  const auto takes_part = [=](Score score) { return score >= min_score && most > 0; };
  const LabelGroups groups(rows_with(input.scores, input.count, takes_part), input.labels);
  Selection<Score> selection(input.count);
  const size_t parts = threads_for(groups.rows.size(), tuning::kSelectedPerThread, threads);
  const size_t most_in_all = input.images ? input.count : most;
  std::vector<BestClaims<Score>> selected(parts, BestClaims<Score>(most_in_all));
  run_queue(parts, groups.count(), [&](size_t group, size_t part) {
    select_group(input, groups.begin(group), groups.size(group), decay, min_score, most, selection.scores,
                 selected[part]);
  });
  size_t total = 0;
  for (const auto& of_part : selected) total += of_part.claims().size();
  selection.claims = Claims<Score>(total);
  Claim<Score>* end = selection.claims.begin();
  for (const auto& of_part : selected) end = std::copy(of_part.claims().begin(), of_part.claims().end(), end);
  if (groups.count() > 1) sort_claims(selection.claims);
  selection.claims.shrink(std::min(total, most_in_all));
  keep_first_of_images(selection.claims, input.images, input.count, most, [](auto claim) { return claim.box(); });
  return selection;
}

// The least Score that is not below the limit.
template <class Score>
Score rounded_up(double limit) {
  if (limit > std::numeric_limits<Score>::max()) return std::numeric_limits<Score>::infinity();
  const Score nearest = static_cast<Score>(limit);
  return static_cast<double>(nearest) < limit ? std::nextafter(nearest, std::numeric_limits<Score>::infinity())
                                              : nearest;
}

// A box whose IoU is above the threshold is removed: that is NMS.
template <class T, class Score>
std::optional<Selection<Score>> select_hard(const Input<T, Score>& input, const SoftNmsOptions& options,
                                            size_t threads) {
  const double below_min_score = std::nextafter(options.min_score, -std::numeric_limits<double>::infinity());
  const auto rows =
      nms(input, NmsOptions{Metric::iou, options.iou_threshold, false, below_min_score, options.max_output, nullptr},
          threads);
  if (!rows) return std::nullopt;
  Selection<Score> selection(input.count);
  selection.claims = Claims<Score>(rows->size());
  std::transform(rows->begin(), rows->end(), selection.claims.begin(), [&](uint32_t row) {
    selection.scores[row] = input.scores[row];
    return input.claim(row);
  });
  return selection;
}

}  // namespace detail

// Nothing if a number is invalid; the caller checks the rest.
template <class T, class Score>
std::optional<Selection<Score>> soft_nms(const Input<T, Score>& given, const SoftNmsOptions& options, size_t threads) {
  if (options.method == SoftMethod::hard) return detail::select_hard(given, options, threads);
  if (!given.is_valid()) return std::nullopt;
  const PairLabels pairs(given);
  const auto input = pairs.of(given);
  const Score min_score = detail::rounded_up<Score>(options.min_score);
  if (options.method == SoftMethod::linear) {
    return detail::select(input, LinearDecay{options.iou_threshold}, min_score, options.max_output, threads);
  }
  return detail::select(input, GaussianDecay{options.sigma}, min_score, options.max_output, threads);
}

}  // namespace hashnms
