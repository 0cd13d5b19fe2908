// The boxes kept so far, in pyramids of cells: for low thresholds, where boxes of very different sizes meet.
//
// Boxes are stored by shape (pyramid_shapes.hpp). The cells of a shape are as wide and as high as its smallest box, so
// a cell has few boxes that overlap little. 8 x 8 cells of a shape form a block, 8 x 8 blocks form a larger block, and
// so on up to the size of the largest box. A large box searches a few large blocks, and inside them only what is
// occupied. It can stop at the first box that overlaps it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/cells.hpp"
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "greedy/cell_hash.hpp"
#include "greedy/kept_chains.hpp"
#include "greedy/kept_forest.hpp"
#include "greedy/plan.hpp"
#include "greedy/pyramid_geometry.hpp"
#include "greedy/pyramid_shapes.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/shape_tiles.hpp"
#include "greedy/slot_table.hpp"
#include "support/tuning.hpp"
#include "support/work.hpp"

namespace hashnms {

// Finds a kept box that overlaps a given one: the first by rank, or any.
template <class T, bool want_first, Metric metric>
class KeptPyramid {
 public:
  // Nothing is prepared for several boxes at once.
  struct Prepared {
    static constexpr size_t kBoxes = 1;
  };

  KeptPyramid(const Plan<T>& plan, const RankedBoxes<T>& boxes)
      : geometry_(plan.rule, plan.shapes.octaves),
        octaves_(plan.shapes.octaves),
        near_(groups_near(plan.rule.least_iou, octaves_)),
        few_shapes_(near_ == kAllGroups ? kAllGroups : 8 * size_t{2 * near_ + 1} * (2 * near_ + 1)),
        chains_(plan.rule.threshold, boxes),
        tiles_(plan.shapes.tile),
        forest_(plan.rule.threshold) {}

  void prepare(const RankedBoxes<T>&, size_t, Prepared&) const {}

  // Takes the next kept box. A box that suppresses nothing, such as one without area, is not stored.
  void add(const Corners<T>& corners, LabelId<T> label, const Prepared&, size_t) {
    const uint32_t position = chains_.add();
    if (!can_overlap<metric>(corners)) return;
    const Box box(corners);
    const Shape* const own = shape_at(key_of(box) | (is_vast<metric>(corners.area()) ? kVast : 0));
    if (!own) return forest_.add(corners, label, position);
    const Shape& shape = *own;
    const uint64_t sum = shape.sum + factors_.of_label(label);
    if (metric == Metric::ios) {
      tiles_.note(corners, factors_.of_label(label), static_cast<size_t>(&shape - shapes_.data()));
    }
    int64_t x = cell_at(box.center[0], shape.inverse_pitch[0]);
    int64_t y = cell_at(box.center[1], shape.inverse_pitch[1]);
    Cell& cell = cells_.at(hash_at(sum, 0, x, y));
    if (cell.head == 0) {
      cell.head = position + 1;
    } else {
      chains_.chain(cell.head, position);
    }
    for (int level = 1; level <= shape.levels; ++level, x >>= 3, y >>= 3) {
      Block& block = blocks_.at(hash_at(sum, level, x >> 3, y >> 3));
      if (block.head == 0) block.head = position + 1;
      block.children |= uint64_t(1) << ((y & 7) * 8 + (x & 7));
    }
  }

  // The position of a kept box of the label that overlaps the box by more than the threshold, or kNone.
  uint32_t find(const Corners<T>& corners, LabelId<T> label, const Prepared&, size_t) const {
    if (!can_overlap<metric>(corners)) return kNone;
    const Box box(corners);
    const Query<T> query{corners, corners.area(), label};
    uint32_t found = kNone;
    const uint32_t own = key_of(box);  // where most suppressors are
    if (search_shape_of(own, box, query, found)) return found;
    if (!forest_.empty()) {
      forest_.find(query, found);
      if (!want_first && found != kNone) return found;
    }
    const bool with_vast = has_vast_ && !is_vast<metric>(query.area);
    const auto is_other = [&](uint32_t key) { return key != own && (with_vast || !(key & kVast)); };
    if constexpr (metric == Metric::ios) {
      const uint64_t around = tiles_.around(corners, factors_.of_label(label));
      // Much smaller shapes are searched last: there may be many boxes in them that do not overlap the box enough.
      for (const bool smaller : {false, true}) {
        for (uint64_t left = around; left != 0; left &= left - 1) {
          const auto k = static_cast<size_t>(std::countr_zero(left));
          if (k >= shapes_.size()) break;
          const Shape& shape = shapes_[k];
          if (is_other(shape.key) && PyramidGeometry<metric>::much_smaller(shape, box) == smaller &&
              search_shape(shape, box, query, found)) {
            return found;
          }
        }
      }
      return found;
    }
    if (shapes_.size() <= few_shapes_) {
      for (const Shape& shape : shapes_) {
        if (is_other(shape.key) && search_shape(shape, box, query, found)) return found;
      }
      return found;
    }
    for (uint32_t width = own >> 16, w = least_near(width); w <= width + near_; ++w) {
      for (uint32_t height = own & 0xffff, h = least_near(height); h <= height + near_; ++h) {
        const uint32_t key = w << 16 | h;
        if (key != own && search_shape_of(key, box, query, found)) return found;
        if (with_vast && search_shape_of(key | kVast, box, query, found)) return found;
      }
    }
    return found;
  }

 private:
  using Box = detail::BoxGeometry;
  using Shape = PyramidShape;
  static constexpr uint32_t kAllGroups = 4096;  // more than there are

