// The boxes kept so far, in a grid: a box asks only the cells where one with IoU above the threshold t can lie.
//
// IoU > t needs t <= w1/w2 <= 1/t and |dx| <= (w1 + w2) / 2 * (1 - t) / (1 + t), and the same for heights. Boxes are
// filed by the class of their width, the class of their height and the cell of their centre, whose pitch follows the
// class. Kept boxes overlap each other by t at most, so only a bounded number of them fit into a cell.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "box.hpp"
#include "dispatch.hpp"
#include "kept_list.hpp"
#include "large_array.hpp"

namespace hashnms {

// What the threshold decides about the grid: classes of sizes and the pitch of their cells. Along one axis a box asks
// two cells in each of three classes.
class GridGeometry {
 public:
  // `certain`: a suppressed box has at least this IoU, whatever the rounding.
  explicit GridGeometry(double certain)
      : reach_((1.0 - certain) / (1.0 + certain)),
        class_width_(-kSteepest * std::log2(certain)),
        inverse_class_width_(1.0 / class_width_),
        pitch_exponent_(std::log2((std::exp2(class_width_) + 1.0) * reach_) + 2 * kExpError + 1e-9) {}

  // log2(size) is taken from the bits of the size, with a parabola through each octave: increasing, at most kLogError
  // off, at most kSteepest as steep.
  int32_t class_of(double size) const {
    const uint64_t bits = std::bit_cast<uint64_t>(size);
    const double mantissa = std::bit_cast<double>((bits & kMantissa) | kOne);
    const double log = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023) +
                       ((-1.0 / 3.0 * mantissa + 2.0) * mantissa - 5.0 / 3.0);
    return static_cast<int32_t>(floor_to_integer(log * inverse_class_width_));
  }

  // No size of the class is above this.
  double greatest_size(int32_t index) const { return exp2_from_above((index + 1) * class_width_ + kLogError); }

  // One over the pitch of the class: at least as wide as what two boxes, one of this and one of a neighbouring class,
  // can be apart in both directions, so a box asks two cells.
  double inverse_pitch(int32_t index) const {
    return exp2_from_above(-((index + 1) * class_width_ + kLogError + pitch_exponent_));
  }

  // How far the centres of two boxes can be apart.
  double reach(double size, double other_size) const { return 0.5 * (size + other_size) * reach_; }

  static int64_t cell_of(double center, double inverse_pitch) {
    return floor_to_integer(std::min(std::max(center * inverse_pitch, -0x1p62), 0x1p62));
  }

 private:
  static constexpr uint64_t kMantissa = (uint64_t(1) << 52) - 1, kOne = uint64_t(1023) << 52;
  static constexpr double kSteepest = 1.05, kLogError = 0.01, kExpError = 0.0861;

  static int64_t floor_to_integer(double value) {
    const auto truncated = static_cast<int64_t>(value);
    return truncated - (value < static_cast<double>(truncated));
  }

  // 2^x or up to 2^kExpError times that: the bits of a double are linear within an octave.
  static double exp2_from_above(double x) { return std::bit_cast<double>(static_cast<int64_t>((x + 1023.0) * 0x1p52)); }

  double reach_, class_width_, inverse_class_width_, pitch_exponent_;
};

// Finds kept boxes by cell: any that overlaps, or the first one kept. The boxes themselves stay where they are, at
// `kept` and `labels`, in the order of keeping.
template <class T, bool first>
class KeptGrid {
 public:
  KeptGrid(double threshold, const Corners<T>* kept, const LabelId<T>* labels, size_t count)
      : threshold_(rounded_down<T>(threshold)),
        geometry_(threshold * (1.0 - 64.0 * std::numeric_limits<T>::epsilon())),
        kept_(kept),
        labels_(labels),
        slots_(kFewest, Filled::with_zeros),
        present_(kFewest, Filled::with_zeros) {
    for (size_t k = 0; k < count; ++k) add(kept[k], labels[k]);
  }

  // Takes the next kept box. One whose area is not a positive number overlaps nothing and is not filed.
  void add(const Corners<T>& box, LabelId<T> label) {
    const auto position = static_cast<uint32_t>(next_.size());
    next_.push_back(kNone);
    if (!has_area(box)) return;
    if (4 * (used_ + 1) > 3 * slots_.size()) grow();
    const uint32_t hash = home_of(box, label);
    size_t place = place_of(hash);
    while (slots_[place].tag != 0 && slots_[place].tag != tag_of(hash)) place = following(place);
    Slot& slot = slots_[place];
    if (slot.tag == 0) {
      slot = {tag_of(hash), position};
      set_present(hash);
      ++used_;
    } else {
      next_[position] = std::exchange(slot.position, position);
    }
  }

  // The position of a kept box of the label with IoU above the threshold, or kNone.
  HASHNMS_INLINE uint32_t find(const Corners<T>& box, LabelId<T> label) const {
    if (!has_area(box)) return kNone;
    const Query query{box, box.area(), label};
    uint32_t found = kNone;
    const uint32_t home = home_of(box, label);  // where most boxes find theirs
    if (is_present(home) && search_cell(home, query, found)) return found;

    uint32_t across[kCells], down[kCells];
    hash_cells_near(center_x(box), width(box), kAcross, across);
    hash_cells_near(center_y(box), height(box), kDown, down);
    const uint32_t label_hash = static_cast<uint32_t>(label) * kLabel;
    uint64_t occupied = 0;
    for (size_t m = 0; m < kCells; ++m) {
      const uint32_t base = across[m] + label_hash;
      uint32_t row = 0;
      for (size_t n = 0; n < kCells; ++n) row |= static_cast<uint32_t>(is_present((base + down[n]) * kMix)) << n;
      occupied |= static_cast<uint64_t>(row) << (8 * m);
    }
    for (; occupied != 0; occupied &= occupied - 1) {
      const int at = std::countr_zero(occupied);
      const uint32_t hash = (across[at / 8] + down[at % 8] + label_hash) * kMix;
      if (hash != home && search_cell(hash, query, found)) return found;
    }
    return found;
  }

