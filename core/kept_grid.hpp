// The boxes kept so far, in a grid: a box asks only the cells where one with IoU above the threshold t can lie.
//
// IoU > t needs t <= w1/w2 <= 1/t and |dx| <= (w1 + w2) / 2 * (1 - t) / (1 + t), and the same for heights. Boxes are
// filed by the class of their width, the class of their height and the cell of their centre, whose pitch follows the
// class. Kept boxes overlap each other by t at most, so only a bounded number of them fit into a cell.
#pragma once

#include <algorithm>
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
#include "overlap_rule.hpp"

namespace hashnms {

// What the threshold decides about the grid: classes of sizes and the pitch of their cells. Along one axis a box asks
// two cells in each of three classes. Integers are held in doubles, for these run in vectors.
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
  HASHNMS_INLINE double class_of(double size) const {
    const uint64_t bits = std::bit_cast<uint64_t>(size);
    const double mantissa = std::bit_cast<double>((bits & kMantissa) | kOne);
    const double exponent = std::bit_cast<double>((bits >> 52) | kTwoTo52) - (0x1p52 + 1023.0);
    return std::floor((exponent + ((-1.0 / 3.0 * mantissa + 2.0) * mantissa - 5.0 / 3.0)) * inverse_class_width_);
  }

  // The first cell of a class that a box of this size and centre asks.
  HASHNMS_INLINE double first_cell(double index, double size, double center) const {
    const double greatest_size = exp2_from_above((index + 1.0) * class_width_ + kLogError);
    const double reach = 0.5 * (size + greatest_size) * reach_ + std::abs(center) * 0x1p-50;
    return cell_of(center - reach, index);
  }

  HASHNMS_INLINE double cell_of(double position, double index) const {
    // One over the pitch, which is at least as wide as what two boxes, one of this and one of a neighbouring class, can
    // be apart in both directions: so a box asks two cells.
    const double inverse_pitch = exp2_from_above(-((index + 1.0) * class_width_ + kLogError + pitch_exponent_));
    return std::floor(position * inverse_pitch);
  }

  // The low bits of an integer; beyond 2^50 all are alike, which only makes cells larger.
  HASHNMS_INLINE static uint32_t low_bits(double integer) {
    const double bounded = integer < -0x1p50 ? -0x1p50 : integer > 0x1p50 ? 0x1p50 : integer;
    return static_cast<uint32_t>(std::bit_cast<uint64_t>(bounded + 0x1.8p52));
  }

 private:
  static constexpr uint64_t kMantissa = (uint64_t(1) << 52) - 1, kOne = uint64_t(1023) << 52;
  static constexpr uint64_t kTwoTo52 = uint64_t(1023 + 52) << 52;
  static constexpr double kSteepest = 1.05, kLogError = 0.01, kExpError = 0.0861;

  // 2^x or up to 2^kExpError times that: linear within an octave.
  HASHNMS_INLINE static double exp2_from_above(double x) {
    const double exponent = std::floor(x);
    const uint64_t mantissa = std::bit_cast<uint64_t>(1.0 + (x - exponent));
    return std::bit_cast<double>(mantissa + (std::bit_cast<uint64_t>(exponent + 0x1.8p52) << 52));
  }

  double reach_, class_width_, inverse_class_width_, pitch_exponent_;
};

// The hashes of the cells that some boxes lie in and ask, each axis on its own; a cell's hash is their sum's.
struct CellHashes {
  static constexpr size_t kBoxes = 32, kCells = 6;
  uint32_t home[kBoxes];
  uint32_t across[kCells][kBoxes], down[kCells][kBoxes];

  HASHNMS_INLINE static uint32_t mixed(uint32_t sum) { return (sum * 0x2c1b3c6du) | 1; }  // never 0
};

