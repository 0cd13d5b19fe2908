// An index of kept boxes of ordinary sizes, made to serve boxes of any size a float can have.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "box.hpp"
#include "kept_list.hpp"
#include "kept_pyramid.hpp"
#include "label_ids.hpp"
#include "overlap_rule.hpp"
#include "ranked_boxes.hpp"

namespace hashnms {

// Boxes so small, or so far from ordinary, that their IoU is coarsely rounded go into a pyramid of their own, which
// relies on nothing but their intersection; so do those just large enough, which may meet both kinds.
template <class Index, class T, bool first>
class WithOddBoxes {
 public:
  using Cells = typename Index::Cells;

  WithOddBoxes(const OverlapRule<T>& rule, const RankedBoxes<T>& boxes)
      : ordinary_(rule, boxes), odd_(rule.without_certainty(), boxes) {}

  void look_at(const RankedBoxes<T>& boxes, size_t begin, Cells& cells) const {
    ordinary_.look_at(boxes, begin, cells);
  }

  void add(const Corners<T>& box, LabelId<T> label, const Cells& cells, size_t k) {
    if (OverlapRule<T>::is_ordinary(box)) {
      ordinary_.add(box, label, cells, k);
    } else {
      ordinary_.skip();
    }
    if (OverlapRule<T>::is_safe(box)) {
      odd_.skip();
    } else {
      odd_.add(box, label, {}, 0);
    }
  }

  uint32_t find(const Corners<T>& box, LabelId<T> label, const Cells& cells, size_t k) const {
    uint32_t found = kNone;
    if (OverlapRule<T>::is_ordinary(box)) found = ordinary_.find(box, label, cells, k);
    if (OverlapRule<T>::is_safe(box) || (found != kNone && !first)) return found;
    return std::min(found, odd_.find(box, label, {}, 0));
  }

 private:
  Index ordinary_;
  KeptPyramid<T, first> odd_;
};

}  // namespace hashnms
