// The boxes kept so far, searched one after another in vectors: the fastest way while they are few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/labels.hpp"
#include "boxes/lanes.hpp"
#include "boxes/metric.hpp"
#include "greedy/ranked_boxes.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

template <class T, Metric metric>
class KeptList {
 public:
  explicit KeptList(T threshold) : threshold_(threshold) {}

  // Nothing is prepared for several boxes at once.
  struct Prepared {
    static constexpr size_t kBoxes = 1;
  };
  void prepare(const RankedBoxes<T>&, size_t, Prepared&) const {}

  void add(const Corners<T>& box, LabelId<T> label, const Prepared&, size_t) {
    // Unused lanes hold boxes without area, which overlap nothing.
    if (size_ % kLanes == 0) blocks_.emplace_back();
    Block& block = blocks_.back();
    block.boxes.set(size_ % kLanes, box);
    block.areas[size_ % kLanes] = box.area();
    block.labels[size_++ % kLanes] = label;
  }

  // The first kept box of the label that overlaps the box by more than the threshold, or kNone.
  HASHNMS_INLINE uint32_t find(const Corners<T>& box, LabelId<T> label, const Prepared&, size_t) const {
    const T area = box.area();
    for (size_t begin = 0; begin < size_; begin += kLanes) {
      const Block& block = blocks_[begin / kLanes];
      LabelId<T> hits[kLanes];
      LabelId<T> any = 0;
      for (size_t k = 0; k < kLanes; ++k) {
        const T overlap = overlap_of<metric>(box, area, block.boxes.get(k), block.areas[k]);
        hits[k] = (overlap > threshold_) & (block.labels[k] == label);
        any |= hits[k];
      }
      if (any) {
        size_t k = 0;
        while (!hits[k]) ++k;
        return static_cast<uint32_t>(begin + k);
      }
    }
    return kNone;
  }

 private:
  static constexpr size_t kLanes = kTogether;
  struct Block {
    BoxLanes<T, kLanes> boxes{};
    T areas[kLanes] = {};
    LabelId<T> labels[kLanes] = {};
  };

  T threshold_;
  std::vector<Block> blocks_;
  size_t size_ = 0;
};

}  // namespace hashnms
