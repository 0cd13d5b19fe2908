// The boxes kept so far, in a grid: a box searches only the cells that can hold a box with IoU above the threshold t.
//
// Boxes are stored by the class of their width, the class of their height and the cell of their centre. The pitch of
// the cells depends on the class (grid_geometry.hpp). Kept boxes overlap each other by at most t, so only a bounded
// number of them fits into a cell.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "boxes/box.hpp"
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "greedy/bloom_filter.hpp"
#include "greedy/cell_hash.hpp"
#include "greedy/grid_geometry.hpp"
#include "greedy/kept_chains.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/slot_table.hpp"
#include "support/dispatch.hpp"

namespace hashnms {

// The home cells of some boxes and the cells they search, as sums (cell_hash.hpp).
struct GridCells {
  static constexpr size_t kBoxes = 32, kClasses = 3;
  uint64_t home[kBoxes];
  // The first of the two cells along an axis that are searched in a class. The sums of x include the label.
  uint64_t across[kClasses][kBoxes], down[kClasses][kBoxes];
};

namespace detail {

HASHNMS_INLINE void find_cells(const GridGeometry& grid_geometry, const double* sizes, const double* centers,
                               uint64_t class_factor, uint64_t cell_factor, uint64_t* home,
                               uint64_t (*first_cells)[GridCells::kBoxes]) {
  constexpr size_t kBoxes = GridCells::kBoxes;
  constexpr int kNeighbours[] = {0, -1, 1};  // the likeliest first
  const GridGeometry geometry = grid_geometry;
  double own[kBoxes];
  uint64_t own_sum[kBoxes], first_of_own[kBoxes];
  for (size_t k = 0; k < kBoxes; ++k) {
    own[k] = geometry.class_of(sizes[k]);
    own_sum[k] = GridGeometry::bits_of(own[k]) * class_factor;
  }
  for (size_t neighbour = 0; neighbour < GridCells::kClasses; ++neighbour) {
    const auto step = static_cast<uint64_t>(kNeighbours[neighbour]) * class_factor;
    for (size_t k = 0; k < kBoxes; ++k) {
      const uint64_t first =
          GridGeometry::bits_of(geometry.first_cell(own[k] + kNeighbours[neighbour], sizes[k], centers[k]));
      if (neighbour == 0) first_of_own[k] = first;
      first_cells[neighbour][k] = own_sum[k] + step + first * cell_factor;
    }
  }
  for (size_t k = 0; k < kBoxes; ++k) {  // home is one of the two cells searched in its class
    const bool is_first = GridGeometry::bits_of(geometry.cell_of(centers[k], own[k])) == first_of_own[k];
    home[k] += first_cells[0][k] + (is_first ? 0 : cell_factor);
  }
}

// For up to kBoxes boxes; the rest of the array is filled with copies. Labels may be null.
template <class T>
HASHNMS_INLINE void find_cells_of(const GridGeometry& geometry, const CellFactors& factors, const Corners<T>* boxes,
                                  const LabelId<T>* labels, size_t count, GridCells& cells) {
  constexpr size_t kBoxes = GridCells::kBoxes;
  double width[kBoxes], height[kBoxes], x[kBoxes], y[kBoxes];
  uint64_t label[kBoxes];
  for (size_t k = 0; k < kBoxes; ++k) {
    const size_t at = k < count ? k : count - 1;
    const Corners<T>& box = boxes[at];
    width[k] = double(box.x2) - double(box.x1), x[k] = 0.5 * box.x1 + 0.5 * box.x2;
    height[k] = double(box.y2) - double(box.y1), y[k] = 0.5 * box.y1 + 0.5 * box.y2;
    cells.home[k] = label[k] = labels ? factors.of_label(labels[at]) : 0;
  }
  find_cells(geometry, width, x, factors.width, factors.x, cells.home, cells.across);
  find_cells(geometry, height, y, factors.height, factors.y, cells.home, cells.down);
  for (auto& across : cells.across) {
    for (size_t k = 0; k < kBoxes; ++k) across[k] += label[k];
  }
}

HASHNMS_VECTOR_CLONES static void find_cells_in_vectors(const GridGeometry& geometry, const CellFactors& factors,
                                                        const Corners<float>* boxes, const LabelId<float>* labels,
                                                        size_t count, GridCells& cells) {
  find_cells_of(geometry, factors, boxes, labels, count, cells);
}
HASHNMS_VECTOR_CLONES static void find_cells_in_vectors(const GridGeometry& geometry, const CellFactors& factors,
                                                        const Corners<double>* boxes, const LabelId<double>* labels,
                                                        size_t count, GridCells& cells) {
  find_cells_of(geometry, factors, boxes, labels, count, cells);
}

}  // namespace detail

// Finds a kept box that overlaps a given one: the first by rank, or any.
template <class T, bool want_first, Metric metric>
class KeptGrid {
 public:
  using Prepared = GridCells;

