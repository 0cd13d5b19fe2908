// The boxes kept so far, chained together by their cell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "boxes/box.hpp"
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "greedy/ranked_boxes.hpp"
#include "support/dispatch.hpp"
#include "support/large_array.hpp"

namespace hashnms {

// A box for which a suppressor is searched.
template <class T>
struct Query {
  Corners<T> box;
  T area;
  LabelId<T> label;
};

// A cell is identified by its head: 1 + the position of the box that was kept first in it, or 0 if there is none. The
// boxes themselves stay at the front of the ranked boxes. A search returns the first by rank, or any.
template <class T, bool want_first, Metric metric>
class KeptChains {
 public:
  KeptChains(T threshold, const RankedBoxes<T>& boxes)
      : threshold_(threshold),
        kept_(boxes.corners.data()),
        labels_(boxes.labelled() ? boxes.labels.data() : nullptr),
        next_(boxes.corners.size()) {}

  // Adds the next box; it is not in a cell yet. Returns its position.
  uint32_t add() {
    next_[count_] = kNone;
    return static_cast<uint32_t>(count_++);
  }

  // Puts a box behind the head of a cell, which has the highest score in it and suppresses most.
  void chain(uint32_t head, uint32_t position) { next_[position] = std::exchange(next_[head - 1], position); }

  void fetch(uint32_t head) const { prefetch(&kept_[head == 0 ? 0 : head - 1]); }

  // Lowers `found` to the position of a box in the cell that suppresses the query. Returns whether the search is over.
  HASHNMS_INLINE bool search(uint32_t head, const Query<T>& query, uint32_t& found) const {
    for (uint32_t position = head - 1; position != kNone; position = next_[position]) {
      const Corners<T>& other = kept_[position];
      if (overlaps_above<metric>(threshold_, query.box, query.area, other, other.area()) &&
          (!labels_ || labels_[position] == query.label)) {
        found = std::min(found, position);
        if (!want_first) return true;
      }
    }
    return false;
  }

 private:
  T threshold_;
  const Corners<T>* kept_;
  const LabelId<T>* labels_;  // null if all boxes have one
  LargeArray<uint32_t> next_;
  size_t count_ = 0;
};

}  // namespace hashnms
