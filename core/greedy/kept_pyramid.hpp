// The boxes kept so far, in pyramids of cells: for low thresholds, where boxes of very different sizes meet.
//
// Boxes are filed by shape (pyramid_shapes.hpp). The cells of a shape are as wide and as high as its smallest box, so
// boxes that hardly overlap are few to a cell. Above the cells of each shape lie blocks of 8 x 8 of them, above these
// blocks of 8 x 8 blocks, up to the size of the largest box: a large box asks a few blocks and from there only what is
// occupied, and may stop at the first box it meets.
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
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "greedy/cell_hash.hpp"
#include "greedy/kept_chains.hpp"
#include "greedy/plan.hpp"
#include "greedy/pyramid_shapes.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/slot_table.hpp"

namespace hashnms {

namespace detail {

struct BoxGeometry {
  double size[2], center[2];

  template <class T>
  explicit BoxGeometry(const Corners<T>& box)
      : size{double(box.x2) - double(box.x1), double(box.y2) - double(box.y1)},
        center{0.5 * box.x1 + 0.5 * box.x2, 0.5 * box.y1 + 0.5 * box.y2} {}
};

// A range of cells or blocks along an axis.
struct CellRange {
  int64_t first, last;

  CellRange blocks(int level) const { return {first >> 3 * level, last >> 3 * level}; }
};

// The cell of a position; beyond 2^62 all are alike, which only makes cells larger.
inline int64_t cell_at(double position, double inverse_pitch) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const double cell = std::clamp(std::clamp(position, -kLargest, kLargest) * inverse_pitch, -0x1p62, 0x1p62);
  const auto truncated = static_cast<int64_t>(cell);
  return truncated - (static_cast<double>(truncated) > cell);
}

// Which of the children of a block, row by row, lie in the ranges.
inline uint64_t children_within(int64_t block_x, int64_t block_y, CellRange xs, CellRange ys) {
  const auto inside = [](int64_t block, CellRange range) {
    return CellRange{std::max<int64_t>(range.first - 8 * block, 0), std::min<int64_t>(range.last - 8 * block, 7)};
  };
  const CellRange across = inside(block_x, xs), down = inside(block_y, ys);
  const uint64_t row = ((uint64_t(2) << across.last) - (uint64_t(1) << across.first)) * 0x0101010101010101u;
  return row & (~uint64_t(0) << 8 * down.first) & (~uint64_t(0) >> 8 * (7 - down.last));
}

}  // namespace detail

// Finds a kept box that overlaps a given one: the first by rank, or any.
template <class T, bool want_first, Metric metric>
class KeptPyramid {
 public:
  // Nothing is prepared for several boxes at once.
  struct Prepared {
    static constexpr size_t kBoxes = 1;
  };

  KeptPyramid(const Plan<T>& plan, const RankedBoxes<T>& boxes)
      : least_iou_(plan.rule.least_iou),
        reach_((1.0 - least_iou_) / (1.0 + least_iou_)),
        least_ios_(plan.rule.least_ios),
        greatest_{plan.rule.sizes[0].greatest, plan.rule.sizes[1].greatest},
        ordinary_sizes_(plan.rule.ordinary_sizes),
        octaves_(plan.shapes.octaves),
        near_(groups_near(least_iou_, octaves_)),
        few_shapes_(near_ == kAllGroups ? kAllGroups : 8 * size_t{2 * near_ + 1} * (2 * near_ + 1)),
        chains_(plan.rule.threshold, boxes) {}

  void prepare(const RankedBoxes<T>&, size_t, Prepared&) const {}

  // Takes the next kept box; one that suppresses nothing, as one without area, is not filed.
  void add(const Corners<T>& corners, LabelId<T> label, const Prepared&, size_t) {
    const uint32_t position = chains_.add();
    if (!can_overlap<metric>(corners)) return;
    const Box box(corners);
    const Shape& shape = shape_at(box);
    const uint64_t sum = shape.sum + factors_.of_label(label);
    int64_t x = detail::cell_at(box.center[0], shape.inverse_pitch[0]);
    int64_t y = detail::cell_at(box.center[1], shape.inverse_pitch[1]);
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
    const uint32_t own = shape_of(box.size[0], box.size[1], octaves_);  // where most boxes find theirs
    if (search_shape_of(own, box, query, found)) return found;
    if constexpr (metric == Metric::ios) {
      // In a much smaller shape the box may meet many that it does not overlap enough: a larger box, which suppresses
      // it at once, is looked for before.
      for (const bool smaller : {false, true}) {
        for (const Shape& shape : shapes_) {
          if (shape.key != own && is_much_smaller(shape, box) == smaller && search_shape(shape, box, query, found)) {
            return found;
          }
        }
      }
      return found;
    }
    if (shapes_.size() <= few_shapes_) {
      for (const Shape& shape : shapes_) {
        if (shape.key != own && search_shape(shape, box, query, found)) return found;
      }
      return found;
    }
    for (uint32_t width = own >> 16, w = least_near(width); w <= width + near_; ++w) {
      for (uint32_t height = own & 0xffff, h = least_near(height); h <= height + near_; ++h) {
        const uint32_t key = w << 16 | h;
        if (key != own && search_shape_of(key, box, query, found)) return found;
      }
    }
    return found;
  }