  KeptGrid(const Plan<T>& plan, const RankedBoxes<T>& boxes)
      : geometry_(plan.rule.least_iou),
        chains_(plan.rule.threshold, boxes),
        occupied_(slots_.capacity() / 2),
        searched_(slots_.capacity()) {}

  // The cells of up to kBoxes boxes from `begin` on, and a hint that they will be searched.
  void prepare(const RankedBoxes<T>& boxes, size_t begin, GridCells& cells) const {
    const size_t count = std::min(GridCells::kBoxes, boxes.size() - begin);
    detail::find_cells_in_vectors(geometry_, factors_, &boxes.corners[begin],
                                  boxes.labelled() ? &boxes.labels[begin] : nullptr, count, cells);
    for (size_t k = 0; k < count; ++k) prefetch(&slots_.likely(hash_of_sum(cells.home[k])));
    for (size_t k = 0; k < count; ++k) chains_.fetch(slots_.likely(hash_of_sum(cells.home[k])).head);
  }

  // Takes the next kept box. A box that suppresses nothing, such as one without area, is not stored.
  void add(const Corners<T>& box, LabelId<T>, const GridCells& cells, size_t k) {
    const uint32_t position = chains_.add();
    if (!can_overlap<metric>(box)) return;
    Slot& slot = slots_.at(hash_of_sum(cells.home[k]));
    if (slot.head != 0) return chains_.chain(slot.head, position);
    slot.head = position + 1;
    if (searched_.words() == slots_.capacity()) return note(slot.hash);
    occupied_ = BloomFilter(slots_.capacity() / 2);
    searched_ = BloomFilter(slots_.capacity());
    slots_.for_each([&](const Slot& other) { note(other.hash); });
  }

  // The position of a kept box of the label that overlaps the box by more than the threshold, or kNone. The box is the
  // k-th of `cells`.
  HASHNMS_INLINE uint32_t find(const Corners<T>& box, LabelId<T> label, const GridCells& cells, size_t k) const {
    if (!can_overlap<metric>(box)) return kNone;
    const Query<T> query{box, box.area(), label};
    uint32_t found = kNone;
    const uint32_t home = hash_of_sum(cells.home[k]);  // where most suppressors are
    if (occupied_.may_have(home) && search_cell(home, query, found)) return found;
    uint64_t first_cells[GridCells::kClasses * GridCells::kClasses];
    uint32_t answering = 0;
    for (size_t pair = 0; pair < std::size(first_cells); ++pair) {
      first_cells[pair] = cells.across[pair / GridCells::kClasses][k] + cells.down[pair % GridCells::kClasses][k];
      answering |= static_cast<uint32_t>(searched_.may_have(hash_of_sum(first_cells[pair]))) << pair;
    }
    for (; answering != 0; answering &= answering - 1) {
      const uint64_t first = first_cells[std::countr_zero(answering)];
      uint32_t hashes[4], occupied = 0;
      for (uint32_t cell = 0; cell < 4; ++cell) {
        hashes[cell] = hash_of_sum(first + (cell & 1) * factors_.x + (cell >> 1) * factors_.y);
        occupied |= static_cast<uint32_t>(occupied_.may_have(hashes[cell])) << cell;
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
    return slot && chains_.search(slot->head, query, found);
  }

  // Adds an occupied cell, and the four first cells from which it is searched, to the filters. The sums of those cells
  // are less by one of these differences. The hash is only the upper half of a sum: it does not show whether the
  // subtraction borrows from it, so both hashes are added.
  void note(uint32_t hash) {
    occupied_.add(hash);
    searched_.add(hash);
    for (const uint64_t difference : {factors_.x, factors_.y, factors_.x + factors_.y}) {
      searched_.add(hash - hash_of_sum(difference));
      searched_.add(hash - hash_of_sum(difference) - 1);
    }
  }

  GridGeometry geometry_;
  CellFactors factors_;
  KeptChains<T, want_first, metric> chains_;
  SlotTable<Slot> slots_;
  BloomFilter occupied_;  // cells
  BloomFilter searched_;  // first cells of four of which one is occupied
};

}  // namespace hashnms
