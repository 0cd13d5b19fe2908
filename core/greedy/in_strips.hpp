// Greedy NMS of one huge input strip by strip, exactly: on several threads, and with little in use at a time.
//
// Whether a box is kept depends only on boxes of higher rank that overlap it. A thread goes through its strips one
// after the other, in each through the boxes by rank. A box that reaches into the next strip is deferred, as is one
// that overlaps a deferred box and no kept one; all others are decided for good. Deferred ones are looked at again in
// the next strip, among its boxes. What is still deferred where the range of one thread ends is decided in the end, in
// order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "boxes/claims.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/strips.hpp"
#include "greedy/suppressors.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"

namespace hashnms {

// The rows of the boxes that begin in the strips of a range, strip by strip; in the first strip also of those that
// reach into the range.
template <class T, class Score>
class StripRows {
 public:
  StripRows(const Input<T, Score>& input, double score_threshold, const Strips& strips, Strips::Range range)
      : first_(range.begin), starts_(range.end - range.begin + 2), rows_(0), input_(input) {
    const double begin = strips.begin(range.begin), end = strips.end(range.end - 1);
    const size_t count = range.end - range.begin;
    LargeArray<uint16_t> places(input.count);  // of the boxes among the strips; `count` of those that are not wanted
    strips.for_each_span(input, [&](size_t row, Strips::Span span) {
      const bool takes_part = static_cast<double>(input.scores[row]) > score_threshold && span.from < end &&
                              (span.from >= begin || span.to > begin);
      places[row] = static_cast<uint16_t>(takes_part ? std::max(strips.strip_at(span.from), first_) - first_ : count);
    });
    for (const uint16_t place : places) ++starts_[place + 1];
    starts_.pop_back();
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    rows_ = LargeArray<uint32_t>(starts_.back());
    std::vector<size_t> ends(starts_.begin(), starts_.end() - 1);
    for (size_t row = 0; row < input.count; ++row) {
      if (places[row] < count) rows_[ends[places[row]]++] = static_cast<uint32_t>(row);
    }
  }

  // The claims of those of one strip and some more, greatest first.
  Claims<Score> claims(size_t strip, const std::vector<Claim<Score>>& more) const {
    const uint32_t* const begin = rows_.begin() + starts_[strip - first_];
    const uint32_t* const end = rows_.begin() + starts_[strip - first_ + 1];
    Claims<Score> claims(static_cast<size_t>(end - begin) + more.size());
    std::transform(begin, end, claims.begin(), [&](uint32_t row) { return input_.claim(row); });
    std::copy(more.begin(), more.end(), claims.end() - more.size());
    sort_claims(claims);
    return claims;
  }

 private:
  size_t first_;
  std::vector<size_t> starts_;
  LargeArray<uint32_t> rows_;
  const Input<T, Score>& input_;
};

// An Index files kept boxes and finds one that overlaps a given box.
template <class T, class Score, class Index>
class NmsInStrips {
 public:
  NmsInStrips(const Input<T, Score>& input, const LabelIds<T>& ids, const Plan<T>& plan, const Strips& strips,
              Suppressors& suppressors)
      : input_(input),
        ids_(ids),
        plan_(plan),
        strips_(strips),
        suppressors_(suppressors),
        kept_(strips.count()),
        most_late_(strips.ranges()),
        deferred_(strips.ranges()) {}

  // The kept rows by rank.
  LargeArray<uint32_t> rows(double score_threshold) {
    run_parts(strips_.ranges(), [&](size_t range) { sweep(range, score_threshold); });
    std::vector<LargeArray<uint32_t>> all;
    all.push_back(decide_the_rest());
    for (auto& of_strip : kept_) {
      all.push_back(std::move(of_strip->boxes).kept_rows());
      of_strip.reset();  // the memory is needed
    }
    size_t count = 0;
    for (const LargeArray<uint32_t>& some : all) count += some.size();
    Claims<Score> claims(count);
    Claim<Score>* end = claims.begin();
    for (const LargeArray<uint32_t>& some : all) {
      end = std::transform(some.begin(), some.end(), end, [&](uint32_t row) { return input_.claim(row); });
    }
    all.clear();
    sort_claims(claims);
    LargeArray<uint32_t> rows(count);
    std::transform(claims.begin(), claims.end(), rows.begin(), [](const auto& claim) { return claim.box(); });
    return rows;
  }

 private:
  using Prepared = typename Index::Prepared;

  // What is kept in a strip.
  struct Kept {
    RankedBoxes<T> boxes;
    Index index;

    Kept(RankedBoxes<T> some_boxes, Index some_index) : boxes(std::move(some_boxes)), index(std::move(some_index)) {}
  };

  void sweep(size_t number, double score_threshold) {
    const Strips::Range range = strips_.range(number);
    std::optional<StripRows<T, Score>> rows(std::in_place, input_, score_threshold, strips_, range);
    std::vector<Claim<Score>>& deferred = deferred_[number];
    for (size_t strip = range.begin; strip < range.end; ++strip) {
      RankedBoxes<T> boxes(input_, ids_, rows->claims(strip, deferred));
      if (strip + 1 == range.end) rows.reset();  // the memory is needed
      deferred = decide(std::move(boxes), strip, range.begin, most_late_[number]);
    }
  }