 private:
  using Box = detail::BoxGeometry;
  static constexpr uint32_t kAllGroups = 4096;  // more than there are
  static constexpr int kMostLevels = 21;        // 8^21 cells are all there are

  struct Shape {
    uint32_t key;                  // see shape_of()
    double least[2], greatest[2];  // sizes: width and height
    double inverse_pitch[2];       // of cells, see new_shape()
    int levels;                    // of blocks
    uint64_t sum;                  // of its classes of sizes, for hashes
  };
  struct Cell {
    uint32_t hash, head;  // see KeptChains
  };
  struct Block {
    uint32_t hash, head;  // the head of all that is below
    uint64_t children;    // those that are occupied
  };

  // Of a cell, which is at level 0, or a block; `sum` is that of the shape and the label.
  uint32_t hash_at(uint64_t sum, int level, int64_t x, int64_t y) const {
    return hash_of_sum(sum + static_cast<uint64_t>(level) * factors_.level + static_cast<uint64_t>(x) * factors_.x +
                       static_cast<uint64_t>(y) * factors_.y);
  }

  const Shape& shape_at(const Box& box) {
    const uint32_t key = shape_of(box.size[0], box.size[1], octaves_);
    const auto [entry, is_new] = shape_places_.try_emplace(key, static_cast<uint32_t>(shapes_.size()));
    if (is_new) shapes_.push_back(new_shape(key));
    return shapes_[entry->second];
  }

  Shape new_shape(uint32_t key) const {
    Shape shape{};
    shape.key = key;
    double cells = 0;  // that the largest box reaches over
    // Cells are as large as the least box, or as far as boxes that meet can be apart if that is less.
    const int finer = reach_ > 0.5 ? 0 : -std::ilogb(reach_) - 1;
    for (int axis = 0; axis < 2; ++axis) {
      const int group = static_cast<int>(axis == 0 ? key >> 16 : key & 0xffff);
      const int octave = group * octaves_ + kLeastOctave;
      shape.least[axis] = group == 0 ? 0.0 : std::ldexp(1.0, octave);
      shape.greatest[axis] = std::min(std::ldexp(1.0, octave + octaves_), std::numeric_limits<double>::max());
      shape.inverse_pitch[axis] = std::ldexp(1.0, std::min(finer - octave, 1022));
      const double largest = std::min(greatest_[axis], shape.greatest[axis] / least_iou_);
      cells = std::max(cells, (largest + shape.greatest[axis]) * reach_ * shape.inverse_pitch[axis] + 1.0);
    }
    shape.levels = 1;  // or as many as it takes to ask two blocks a side
    while (std::ldexp(1.0, 3 * shape.levels) < cells && shape.levels < kMostLevels) ++shape.levels;
    shape.sum = (key >> 16) * factors_.width + (key & 0xffff) * factors_.height;
    return shape;
  }

  static bool is_much_smaller(const Shape& shape, const Box& box) {
    return (box.size[0] > 8.0 * shape.greatest[0]) | (box.size[1] > 8.0 * shape.greatest[1]);
  }

  // Whether the sizes alone let a box of the shape suppress the box.
  bool comparable(const Shape& shape, const Box& box) const {
    const double area = box.size[0] * box.size[1], least_area = shape.least[0] * shape.least[1];
    const double greatest_area = shape.greatest[0] * shape.greatest[1];
    const bool area_is_known = area >= 0x1p-900 && area <= 0x1p900;  // else it may be rounded coarsely
    if constexpr (metric == Metric::ios) {
      const double most = std::min(box.size[0], shape.greatest[0]) * std::min(box.size[1], shape.greatest[1]);
      return !area_is_known | (least_area < 0x1p-900) | (most >= std::min(area, least_area) * least_ios_);
    }
    return (box.size[0] * least_iou_ <= shape.greatest[0]) & (shape.least[0] * least_iou_ <= box.size[0]) &
           (box.size[1] * least_iou_ <= shape.greatest[1]) & (shape.least[1] * least_iou_ <= box.size[1]) &
           (!area_is_known | ((area * least_iou_ <= greatest_area) & (least_area * least_iou_ <= area)));
  }

  // Sizes of which one is at least `least_iou` times the other lie so many groups of octaves apart at most.
  static uint32_t groups_near(double least_iou, int octaves) {
    return least_iou == 0.0 ? kAllGroups : static_cast<uint32_t>(std::ceil(-std::log2(least_iou) / octaves)) + 1;
  }

  // The first of the groups of octaves whose boxes can be large enough for one in this group.
  uint32_t least_near(uint32_t group) const { return group - std::min(group, near_); }