 private:
  struct Slot {
    uint32_t tag;       // 0: empty
    uint32_t position;  // of the box kept last in the cell; next_ has the others
  };
  struct Query {
    Corners<T> box;
    T area;
    LabelId<T> label;
  };
  struct AxisFactors {
    uint32_t index, cell;
  };
  static constexpr size_t kFewest = 1024, kCells = 6;
  static constexpr AxisFactors kAcross{0x9e3779b1u, 0x85ebca77u}, kDown{0xc2b2ae3du, 0x27d4eb2fu};
  static constexpr uint32_t kLabel = 0x165667b1u, kMix = 0x2c1b3c6du;

  static bool has_area(const Corners<T>& box) { return box.area() > 0 && box.area() <= std::numeric_limits<T>::max(); }
  static double width(const Corners<T>& box) { return double(box.x2) - double(box.x1); }
  static double height(const Corners<T>& box) { return double(box.y2) - double(box.y1); }
  static double center_x(const Corners<T>& box) { return 0.5 * box.x1 + 0.5 * box.x2; }
  static double center_y(const Corners<T>& box) { return 0.5 * box.y1 + 0.5 * box.y2; }

  static uint32_t hash_cell(int32_t index, int64_t cell, const AxisFactors& factors) {
    const auto folded = static_cast<uint32_t>(cell ^ (cell >> 32));
    return static_cast<uint32_t>(index) * factors.index + folded * factors.cell;
  }
  uint32_t hash_home(double center, double size, const AxisFactors& factors) const {
    const int32_t index = geometry_.class_of(size);
    return hash_cell(index, GridGeometry::cell_of(center, geometry_.inverse_pitch(index)), factors);
  }
  uint32_t home_of(const Corners<T>& box, LabelId<T> label) const {
    return (hash_home(center_x(box), width(box), kAcross) + hash_home(center_y(box), height(box), kDown) +
            static_cast<uint32_t>(label) * kLabel) *
           kMix;
  }
  HASHNMS_INLINE void hash_cells_near(double center, double size, const AxisFactors& factors, uint32_t* hashes) const {
    const int32_t own = geometry_.class_of(size);
    const double slack = std::abs(center) * 0x1p-50;
    for (int32_t k = 0; k < 3; ++k) {
      const int32_t index = own - 1 + k;
      const double reach = geometry_.reach(size, geometry_.greatest_size(index)) + slack;
      const int64_t cell = GridGeometry::cell_of(center - reach, geometry_.inverse_pitch(index));
      hashes[2 * k] = hash_cell(index, cell, factors);
      hashes[2 * k + 1] = hash_cell(index, cell + 1, factors);
    }
  }

  static uint32_t tag_of(uint32_t hash) { return hash | 1; }
  size_t place_of(uint32_t hash) const { return hash >> slot_shift_; }
  size_t following(size_t place) const { return (place + 1) & (slots_.size() - 1); }

  // A bit for each 32nd part of a slot: it tells of nearly every empty cell that it is empty.
  HASHNMS_INLINE bool is_present(uint32_t hash) const {
    return present_[hash >> slot_shift_] >> ((hash >> (slot_shift_ - 5)) & 31) & 1;
  }
  void set_present(uint32_t hash) {
    present_[hash >> slot_shift_] |= uint32_t(1) << ((hash >> (slot_shift_ - 5)) & 31);
  }

  HASHNMS_INLINE bool search_cell(uint32_t hash, const Query& query, uint32_t& found) const {
    size_t place = place_of(hash);
    while (slots_[place].tag != tag_of(hash)) {
      if (slots_[place].tag == 0) return false;
      place = following(place);
    }
    for (uint32_t position = slots_[place].position; position != kNone; position = next_[position]) {
      const Corners<T>& other = kept_[position];
      if (iou(query.box, query.area, other, other.area()) > threshold_ && labels_[position] == query.label) {
        found = std::min(found, position);
        if (!first) return true;
      }
    }
    return false;
  }

  // Every cell moves as a whole: its slot keeps its chain.
  void grow() {
    const LargeArray<Slot> old = std::exchange(slots_, LargeArray<Slot>(2 * slots_.size(), Filled::with_zeros));
    present_ = LargeArray<uint32_t>(slots_.size(), Filled::with_zeros);
    --slot_shift_;
    for (const Slot& slot : old) {
      if (slot.tag == 0) continue;
      const uint32_t hash = home_of(kept_[slot.position], labels_[slot.position]);
      set_present(hash);
      size_t place = place_of(hash);
      while (slots_[place].tag != 0) place = following(place);
      slots_[place] = slot;
    }
  }

  T threshold_;
  GridGeometry geometry_;
  const Corners<T>* kept_;
  const LabelId<T>* labels_;
  LargeArray<Slot> slots_;
  LargeArray<uint32_t> present_;
  std::vector<uint32_t> next_;
  size_t used_ = 0;
  int slot_shift_ = 32 - std::countr_zero(kFewest);
};

}  // namespace hashnms
