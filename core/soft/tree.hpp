// A tree of boxes to select: each time the one with the highest score is selected, and lowers the scores of those that
// it overlaps.
//
// A selected box is only noted in the leaves that it may overlap: it is pending there. When one of a leaf's bounds is
// the highest of all, the leaf lowers the bounds of its scores by its pending boxes. If a bound is then still the
// highest, the exact score is computed, from all pending boxes in order. A bound only decides that a box comes later or
// is removed, so order and scores are those of the plain loop.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/claims.hpp"
#include "boxes/covers.hpp"
#include "boxes/lanes.hpp"
#include "boxes/neighbourhoods.hpp"
#include "soft/decay.hpp"
#include "soft/decay_lanes.hpp"
#include "soft/leaf.hpp"
#include "support/interrupt.hpp"
#include "support/large_array.hpp"
#include "support/tuning.hpp"

namespace hashnms {

template <class T, class Score, class Decay>
class SelectionTree {
 public:
  using Box = ScoredBox<T, Score>;

  // Scores are at least min_score, which is not negative. Rows are 0 .. count - 1, at least one. The boxes are
  // reordered.
  SelectionTree(Box* boxes, size_t count, const Decay& decay, Score min_score)
      : decay_(decay),
        harmless_(decay.template harmless<T, Score>()),
        min_score_(min_score),
        leaves_(0),
        leaf_of_(count) {
    std::vector<std::pair<const Box*, const Box*>> ranges;
    for_each_neighbourhood(boxes, boxes + count, Leaf::kBoxes,
                           [&](const Box* begin, const Box* end) { ranges.emplace_back(begin, end); });
    leaves_ = LargeArray<Leaf>(ranges.size());
    pending_.resize(ranges.size());
    std::vector<Cover> covers(ranges.size());
    for (size_t k = 0; k < ranges.size(); ++k) {
      const auto [begin, end] = ranges[k];
      covers[k] = fill(leaves_[k], begin, end);
      for (const Box* box = begin; box < end; ++box) leaf_of_[box->row] = static_cast<uint32_t>(k);
    }
    do {
      covers = add_level(covers);
    } while (covers.size() > 1);
  }

  // Removes and returns the box with the highest current score, ties to the lower row, and lowers the scores of those
  // it overlaps. Nothing if no box with at least min_score is left.
  std::optional<Box> next() {
    std::optional<Box> taken;
    take(levels_.size() - 1, 0, {}, taken);
    // A score of 0 is the highest only if all are 0, and these do not change; no IoU is above 1.
    if (taken && harmless_ < T(1) && taken->score > 0 && taken->box().has_area()) {
      selected_.push_back(taken->box());
      note_selected(levels_.size() - 1, 0);
    }
    return taken;
  }

 private:
  using Leaf = detail::Leaf<T, Score>;
  using Node = detail::Node<T, Score>;
  using Cover = detail::ClaimedCover<T, Score>;
  using Pending = std::vector<uint32_t>;                                        // indices into selected_
  static_assert(tuning::kMostPending <= std::numeric_limits<uint16_t>::max());  // Leaf::applied
  static constexpr size_t kSelectedAtOnce = 32;
  // Lower scores are rounded too coarsely for a bound.
  static constexpr Score kLeastBound = static_cast<Score>(sizeof(Score) == 4 ? 0x1p-100 : 0x1p-1000);

  static Cover fill(Leaf& leaf, const Box* begin, const Box* end) {
    leaf = {};
    Cover cover;
    for (const Box* scored = begin; scored < end; ++scored) {
      leaf.add(*scored);
      cover.include({hashnms::Cover<T>(scored->box()), {scored->score, scored->row}});
    }
    leaf.find_best();
    return cover;
  }

  std::vector<Cover> add_level(const std::vector<Cover>& children) {
    const size_t count = (children.size() + Node::kChildren - 1) / Node::kChildren;
    LargeArray<Node>& nodes = levels_.emplace_back(count);
    std::vector<Cover> covers(count);
    for (size_t at = 0; at < count * Node::kChildren; ++at) {
      const Cover child = at < children.size() ? children[at] : Cover{};
      Node& node = nodes[at / Node::kChildren];
      const size_t k = at % Node::kChildren;
      node.covers.set(k, child.cover);
      node.best[k] = child.best;
      covers[at / Node::kChildren].include(child);
    }
    return covers;
  }

  // Improves bounds until the best box below this node is known and taken, or has a lower claim than `rival`, the best
  // claim elsewhere. Returns the best claim that remains below this node.
  Claim<Score> take(size_t level, size_t index, Claim<Score> rival, std::optional<Box>& taken) {
    Node& node = levels_[level][index];
    for (;;) {
      size_t k = 0;
      Claim<Score> best = node.best[0], others = rival;
      for (size_t other = 1; other < Node::kChildren; ++other) {
        const bool is_better = best < node.best[other];
        others.raise_to(is_better ? best : node.best[other]);
        best = is_better ? node.best[other] : best;
        k = is_better ? other : k;
      }
      if (taken || !best.exists() || best < rival) return best;
      const size_t child = index * Node::kChildren + k;
      node.set_best(k, level > 0 ? take(level - 1, child, others, taken) : take_from(child, others, taken));
    }
  }

