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
#include <iterator>

#include "box.hpp"
#include "dispatch.hpp"
#include "kept_chains.hpp"
#include "large_array.hpp"
#include "overlap_rule.hpp"
#include "ranked_boxes.hpp"
#include "slot_table.hpp"

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

  // The low bits of an integer; beyond 2^44 all are alike, which only makes cells larger. No further, for there the
  // rounding of a centre, a small part of the pitch so far, could hide a third cell.
  HASHNMS_INLINE static uint32_t low_bits(double integer) {
    const double bounded = integer < -0x1p44 ? -0x1p44 : integer > 0x1p44 ? 0x1p44 : integer;
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

// Where some boxes lie and what they ask, as hashes. Each axis has its own, and a cell's is their sum, mixed; that of
// the next cell of the same class is kNext greater.
struct CellHashes {
  static constexpr size_t kBoxes = 32, kClasses = 3;
  static constexpr uint32_t kNext[2] = {0x85ebca77u, 0x27d4eb2fu};
  uint32_t home[kBoxes];                                      // not mixed yet
  uint32_t across[kClasses][kBoxes], down[kClasses][kBoxes];  // of the first of the two cells that are asked in a class

  HASHNMS_INLINE static uint32_t mixed(uint32_t sum) { return sum * 0x2c1b3c6du; }
  HASHNMS_INLINE static uint32_t unmixed(uint32_t hash) { return hash * 0x64ea2d65u; }
  static_assert(0x2c1b3c6du * 0x64ea2d65u == 1);
};

// A set of hashes that may say of a few others, too, that it has them.
class HashSet {
 public:
  explicit HashSet(size_t words) : words_(words, Filled::with_zeros), shift_(32 - std::countr_zero(words)) {}
  HASHNMS_INLINE bool has(uint32_t hash) const { return words_[hash >> shift_] >> bit_of(hash) & 1; }
  size_t words() const { return words_.size(); }
  void add(uint32_t hash) { words_[hash >> shift_] |= uint32_t(1) << bit_of(hash); }

 private:
  HASHNMS_INLINE uint32_t bit_of(uint32_t hash) const { return hash >> std::max(shift_ - 5, 0) & 31; }

  LargeArray<uint32_t> words_;
  int shift_;
};

namespace detail {

HASHNMS_INLINE void hash_axis(const GridGeometry& grid_geometry, const double* sizes, const double* centers,
                              uint32_t class_factor, uint32_t cell_factor, uint32_t* home,
                              uint32_t (*first_cells)[CellHashes::kBoxes]) {
  const GridGeometry geometry = grid_geometry;
  const auto hash = [=](double index, double cell) {
    return GridGeometry::low_bits(index) * class_factor + GridGeometry::low_bits(cell) * cell_factor;
  };
  constexpr double kNeighbours[] = {0.0, -1.0, 1.0};  // the likeliest first
  double own[CellHashes::kBoxes];
  for (size_t k = 0; k < CellHashes::kBoxes; ++k) own[k] = geometry.class_of(sizes[k]);
  for (size_t k = 0; k < CellHashes::kBoxes; ++k) home[k] += hash(own[k], geometry.cell_of(centers[k], own[k]));
  for (size_t neighbour = 0; neighbour < CellHashes::kClasses; ++neighbour) {
    for (size_t k = 0; k < CellHashes::kBoxes; ++k) {
      const double index = own[k] + kNeighbours[neighbour];
      first_cells[neighbour][k] = hash(index, geometry.first_cell(index, sizes[k], centers[k]));
    }
  }
}

// Of up to kBoxes boxes; the rest is left over. Labels may be null.
template <class T>
HASHNMS_INLINE void hash_boxes(const GridGeometry& geometry, const Corners<T>* boxes, const LabelId<T>* labels,
                               size_t count, CellHashes& hashes) {
  constexpr size_t kBoxes = CellHashes::kBoxes;
  double width[kBoxes], height[kBoxes], x[kBoxes], y[kBoxes];
  for (size_t k = 0; k < kBoxes; ++k) {
    const Corners<T>& box = boxes[k < count ? k : count - 1];
    width[k] = double(box.x2) - double(box.x1), x[k] = 0.5 * box.x1 + 0.5 * box.x2;
    height[k] = double(box.y2) - double(box.y1), y[k] = 0.5 * box.y1 + 0.5 * box.y2;
    hashes.home[k] = labels ? hash_of_label(labels[k < count ? k : count - 1]) : 0;
  }
  uint32_t label[kBoxes];
  std::copy_n(hashes.home, kBoxes, label);
  hash_axis(geometry, width, x, 0x9e3779b1u, CellHashes::kNext[0], hashes.home, hashes.across);
  hash_axis(geometry, height, y, 0xc2b2ae3du, CellHashes::kNext[1], hashes.home, hashes.down);
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

// Finds kept boxes by cell: any that overlaps, or the first one kept.
template <class T, bool first>
class KeptGrid {
 public:
  using Cells = CellHashes;

  KeptGrid(const OverlapRule<T>& rule, const RankedBoxes<T>& boxes)
      : geometry_(rule.certain),
        boxes_(rule.threshold, boxes),
        occupied_(slots_.capacity() / 2),
        asking_(slots_.capacity()) {}

  // The cells of up to Cells::kBoxes boxes from `begin` on, and a hint that they will be searched.
  void look_at(const RankedBoxes<T>& boxes, size_t begin, Cells& cells) const {
    const size_t count = std::min(Cells::kBoxes, boxes.size() - begin);
    detail::hash_in_vectors(geometry_, &boxes.corners[begin], boxes.labelled() ? &boxes.labels[begin] : nullptr, count,
                            cells);
    for (size_t k = 0; k < count; ++k) prefetch(&slots_.likely(Cells::mixed(cells.home[k])));
    for (size_t k = 0; k < count; ++k) boxes_.fetch(slots_.likely(Cells::mixed(cells.home[k])).head);
  }

  // Takes the next kept box; one without area suppresses nothing and is not filed.
  void add(const Corners<T>& box, LabelId<T>, const Cells& cells, size_t k) {
    const uint32_t position = skip();
    if (!box.has_area()) return;
    const uint32_t hash = Cells::mixed(cells.home[k]);
    Slot& slot = slots_.at(hash);
    if (slot.head == 0) {
      note(hash);
      slot.head = position + 1;
      if (asking_.words() != slots_.capacity()) note_again();
    } else {
      boxes_.chain(slot.head, position);
    }
  }

  // Takes the next kept box without filing it; its position.
  uint32_t skip() { return boxes_.add(); }

  // The position of a kept box of the label with IoU above the threshold, or kNone. The box is the k-th of `cells`.
  HASHNMS_INLINE uint32_t find(const Corners<T>& box, LabelId<T> label, const Cells& cells, size_t k) const {
    if (!box.has_area()) return kNone;
    const Query<T> query{box, box.area(), label};
    uint32_t found = kNone;
    const uint32_t home = Cells::mixed(cells.home[k]);  // where most boxes find theirs
    if (occupied_.has(home) && search_cell(home, query, found)) return found;
    uint32_t asked[Cells::kClasses * Cells::kClasses], answering = 0;
    for (size_t pair = 0; pair < std::size(asked); ++pair) {
      asked[pair] = cells.across[pair / Cells::kClasses][k] + cells.down[pair % Cells::kClasses][k];
      answering |= static_cast<uint32_t>(asking_.has(Cells::mixed(asked[pair]))) << pair;
    }
    for (; answering != 0; answering &= answering - 1) {
      const uint32_t sum = asked[std::countr_zero(answering)];
      uint32_t hashes[4], occupied = 0;
      for (uint32_t cell = 0; cell < 4; ++cell) {
        hashes[cell] = Cells::mixed(sum + (cell & 1) * Cells::kNext[0] + (cell >> 1) * Cells::kNext[1]);
        occupied |= static_cast<uint32_t>(occupied_.has(hashes[cell])) << cell;
      }
      for (; occupied != 0; occupied &= occupied - 1) {
        const uint32_t hash = hashes[std::countr_zero(occupied)];
        if (hash != home && search_cell(hash, query, found)) return found;
      }
    }
    return found;
  }

 private:
  struct Slot {
    uint32_t hash, head;  // see KeptChains
  };

  HASHNMS_INLINE bool search_cell(uint32_t hash, const Query<T>& query, uint32_t& found) const {
    const Slot* slot = slots_.find(hash);
    return slot && boxes_.search(slot->head, query, found);
  }

  // A cell is occupied: notes it, and the four pairs of first cells from which it is asked.
  void note(uint32_t hash) {
    const uint32_t sum = Cells::unmixed(hash);
    occupied_.add(hash);
    for (const uint32_t across : {uint32_t(0), Cells::kNext[0]}) {
      for (const uint32_t down : {uint32_t(0), Cells::kNext[1]}) asking_.add(Cells::mixed(sum - across - down));
    }
  }

  void note_again() {
    occupied_ = HashSet(slots_.capacity() / 2);
    asking_ = HashSet(slots_.capacity());
    slots_.for_each([&](const Slot& slot) { note(slot.hash); });
  }

  GridGeometry geometry_;
  KeptChains<T, first> boxes_;
  SlotTable<Slot> slots_;
  HashSet occupied_, asking_;
};

}  // namespace hashnms
