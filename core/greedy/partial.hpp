// Greedy NMS of part of a scene: what is certain about its boxes, whatever the rest of the scene is.
//
// A box is *open* if a box outside of the part may overlap it. Boxes are decided by rank. A box is suppressed if a kept
// box overlaps it. Otherwise it is undecided if it is open or an undecided box overlaps it. Otherwise it is kept. What
// is kept or suppressed here is also kept or suppressed in the whole scene.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "boxes/metric.hpp"
#include "greedy/keep.hpp"
#include "greedy/kept_list.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/suppressors.hpp"
#include "greedy/tiles.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

// A part of a scene, and the results of deciding it. Rows are rows of the input.
struct Part {
  struct Undecided {
    uint32_t row, touched;  // how many tiles
  };
  struct Removal {
    uint32_t row, by;
  };

  const Tiles* tiles;      // boxes that touch several tiles are open
  const bool* open;        // used if tiles is null: which rows are open; null: none
  const bool* known_kept;  // which rows are known to be kept, or null
  Suppressors& suppressors;
  std::vector<Undecided> undecided;  // if suppressors are wanted, also boxes that these may suppress
  std::vector<Removal> removals;     // by the first box in this part; another part may have an earlier one

  template <class T>
  HASHNMS_INLINE bool is_open(const RankedBox<T>& box) const {
    return tiles ? !tiles->in_one(box.corners) : open && open[box.row];
  }
  template <class T>
  void leave_undecided(const RankedBox<T>& box) {
    undecided.push_back({box.row, tiles ? static_cast<uint32_t>(tiles->touched(box.corners)) : 1});
  }
  HASHNMS_INLINE bool is_known_kept(uint32_t row) const { return known_kept && known_kept[row]; }
  // In another part.
  HASHNMS_INLINE bool is_known_suppressed(uint32_t row) const { return suppressors.wanted() && suppressors.has(row); }
};

namespace detail {

// Decides boxes until `stop` of them are kept or undecided. Kept boxes are moved to the front of the ranked boxes,
// undecided ones to an array of their own.
template <class T, class Index>
HASHNMS_INLINE void decide_until(Part& part, RankedBoxes<T>& ranked, RankedBoxes<T>& undecided, size_t stop,
                                 Index& index, Index& undecided_index) {
  const bool want_suppressors = part.suppressors.wanted();
  for_each_ranked(ranked, index, [&](const RankedBox<T>& box, const auto& prepared, size_t k) HASHNMS_INLINE_LAMBDA {
    if (ranked.kept == stop || undecided.kept == stop) return false;
    const uint32_t found = index.find(box.corners, box.label, prepared, k);
    if (found != kNone && !want_suppressors) return true;
    const bool was_suppressed = part.is_known_suppressed(box.row);
    const bool is_suppressed = found != kNone || was_suppressed;
    const bool is_known_kept = part.is_known_kept(box.row), is_open = !is_known_kept && part.is_open(box);
    // An open box that no kept one suppresses is undecided anyway, so there is no search then: the undecided boxes may
    // overlap each other, and very many may be near.
    const bool is_searched = !is_known_kept && (is_suppressed || !is_open);
    const bool is_certain = is_searched && undecided_index.find(box.corners, box.label, prepared, k) == kNone;
    if (is_known_kept || (!is_suppressed && is_certain)) {
      ranked.keep(box);
      index.add(box.corners, box.label, prepared, k);
      part.suppressors.set(box.row, box.row);
      return true;
    }
    if (found != kNone && !was_suppressed && is_certain && !is_open) {
      part.suppressors.set(box.row, ranked.rows[found]);
      return true;
    }
    if (found != kNone) part.removals.push_back({box.row, ranked.rows[found]});
    if (is_suppressed && is_certain) return true;
    part.leave_undecided(box);
    if (is_suppressed) return true;
    undecided.keep(box);
    undecided_index.add(box.corners, box.label, prepared, k);
    return true;
  });
}

template <class T>
HASHNMS_INLINE void decide_with_lists_by(Part& part, const OverlapRule<T>& rule, RankedBoxes<T>& ranked,
                                         RankedBoxes<T>& undecided, size_t stop) {
  with_metric(rule.metric, [&]<Metric metric>() HASHNMS_INLINE_LAMBDA {
    KeptList<T, metric> list(rule.threshold), undecided_list(rule.threshold);
    decide_until(part, ranked, undecided, stop, list, undecided_list);
  });
}

HASHNMS_VECTOR_CLONES static void decide_with_lists(Part& part, const OverlapRule<float>& rule,
                                                    RankedBoxes<float>& ranked, RankedBoxes<float>& undecided,
                                                    size_t stop) {
  decide_with_lists_by(part, rule, ranked, undecided, stop);
}
HASHNMS_VECTOR_CLONES static void decide_with_lists(Part& part, const OverlapRule<double>& rule,
                                                    RankedBoxes<double>& ranked, RankedBoxes<double>& undecided,
                                                    size_t stop) {
  decide_with_lists_by(part, rule, ranked, undecided, stop);
}

}  // namespace detail

// Moves the boxes that are certainly kept to the front. A suppressor is the first by rank, which needs want_first.
template <bool want_first, Metric metric, class T>
void decide_part(Part& part, RankedBoxes<T>& ranked, const Plan<T>& plan) {
  RankedBoxes<T> undecided(ranked.size(), ranked.labelled());
  detail::decide_with_lists(part, plan.rule, ranked, undecided, plan.few_kept);
  if (ranked.done()) return;
  with_index<want_first, metric>(plan, [&]<class Index>() {
    Index index(plan, ranked), undecided_index(plan, undecided);
    detail::file_kept(ranked, index);
    detail::file_kept(undecided, undecided_index);
    detail::decide_until(part, ranked, undecided, ranked.size(), index, undecided_index);
  });
}

}  // namespace hashnms