  struct Cell {
    uint32_t hash, head;  // see KeptChains
  };
  struct Block {
    uint32_t hash, head;  // the head of all that is below
    uint64_t children;    // those that are occupied
  };

  uint32_t key_of(const Box& box) const { return shape_of(box.size[0], box.size[1], octaves_); }

  // The hash of a cell (level 0) or a block; `sum` is that of the shape and the label.
  uint32_t hash_at(uint64_t sum, int level, int64_t x, int64_t y) const {
    return hash_of_sum(sum + static_cast<uint64_t>(level) * factors_.level + static_cast<uint64_t>(x) * factors_.x +
                       static_cast<uint64_t>(y) * factors_.y);
  }

  // The shape with a key. Null for a new one if all shapes must be searched and there are too many.
  const Shape* shape_at(uint32_t key) {
    const auto found = shape_places_.find(key);
    if (found != shape_places_.end()) return &shapes_[found->second];
    if (near_ == kAllGroups && shapes_.size() == tuning::kFewShapes) return nullptr;
    shape_places_.emplace(key, static_cast<uint32_t>(shapes_.size()));
    shapes_.push_back(geometry_.new_shape(key));
    shapes_.back().sum = (key >> 16) * factors_.width + (key & 0xffff) * factors_.height;
    has_vast_ |= (key & kVast) != 0;
    return &shapes_.back();
  }

  // The most groups of octaves between two sizes of which one is at least `least_iou` times the other.
  static uint32_t groups_near(double least_iou, int octaves) {
    return least_iou == 0.0 ? kAllGroups : static_cast<uint32_t>(std::ceil(-std::log2(least_iou) / octaves)) + 1;
  }

  // The first group of octaves whose boxes can overlap a box of this group enough.
  uint32_t least_near(uint32_t group) const { return group - std::min(group, near_); }

  // Returns whether the search is over.
  bool search_shape_of(uint32_t key, const Box& box, const Query<T>& query, uint32_t& found) const {
    const auto place = shape_places_.find(key);
    return place != shape_places_.end() && search_shape(shapes_[place->second], box, query, found);
  }

  bool search_shape(const Shape& shape, const Box& box, const Query<T>& query, uint32_t& found) const {
    count_work();
    if (!geometry_.comparable(shape, box)) return false;
    const CellRange ranges[2] = {geometry_.searched(shape, box, 0), geometry_.searched(shape, box, 1)};
    const auto few = [&](CellRange range) { return range.last - range.first <= 1; };
    int level = 1;
    while (level < shape.levels && !(few(ranges[0].blocks(level)) && few(ranges[1].blocks(level)))) ++level;
    const uint64_t sum = shape.sum + factors_.of_label(query.label);
    if constexpr (metric == Metric::ios) {
      // First search inside a large box, where all boxes overlap it. Around its border, many may not overlap it enough.
      const CellRange xs = geometry_.inside(shape, box, 0), ys = geometry_.inside(shape, box, 1);
      if (level > 1 && xs.first <= xs.last && ys.first <= ys.last &&
          search_blocks({xs, ys, sum, query}, level, found)) {
        return true;
      }
    }
    return search_blocks({ranges[0], ranges[1], sum, query}, level, found);
  }

  struct Search {
    CellRange xs, ys;  // of cells
    uint64_t sum;      // of the shape and the label
    const Query<T>& query;
  };

  bool search_blocks(const Search& search, int level, uint32_t& found) const {
    const CellRange xs = search.xs.blocks(level), ys = search.ys.blocks(level);
    for (int64_t y = ys.first; y <= ys.last; ++y) {
      for (int64_t x = xs.first; x <= xs.last; ++x) {
        if (search_block(search, level, x, y, found)) return true;
      }
    }
    return false;
  }

  bool search_block(const Search& search, int level, int64_t x, int64_t y, uint32_t& found) const {
    const Block* block = blocks_.find(hash_at(search.sum, level, x, y));
    if (!block || (want_first && block->head - 1 >= found)) return false;
    uint64_t children =
        block->children & detail::children_within(x, y, search.xs.blocks(level - 1), search.ys.blocks(level - 1));
    for (; children != 0; children &= children - 1) {
      const int child = std::countr_zero(children);
      const int64_t child_x = 8 * x + (child & 7), child_y = 8 * y + (child >> 3);
      if (level == 1 ? search_cell(search, child_x, child_y, found)
                     : search_block(search, level - 1, child_x, child_y, found)) {
        return true;
      }
    }
    return false;
  }

  bool search_cell(const Search& search, int64_t x, int64_t y, uint32_t& found) const {
    const Cell* cell = cells_.find(hash_at(search.sum, 0, x, y));
    return cell && chains_.search(cell->head, search.query, found);
  }

  PyramidGeometry<metric> geometry_;
  int octaves_;
  uint32_t near_;      // groups of octaves up and down that are searched
  size_t few_shapes_;  // up to this many, searching all shapes is faster than looking up the near ones
  CellFactors factors_;
  KeptChains<T, want_first, metric> chains_;
  std::vector<Shape> shapes_;
  bool has_vast_ = false;
  std::unordered_map<uint32_t, uint32_t> shape_places_;
  SlotTable<Cell> cells_;
  SlotTable<Block> blocks_;
  ShapeTiles tiles_;              // of IoS
  KeptForest<T, metric> forest_;  // of boxes whose shapes are too many
};

}  // namespace hashnms