namespace detail {

struct AxisFactors {
  uint32_t index, cell;
};

HASHNMS_INLINE void hash_axis(const GridGeometry& grid_geometry, const double* sizes, const double* centers,
                              const AxisFactors& factors, uint32_t* home, uint32_t (*cells)[CellHashes::kBoxes]) {
  const GridGeometry geometry = grid_geometry;
  const auto hash = [=](double index, double cell) {
    return GridGeometry::low_bits(index) * factors.index + GridGeometry::low_bits(cell) * factors.cell;
  };
  double own[CellHashes::kBoxes];
  for (size_t k = 0; k < CellHashes::kBoxes; ++k) own[k] = geometry.class_of(sizes[k]);
  for (size_t k = 0; k < CellHashes::kBoxes; ++k) home[k] += hash(own[k], geometry.cell_of(centers[k], own[k]));
  for (size_t neighbour = 0; neighbour < 3; ++neighbour) {
    for (size_t k = 0; k < CellHashes::kBoxes; ++k) {
      const double index = own[k] + (static_cast<double>(neighbour) - 1.0);
      const double cell = geometry.first_cell(index, sizes[k], centers[k]);
      cells[2 * neighbour][k] = hash(index, cell);
      cells[2 * neighbour + 1][k] = hash(index, cell + 1.0);
    }
  }
}

// Of up to kBoxes boxes; the rest is left over.
template <class T>
HASHNMS_INLINE void hash_boxes(const GridGeometry& geometry, const Corners<T>* boxes, const LabelId<T>* labels,
                               size_t count, CellHashes& hashes) {
  constexpr size_t kBoxes = CellHashes::kBoxes;
  double width[kBoxes], height[kBoxes], x[kBoxes], y[kBoxes];
  for (size_t k = 0; k < kBoxes; ++k) {
    const Corners<T>& box = boxes[k < count ? k : count - 1];
    width[k] = double(box.x2) - double(box.x1), x[k] = 0.5 * box.x1 + 0.5 * box.x2;
    height[k] = double(box.y2) - double(box.y1), y[k] = 0.5 * box.y1 + 0.5 * box.y2;
    hashes.home[k] = static_cast<uint32_t>(labels[k < count ? k : count - 1]) * 0x165667b1u;
  }
  uint32_t label[kBoxes];
  std::copy_n(hashes.home, kBoxes, label);
  hash_axis(geometry, width, x, {0x9e3779b1u, 0x85ebca77u}, hashes.home, hashes.across);
  hash_axis(geometry, height, y, {0xc2b2ae3du, 0x27d4eb2fu}, hashes.home, hashes.down);
  for (size_t k = 0; k < kBoxes; ++k) hashes.home[k] = CellHashes::mixed(hashes.home[k]);
  for (auto& cells : hashes.across) {
    for (size_t k = 0; k < kBoxes; ++k) cells[k] += label[k];
  }
}

HASHNMS_VECTOR_CLONES static void hash_in_vectors(const GridGeometry& geometry, const Corners<float>* boxes,
                                                  const LabelId<float>* labels, size_t count, CellHashes& hashes) {
  hash_boxes(geometry, boxes, labels, count, hashes);
}
HASHNMS_VECTOR_CLONES static void hash_in_vectors(const GridGeometry& geometry, const Corners<double>* boxes,
                                                  const LabelId<double>* labels, size_t count, CellHashes& hashes) {
  hash_boxes(geometry, boxes, labels, count, hashes);
}

}  // namespace detail

// Finds kept boxes by cell: any that overlaps, or the first one kept. The boxes themselves stay where they are, at
// `kept` and `labels`, in the order of keeping.
template <class T, bool first>
class KeptGrid {
 public:
  using Cells = CellHashes;

  KeptGrid(const OverlapRule& rule, const Corners<T>* kept, const LabelId<T>* labels, size_t count)
      : threshold_(rounded_down<T>(rule.threshold)),
        geometry_(rule.certain),
        kept_(kept),
        labels_(labels),
        slots_(kFewest, Filled::with_zeros),
        present_(kFewest, Filled::with_zeros) {
    Cells cells;
    for (size_t k = 0; k < count; ++k) {
      if (k % Cells::kBoxes == 0) look_at(kept + k, labels + k, std::min(Cells::kBoxes, count - k), cells);
      add(kept[k], labels[k], cells, k % Cells::kBoxes);
    }
  }

