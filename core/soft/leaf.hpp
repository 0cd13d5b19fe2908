// The leaves and nodes of a SelectionTree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "boxes/box.hpp"
#include "boxes/claims.hpp"
#include "boxes/covers.hpp"
#include "boxes/lanes.hpp"
#include "support/tuning.hpp"

namespace hashnms {

namespace detail {

// Boxes of one neighbourhood. Boxes that are not yet selected come first; the other lanes have no area.
template <class T, class Score>
struct Leaf {
  static constexpr size_t kBoxes = tuning::kLeafBoxes;
  BoxLanes<T, kBoxes> boxes;
  Score scores[kBoxes];
  uint16_t applied[kBoxes];  // how many pending boxes have been applied to each score
  Score bounds[kBoxes];      // upper bounds of the current scores; exact once all pending boxes are applied
  uint32_t rows[kBoxes];
  uint32_t count;
  uint32_t bounded;   // how many pending boxes have been applied to the bounds
  Claim<Score> best;  // by the bounds; no claim if none is left

  void find_best() {
    best = {};
    for (size_t k = 0; k < count; ++k) best.raise_to({bounds[k], rows[k]});
  }
  size_t lane_of_best() const {
    size_t k = 0;
    while (rows[k] != best.box()) ++k;
    return k;
  }
  void add(const ScoredBox<T, Score>& box) {
    boxes.set(count, box.box());
    scores[count] = bounds[count] = box.score;
    rows[count] = box.row;
    applied[count++] = 0;
  }
  void remove(size_t k) {
    --count;
    boxes.set(k, boxes.get(count));
    boxes.set(count, {});
    scores[k] = scores[count], applied[k] = applied[count], bounds[k] = bounds[count], rows[k] = rows[count];
  }
};

template <class T, class Score>
struct Node {
  static constexpr size_t kChildren = tuning::kNodeChildren;
  CoverLanes<T, kChildren> covers;
  Claim<Score> best[kChildren];  // an upper bound of the best claim below; no claim if nothing is left

  void set_best(size_t k, Claim<Score> claim) {
    best[k] = claim;
    if (!claim.exists()) covers.boxes.x1[k] = std::numeric_limits<T>::infinity();  // overlaps nothing
  }
};

// The cover of the boxes of a leaf or a node, and the best claim among them.
template <class T, class Score>
struct ClaimedCover {
  Cover<T> cover;
  Claim<Score> best{};

  void include(const ClaimedCover& other) {
    cover.include(other.cover);
    best.raise_to(other.best);
  }
};

}  // namespace detail

}  // namespace hashnms