  // Decides what can be decided in a strip; the claims of those that are deferred.
  std::vector<Claim<Score>> decide(RankedBoxes<T> boxes, size_t strip, size_t first_strip, size_t& most_late) {
    Index index(plan_, boxes);  // here, where it is found fastest, until it is complete
    RankedBoxes<T> deferred_boxes(boxes.size(), boxes.labelled());
    Index deferred(plan_, deferred_boxes);
    std::vector<Claim<Score>> claims;
    const double first_begin = strips_.begin(first_strip), begin = strips_.begin(strip), end = strips_.end(strip);
    const bool want_suppressors = suppressors_.wanted();
    for_each_ranked(boxes, index, [&](const RankedBox<T>& box, const Prepared& prepared, size_t k) {
      const uint32_t found = index.find(box.corners, box.label, prepared, k);
      if (found != kNone && !want_suppressors) return true;
      const Strips::Span span = strips_.span(box.corners);
      Claim<Score> by{};
      if (found != kNone) by = input_.claim(boxes.rows[found]);
      if (span.from < begin) {
        by.raise_to(found_in({std::max(strips_.strip_at(span.from), first_strip), strip}, box, prepared, k));
      }
      if (by.exists() && !want_suppressors) return true;
      if (span.from < first_begin || span.to > end || deferred.find(box.corners, box.label, prepared, k) != kNone) {
        claims.push_back(input_.claim(box.row));  // perhaps only which box removes it is not known
        if (by.exists()) return true;
        deferred_boxes.keep(box);
        deferred.add(box.corners, box.label, prepared, k);
      } else {
        suppressors_.set(box.row, by.exists() ? by.box() : box.row);
        if (by.exists()) return true;
        boxes.keep(box);
        index.add(box.corners, box.label, prepared, k);
        if (span.from < begin) most_late = std::max(most_late, strip - strips_.strip_at(span.from));
      }
      return true;
    });
    kept_[strip].emplace(std::move(boxes), std::move(index));
    return claims;
  }

  // The claim of the first box by rank that is kept in some strips and suppresses this one.
  Claim<Score> found_in(Strips::Range strips, const RankedBox<T>& box, const Prepared& prepared, size_t k) const {
    Claim<Score> best{};
    for (size_t strip = strips.begin; strip < strips.end; ++strip) {
      const uint32_t found = kept_[strip]->index.find(box.corners, box.label, prepared, k);
      if (found != kNone) best.raise_to(input_.claim(kept_[strip]->boxes.rows[found]));
    }
    return best;
  }

  // Decides, by rank, the boxes that are deferred where ranges end: against what is kept in the strips they touch and
  // what is kept of themselves. The rows of these.
  LargeArray<uint32_t> decide_the_rest() {
    std::vector<Claim<Score>> all;
    for (const auto& some : deferred_) all.insert(all.end(), some.begin(), some.end());
    if (all.empty()) return LargeArray<uint32_t>(0);
    Claims<Score> claims(all.size());
    std::copy(all.begin(), all.end(), claims.begin());
    sort_claims(claims);  // a box may be deferred in several ranges
    claims.shrink(static_cast<size_t>(
        std::unique(claims.begin(), claims.end(), [](const auto& a, const auto& b) { return a.box() == b.box(); }) -
        claims.begin()));
    const size_t most_late = *std::max_element(most_late_.begin(), most_late_.end());

    RankedBoxes<T> boxes(input_, ids_, claims);
    Index index(plan_, boxes);
    for_each_ranked(boxes, index, [&](const RankedBox<T>& box, const Prepared& prepared, size_t k) {
      const Strips::Span span = strips_.span(box.corners);
      // A kept box that begins where this one ends, or before, was kept at most so many strips later.
      const size_t end = std::min(strips_.strip_at(span.to) + most_late + 1, strips_.count());
      Claim<Score> by = found_in({strips_.strip_at(span.from), end}, box, prepared, k);
      const uint32_t found = index.find(box.corners, box.label, prepared, k);
      if (found != kNone) by.raise_to(input_.claim(boxes.rows[found]));
      suppressors_.set(box.row, by.exists() ? by.box() : box.row);
      if (!by.exists()) {
        boxes.keep(box);
        index.add(box.corners, box.label, prepared, k);
      }
      return true;
    });
    return std::move(boxes).kept_rows();
  }

  const Input<T, Score>& input_;
  const LabelIds<T>& ids_;
  const Plan<T>& plan_;
  const Strips& strips_;
  Suppressors& suppressors_;
  std::vector<std::optional<Kept>> kept_;  // in each strip
  // Of each range: how many strips after the one it begins in a box was kept, at most; and what is still deferred.
  std::vector<size_t> most_late_;
  std::vector<std::vector<Claim<Score>>> deferred_;
};

}  // namespace hashnms
