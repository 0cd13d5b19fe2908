// The boxes kept so far, searched one after another in vectors: the fastest way while they are few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "box.hpp"
#include "dispatch.hpp"
#include "label_ids.hpp"
#include "ranked_boxes.hpp"

namespace hashnms {

inline constexpr uint32_t kNone = ~uint32_t(0);

template <class T>
class KeptList {
 public:
  explicit KeptList(T threshold) : threshold_(threshold) {}

  // Nothing is prepared for a search here; the grid and the pyramid do.
  struct Cells {
    static constexpr size_t kBoxes = 1;
  };
  void look_at(const RankedBoxes<T>&, size_t, Cells&) const {}

  void add(const Corners<T>& box, LabelId<T> label, const Cells&, size_t) {
    if (size_ == x1_.size()) {
      // Boxes that fill up the lanes have no area: their IoU with anything is 0 or NaN.
      const size_t capacity = size_ + kLanes;
      x1_.resize(capacity, T(0)), y1_.resize(capacity, T(0)), x2_.resize(capacity, T(0)), y2_.resize(capacity, T(0));
      area_.resize(capacity, T(0));
      label_.resize(capacity, LabelId<T>(0));
    }
    x1_[size_] = box.x1, y1_[size_] = box.y1, x2_[size_] = box.x2, y2_[size_] = box.y2;
    area_[size_] = box.area();
    label_[size_++] = label;
  }

  // The first kept box of the label with IoU above the threshold, or kNone.
  HASHNMS_INLINE uint32_t find(const Corners<T>& box, LabelId<T> label, const Cells&, size_t) const {
    const T area = box.area();
    for (size_t begin = 0; begin < size_; begin += kLanes) {
      LabelId<T> hits[kLanes];
      LabelId<T> any = 0;
      for (size_t k = 0; k < kLanes; ++k) {
        const size_t at = begin + k;
        const T overlap = iou(box, area, Corners<T>{x1_[at], y1_[at], x2_[at], y2_[at]}, area_[at]);
        hits[k] = (overlap > threshold_) & (label_[at] == label);
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
  static constexpr size_t kLanes = 32;
  T threshold_;
  std::vector<T> x1_, y1_, x2_, y2_, area_;
  std::vector<LabelId<T>> label_;
  size_t size_ = 0;
};

}  // namespace hashnms