  // The cells of up to Cells::kBoxes boxes, and a hint that they will be searched.
  void look_at(const Corners<T>* boxes, const LabelId<T>* labels, size_t count, Cells& cells) const {
    detail::hash_in_vectors(geometry_, boxes, labels, count, cells);
    for (size_t k = 0; k < count; ++k) prefetch(&slots_[place_of(cells.home[k])]);
    for (size_t k = 0; k < count; ++k) {
      if (is_present(cells.home[k])) prefetch(&kept_[slots_[place_of(cells.home[k])].position]);
    }
  }

  // Takes the next kept box; one without area suppresses nothing and is not filed.
  void add(const Corners<T>& box, LabelId<T>, const Cells& cells, size_t k) {
    const uint32_t hash = cells.home[k];
    const auto position = static_cast<uint32_t>(next_.size());
    next_.push_back(kNone);
    if (!box.has_area()) return;
    if (4 * (used_ + 1) > 3 * slots_.size()) grow();
    size_t place = place_of(hash);
    while (slots_[place].hash != 0 && slots_[place].hash != hash) place = following(place);
    Slot& slot = slots_[place];
    if (slot.hash == 0) {
      slot = {hash, position};
      set_present(hash);
      ++used_;
    } else {
      // Behind the first, which has the highest score of the cell and suppresses most.
      next_[position] = std::exchange(next_[slot.position], position);
    }
  }

  // The position of a kept box of the label with IoU above the threshold, or kNone. The box is the k-th of `hashes`.
  HASHNMS_INLINE uint32_t find(const Corners<T>& box, LabelId<T> label, const Cells& hashes, size_t k) const {
    if (!box.has_area()) return kNone;
    const Query query{box, box.area(), label};
    uint32_t found = kNone;
    const uint32_t home = hashes.home[k];  // where most boxes find theirs
    if (is_present(home) && search_cell(home, query, found)) return found;
    for (size_t m = 0; m < CellHashes::kCells; ++m) {
      const uint32_t across = hashes.across[m][k];
      uint32_t occupied = 0;
      for (size_t n = 0; n < CellHashes::kCells; ++n) {
        occupied |= static_cast<uint32_t>(is_present(CellHashes::mixed(across + hashes.down[n][k]))) << n;
      }
      for (; occupied != 0; occupied &= occupied - 1) {
        const uint32_t hash = CellHashes::mixed(across + hashes.down[std::countr_zero(occupied)][k]);
        if (hash != home && search_cell(hash, query, found)) return found;
      }
    }
    return found;
  }

 private:
  struct Slot {
    uint32_t hash;      // 0: empty
    uint32_t position;  // of the box kept first in the cell; next_ leads on to the others
  };
  struct Query {
    Corners<T> box;
    T area;
    LabelId<T> label;
  };
  static constexpr size_t kFewest = 1024;

  size_t place_of(uint32_t hash) const { return hash >> slot_shift_; }
  size_t following(size_t place) const { return (place + 1) & (slots_.size() - 1); }

  // A bit for each 32nd part of a slot: it tells of nearly every empty cell that it is empty.
  HASHNMS_INLINE bool is_present(uint32_t hash) const { return present_[hash >> slot_shift_] >> bit_of(hash) & 1; }
  void set_present(uint32_t hash) { present_[hash >> slot_shift_] |= uint32_t(1) << bit_of(hash); }
  HASHNMS_INLINE uint32_t bit_of(uint32_t hash) const { return (hash >> bit_shift_) & 31; }

  HASHNMS_INLINE bool search_cell(uint32_t hash, const Query& query, uint32_t& found) const {
    size_t place = place_of(hash);
    while (slots_[place].hash != hash) {
      if (slots_[place].hash == 0) return false;
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
    bit_shift_ = std::max(slot_shift_ - 5, 0);
    for (const Slot& slot : old) {
      if (slot.hash == 0) continue;
      set_present(slot.hash);
      size_t place = place_of(slot.hash);
      while (slots_[place].hash != 0) place = following(place);
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
  int slot_shift_ = 32 - std::countr_zero(kFewest), bit_shift_ = slot_shift_ - 5;
};

}  // namespace hashnms