  // Whether the search is over.
  bool search_shape_of(uint32_t key, const Box& box, const Query<T>& query, uint32_t& found) const {
    const auto place = shape_places_.find(key);
    return place != shape_places_.end() && search_shape(shapes_[place->second], box, query, found);
  }

  bool search_shape(const Shape& shape, const Box& box, const Query<T>& query, uint32_t& found) const {
    if (!comparable(shape, box)) return false;
    detail::CellRange ranges[2];
    const double between = metric == Metric::diou ? most_between(shape, box) : 0.0;
    for (int axis = 0; axis < 2; ++axis) {
      // Both centres, and what is added to one, are rounded by 2^-53 of themselves at most.
      double apart = metric == Metric::ios ? most_apart(shape, box, axis)
                                           : (0.5 * box.size[axis] + 0.5 * shape.greatest[axis]) * reach_;
      if (metric == Metric::diou) apart = std::min(apart, between);
      const double reach = apart + (std::abs(box.center[axis]) + apart) * 0x1p-51;
      ranges[axis] = {detail::cell_at(box.center[axis] - reach, shape.inverse_pitch[axis]),
                      detail::cell_at(box.center[axis] + reach, shape.inverse_pitch[axis])};
    }
    const auto few = [&](detail::CellRange range) { return range.last - range.first <= 1; };
    int level = 1;
    while (level < shape.levels && !(few(ranges[0].blocks(level)) && few(ranges[1].blocks(level)))) ++level;
    const uint64_t sum = shape.sum + factors_.of_label(query.label);
    if constexpr (metric == Metric::ios) {
      // What lies inside a large box overlaps it; what lies around its border may be much, and not overlap enough.
      const detail::CellRange xs = inside(shape, box, 0), ys = inside(shape, box, 1);
      if (level > 1 && xs.first <= xs.last && ys.first <= ys.last &&
          search_blocks({xs, ys, sum, query}, level, found)) {
        return true;
      }
    }
    return search_blocks({ranges[0], ranges[1], sum, query}, level, found);
  }

  // How far the centres of the box and one of the shape can be apart: IoS > t needs that they share more than t of the
  // width of the smaller one, which may be the narrower one. A little more, for the rounding of sizes.
  double most_apart(const Shape& shape, const Box& box, int axis) const {
    const double size = box.size[axis];
    const auto of = [&](double other) { return 0.5 * size + 0.5 * other - least_ios_ * std::min(size, other); };
    return std::max(of(shape.least[axis]), of(shape.greatest[axis])) + (size + shape.greatest[axis]) * 0x1p-50;
  }

  // The same along any axis: DIoU > t needs d2 / c2 < IoU - t, and IoU is at most the smaller area over the larger one.
  // Without this a large box would ask for all small ones in it, also where only those near its centre can overlap it
  // enough. A little more, for rounding; nothing is said where squares or areas may be rounded coarsely.
  double most_between(const Shape& shape, const Box& box) const {
    const double width = box.size[0] + shape.greatest[0], height = box.size[1] + shape.greatest[1];
    const double area = box.size[0] * box.size[1], least_area = shape.least[0] * shape.least[1];
    const double greatest_area = shape.greatest[0] * shape.greatest[1];
    const double most_iou = std::min(area, greatest_area) / std::max(area, least_area);
    const double penalty = std::max(std::min(most_iou, 1.0) * (1.0 + 0x1p-10) - least_iou_, 0x1p-200);
    const double between = std::sqrt(penalty * (width * width + height * height)) * (1.0 + 0x1p-10);
    const bool is_known = ordinary_sizes_ && between >= 0x1p-400 && between <= 0x1p400 && least_area >= 0x1p-900;
    return is_known ? between : std::numeric_limits<double>::infinity();
  }

  // The cells of centres of boxes of the shape that lie inside the box.
  static detail::CellRange inside(const Shape& shape, const Box& box, int axis) {
    const double reach = 0.5 * box.size[axis] - 0.5 * shape.greatest[axis];
    return {detail::cell_at(box.center[axis] - reach, shape.inverse_pitch[axis]) + 1,
            detail::cell_at(box.center[axis] + reach, shape.inverse_pitch[axis]) - 1};
  }

  struct Search {
    detail::CellRange xs, ys;  // of cells
    uint64_t sum;              // of the shape and the label
    const Query<T>& query;
  };

  bool search_blocks(const Search& search, int level, uint32_t& found) const {
    const detail::CellRange xs = search.xs.blocks(level), ys = search.ys.blocks(level);
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

  double least_iou_, reach_, least_ios_, greatest_[2];
  bool ordinary_sizes_;
  int octaves_;
  uint32_t near_;      // groups of octaves up and down that a box can meet
  size_t few_shapes_;  // up to so many it is faster to look at all than to look up those near
  CellFactors factors_;
  KeptChains<T, want_first, metric> chains_;
  std::vector<Shape> shapes_;
  std::unordered_map<uint32_t, uint32_t> shape_places_;
  SlotTable<Cell> cells_;
  SlotTable<Block> blocks_;
};

}  // namespace hashnms