  // As take(), for a leaf.
  Claim<Score> take_from(size_t index, Claim<Score> rival, std::optional<Box>& taken) {
    Leaf& leaf = leaves_[index];
    if (rival.exists()) fetch(leaf_of_[rival.box()]);  // the search continues there
    if (leaf.bounded < pending_[index].size()) bound_scores(leaf, pending_[index]);
    bool tried_one = false;
    while (leaf.best.exists() && !(leaf.best < rival) && !taken) {
      const size_t k = leaf.lane_of_best();
      if (leaf.applied[k] == leaf.bounded) {
        const Corners<T> box = leaf.boxes.get(k);
        taken = {{box.x1, box.y1, box.x2, box.y2}, leaf.bounds[k], leaf.rows[k]};
        leaf.remove(k);
      } else if (!tried_one) {
        find_score(leaf, k, pending_[index]);
        if (leaf.bounds[k] < min_score_) leaf.remove(k);
        tried_one = true;
      } else {
        find_scores(leaf, pending_[index], rival);
      }
      leaf.find_best();
    }
    return leaf.best;
  }

  // Computes the scores of all boxes that may be the best. If there are several, they are about equal, and there may be
  // many.
  void find_scores(Leaf& leaf, const Pending& pending, Claim<Score> rival) const {
    for (size_t k = leaf.count; k-- > 0;) {
      if (Claim<Score>(leaf.bounds[k], leaf.rows[k]) < rival) continue;
      if (leaf.applied[k] < leaf.bounded) find_score(leaf, k, pending);
      rival.raise_to({leaf.bounds[k], leaf.rows[k]});
      if (leaf.bounds[k] < min_score_) leaf.remove(k);
    }
  }

  void fetch(size_t index) const {
    prefetch(&pending_[index]);
    const auto* begin = reinterpret_cast<const char*>(&leaves_[index]);
    for (size_t byte = 0; byte < sizeof(Leaf); byte += 64) prefetch(begin + byte);
  }

  void bound_scores(Leaf& leaf, const Pending& pending) const {
    T shares[Leaf::kBoxes];  // upper bounds of the shares of their scores that boxes keep
    detail::bound_in_vectors(leaf.boxes, leaf.count, selected_.data(), pending.data() + leaf.bounded,
                             pending.size() - leaf.bounded, decay_, harmless_, shares);
    const uint32_t before = std::exchange(leaf.bounded, static_cast<uint32_t>(pending.size()));
    for (size_t k = 0; k < leaf.count; ++k) {
      const bool is_touched = shares[k] != detail::kUntouched<T>;
      const Score lowered = std::max(leaf.bounds[k] * static_cast<Score>(shares[k]), kLeastBound);
      leaf.bounds[k] = is_touched && lowered < leaf.bounds[k] ? lowered : leaf.bounds[k];
      leaf.applied[k] =
          static_cast<uint16_t>(!is_touched && leaf.applied[k] == before ? leaf.bounded : leaf.applied[k]);
    }
    for (size_t k = leaf.count; k-- > 0;) {
      if (leaf.bounds[k] < min_score_) leaf.remove(k);
    }
    leaf.find_best();
  }

  void find_score(Leaf& leaf, size_t k, const Pending& pending) const {
    const Corners<T> box = leaf.boxes.get(k);
    for (size_t begin = leaf.applied[k]; begin < pending.size(); begin += kSelectedAtOnce) {
      const size_t count = std::min(kSelectedAtOnce, pending.size() - begin);
      T overlaps[kSelectedAtOnce];
      detail::overlaps_in_vectors(box, selected_.data(), pending.data() + begin, count, overlaps);
      for (size_t past = 0; past < count; ++past) {
        if (overlaps[past] > harmless_) leaf.scores[k] *= decay_.template exactly<Score>(overlaps[past]);
      }
    }
    leaf.applied[k] = static_cast<uint16_t>(pending.size());
    leaf.bounds[k] = leaf.scores[k];
  }

  // Notes the last selected box in all leaves below this node that it may overlap.
  void note_selected(size_t level, size_t index) {
    uint32_t meeting = detail::meeting_in_vectors(levels_[level][index].covers, selected_.back(), harmless_);
    for (; meeting != 0; meeting &= meeting - 1) {
      const size_t child = index * Node::kChildren + static_cast<size_t>(std::countr_zero(meeting));
      if (level > 0) {
        note_selected(level - 1, child);
      } else {
        add_pending(leaves_[child], pending_[child]);
      }
    }
  }

  void add_pending(Leaf& leaf, Pending& pending) {
    pending.push_back(static_cast<uint32_t>(selected_.size() - 1));
    if (pending.size() - leaf.bounded == kMostAtOnce) bound_scores(leaf, pending);
    if (pending.size() == tuning::kMostPending) apply_all(leaf, pending);
  }

  // Applies all pending boxes to the scores, and forgets them.
  void apply_all(Leaf& leaf, Pending& pending) {
    Interrupt::check();  // all leaves may need this at once, and each takes a while
    for (size_t k = leaf.count; k-- > 0;) {
      find_score(leaf, k, pending);
      leaf.applied[k] = 0;
      if (leaf.scores[k] < min_score_) leaf.remove(k);
    }
    leaf.find_best();
    leaf.bounded = 0;
    pending.clear();
  }

  Decay decay_;
  T harmless_;
  Score min_score_;
  LargeArray<Leaf> leaves_;
  LargeArray<uint32_t> leaf_of_;          // the leaf of each box, by row
  std::vector<Pending> pending_;          // the pending boxes of each leaf
  std::vector<LargeArray<Node>> levels_;  // from the nodes above the leaves to the root
  std::vector<Corners<T>> selected_;
};

}  // namespace hashnms
