// Like SelectionTree, for so few boxes that the plain loop is faster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "boxes/box.hpp"
#include "boxes/lanes.hpp"
#include "soft/decay_lanes.hpp"
#include "support/tuning.hpp"

namespace hashnms {

template <class T, class Score, class Decay>
class SelectionLoop {
 public:
  using Box = ScoredBox<T, Score>;
  static constexpr size_t kMost = tuning::kFewToSelect;

  // As in SelectionTree, except that the count is at most kMost.
  SelectionLoop(const Box* boxes, size_t count, const Decay& decay, Score min_score)
      : decay_(decay), harmless_(decay.template harmless<T, Score>()), min_score_(min_score), count_(count) {
    for (size_t k = 0; k < count; ++k) {
      boxes_.set(k, boxes[k].box());
      scores_[k] = boxes[k].score;
      rows_[k] = boxes[k].row;
    }
    for (size_t k = count; k % kTogether != 0; ++k) boxes_.set(k, {});
  }

  std::optional<Box> next() {
    if (count_ == 0) return std::nullopt;
    const size_t best = lane_of_best();
    const Corners<T> box = boxes_.get(best);
    const Box taken{{box.x1, box.y1, box.x2, box.y2}, scores_[best], rows_[best]};
    remove(best);
    if (harmless_ < T(1) && taken.score > 0 && box.has_area()) lower_by(box);
    return taken;
  }

 private:
  size_t lane_of_best() const {
    size_t best = 0;
    for (size_t k = 1; k < count_; ++k) {
      const bool is_better = scores_[k] > scores_[best] || (scores_[k] == scores_[best] && rows_[k] < rows_[best]);
      best = is_better ? k : best;
    }
    return best;
  }

  void lower_by(const Corners<T>& selected) {
    T overlaps[kMost];
    detail::overlaps_in_vectors(selected, boxes_, count_, overlaps);
    for (size_t k = count_; k-- > 0;) {
      if (!(overlaps[k] > harmless_)) continue;
      scores_[k] *= decay_.template exactly<Score>(overlaps[k]);
      if (scores_[k] < min_score_) remove(k);
    }
  }

  void remove(size_t k) {
    --count_;
    boxes_.set(k, boxes_.get(count_));
    scores_[k] = scores_[count_];
    rows_[k] = rows_[count_];
  }

  Decay decay_;
  T harmless_;
  Score min_score_;
  size_t count_;
  BoxLanes<T, kMost> boxes_;
  Score scores_[kMost];
  uint32_t rows_[kMost];
};

}  // namespace hashnms
