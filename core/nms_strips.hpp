// Greedy NMS of one huge input on several threads, exactly.
//
// Whether a box is kept depends only on boxes of higher rank that overlap it. In each strip of the plane a thread goes
// through the boxes by rank. A box that crosses a border has to wait, as does one that overlaps a waiting box and no
// kept one; all others are decided for good. Those that wait are few: they are decided afterwards, in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "input.hpp"
#include "kept_list.hpp"
#include "label_ids.hpp"
#include "large_array.hpp"
#include "overlap_rule.hpp"
#include "parallel.hpp"
#include "rank.hpp"
#include "ranked_boxes.hpp"
#include "strips.hpp"
#include "suppressors.hpp"

namespace hashnms::detail {

// One thread's work. An Index files kept boxes and finds one that overlaps a given box.
template <class T, class Index>
class StripWork {
 public:
  using Cells = typename Index::Cells;

  StripWork(RankedBoxes<T> boxes, const OverlapRule<T>& rule)
      : boxes_(std::move(boxes)),
        waiting_boxes_(boxes_.size(), boxes_.labelled()),
        kept_(rule, boxes_),
        waiting_(rule, waiting_boxes_) {}

  // Decides what can be decided within the strip.
  void decide(const Strips& strips, size_t strip, Suppressors& suppressors) {
    Cells cells;
    for (size_t k = Cells::kBoxes; !boxes_.done(); ++boxes_.next, ++k) {
      if (k == Cells::kBoxes) {
        kept_.look_at(boxes_, boxes_.next, cells);
        k = 0;
      }
      const Corners<T> box = boxes_.corners[boxes_.next];
      const LabelId<T> label = boxes_.label(boxes_.next);
      const uint32_t row = boxes_.rows[boxes_.next];
      const uint32_t found = kept_.find(box, label, cells, k);
      const bool removed = found != kNone;
      if (removed && !suppressors.wanted()) continue;
      if (strips.crosses(strip, strips.span(box, label)) || waiting_.find(box, label, cells, k) != kNone) {
        undecided_.push_back(row);  // perhaps only which box removes it
        if (removed) continue;
        waiting_boxes_.keep(box, label, row);
        waiting_.add(box, label, cells, k);
      } else {
        suppressors.set(row, removed ? boxes_.rows[found] : row);
        if (removed) continue;
        boxes_.keep(box, label, row);
        kept_.add(box, label, cells, k);
      }
    }
  }

  const Index& index() const { return kept_; }
  const std::vector<uint32_t>& undecided() const { return undecided_; }
  RankedBoxes<T> take_boxes() && { return std::move(boxes_); }
  uint32_t kept_row(size_t position) const { return boxes_.rows[position]; }

 private:
  RankedBoxes<T> boxes_, waiting_boxes_;
  Index kept_, waiting_;
  std::vector<uint32_t> undecided_;  // rows
};

// The claims of the boxes that belong to a strip, greatest first.
template <class T, class Score>
Claims<Score> claims_of_strip(const Input<T, Score>& input, const LabelIds<T>& ids, double score_threshold,
                              const Strips& strips, size_t strip) {
  Claims<Score> claims(input.count);
  size_t taking_part = 0;
  const auto touches = strips.touching(strip);
  strips.for_each_span(input, ids, [&](size_t row, Strips::Span span) {
    claims[taking_part] = input.claim(row);
    taking_part += touches(span) & (static_cast<double>(input.scores[row]) > score_threshold);
  });
  claims.shrink(taking_part);
  sort_claims(claims);
  return claims;
}

// Decides, by rank, the boxes that wait: against what is kept in the strips they touch and what is kept of themselves,
// which is moved to the front.
template <class T, class Score, class Index>
void decide_the_rest(const Input<T, Score>& input, const Strips& strips,
                     const std::vector<std::optional<StripWork<T, Index>>>& works, const OverlapRule<T>& rule,
                     RankedBoxes<T>& waiting, Suppressors& suppressors) {
  Index index(rule, waiting);
  typename Index::Cells cells;
  for (size_t k = Index::Cells::kBoxes; !waiting.done(); ++waiting.next, ++k) {
    if (k == Index::Cells::kBoxes) {
      index.look_at(waiting, waiting.next, cells);
      k = 0;
    }
    const Corners<T> box = waiting.corners[waiting.next];
    const LabelId<T> label = waiting.label(waiting.next);
    const uint32_t row = waiting.rows[waiting.next];
    Claim<Score> best{};
    const uint32_t found = index.find(box, label, cells, k);
    if (found != kNone) best.raise_to(input.claim(waiting.rows[found]));
    for (size_t strip = 0; strip < works.size(); ++strip) {
      if (!strips.touches(strip, strips.span(box, label))) continue;
      const uint32_t found_there = works[strip]->index().find(box, label, cells, k);
      if (found_there != kNone) best.raise_to(input.claim(works[strip]->kept_row(found_there)));
    }
    suppressors.set(row, best.exists() ? best.box() : row);
    if (best.exists()) continue;
    waiting.keep(box, label, row);
    index.add(box, label, cells, k);
  }
}

template <class T, class Score, class Index>
RankedBoxes<T> undecided_boxes(const Input<T, Score>& input, const LabelIds<T>& ids,
                               const std::vector<std::optional<StripWork<T, Index>>>& works) {
  std::vector<uint32_t> rows;
  for (const auto& work : works) rows.insert(rows.end(), work->undecided().begin(), work->undecided().end());
  std::sort(rows.begin(), rows.end());  // a box may be undecided in several strips
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  Claims<Score> claims(rows.size());
  std::transform(rows.begin(), rows.end(), claims.begin(), [&](uint32_t row) { return input.claim(row); });
  sort_claims(claims);
  return RankedBoxes<T>(input, ids, claims);
}

// The kept rows by rank.
template <class Index, class T, class Score>
LargeArray<uint32_t> nms_in_strips(const Input<T, Score>& input, const LabelIds<T>& ids, double score_threshold,
                                   const OverlapRule<T>& rule, const Strips& strips, Suppressors& suppressors) {
  std::vector<std::optional<StripWork<T, Index>>> works(strips.count());
  run_parts(strips.count(), [&](size_t strip) {
    works[strip].emplace(RankedBoxes<T>(input, ids, claims_of_strip(input, ids, score_threshold, strips, strip)), rule);
    works[strip]->decide(strips, strip, suppressors);
  });
  RankedBoxes<T> waiting = undecided_boxes(input, ids, works);
  decide_the_rest(input, strips, works, rule, waiting, suppressors);

  std::vector<RankedBoxes<T>> all;
  all.push_back(std::move(waiting));
  size_t kept = all[0].kept;
  for (auto& work : works) {
    all.push_back(std::move(*work).take_boxes());
    kept += all.back().kept;
    work.reset();  // the memory is needed
  }
  Claims<Score> claims(kept);
  size_t filled = 0;
  for (const RankedBoxes<T>& boxes : all) {
    for (size_t k = 0; k < boxes.kept; ++k) claims[filled++] = input.claim(boxes.rows[k]);
  }
  all.clear();
  sort_claims(claims);
  LargeArray<uint32_t> rows(kept);
  std::transform(claims.begin(), claims.end(), rows.begin(), [](const auto& claim) { return claim.box(); });
  return rows;
}

}  // namespace hashnms::detail
