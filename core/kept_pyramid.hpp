// The boxes kept so far, in pyramids of cells: for low thresholds, where boxes of very different sizes meet.
//
// Boxes are filed by shape: the octave, or the group of octaves, of the width and that of the height. The cells of a
// shape are as wide and as high as its smallest box, so boxes that hardly overlap are few to a cell. Above the cells of
// each shape lie blocks of 8 x 8 of them, above these blocks of 8 x 8 blocks, up to the size of the largest box: a
// large box asks a few blocks and from there only what is occupied, and may stop at the first box it meets.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "box.hpp"
#include "dispatch.hpp"
#include "input.hpp"
#include "kept_chains.hpp"
#include "overlap_rule.hpp"
#include "ranked_boxes.hpp"
#include "slot_table.hpp"

namespace hashnms {

namespace detail {

inline constexpr int kLeastOctave = -1022;

// The exponent of the greatest power of two that is not above the size; sizes below the normal ones count as the least.
inline int octave_of(double size) {
  return std::max<int>(static_cast<int>(std::bit_cast<uint64_t>(size) >> 52) - 1023, kLeastOctave);
}

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

// The cell of a position; beyond 2^50 all are alike, which only makes cells larger.
inline int64_t cell_at(double position, double inverse_pitch) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const double cell = std::clamp(std::clamp(position, -kLargest, kLargest) * inverse_pitch, -0x1p50, 0x1p50);
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

// What a box is filed by: the groups of octaves of its width and height, 16 bits each.
inline uint32_t shape_key(const double* size, int shape_octaves) {
  const auto group = [=](double length) {
    return static_cast<uint32_t>((octave_of(length) - kLeastOctave) / shape_octaves);
  };
  return group(size[0]) << 16 | group(size[1]);
}

}  // namespace detail

// Chooses shapes so wide that they are few, in a sample of the boxes: a search goes through all of them.
template <class T, class Score>
void choose_shapes(const Input<T, Score>& input, OverlapRule<T>& rule) {
  constexpr size_t kSample = 1024, kFewShapes = 64;
  std::vector<detail::BoxGeometry> boxes;
  for (size_t k = 0; k < kSample; ++k) {
    const Corners<T> box = input.corners(input.sampled_row(k));
    if (box.has_area()) boxes.emplace_back(box);
  }
  for (rule.shape_octaves = 1;; ++rule.shape_octaves) {
    std::unordered_set<uint32_t> shapes;
    for (const auto& box : boxes) shapes.insert(detail::shape_key(box.size, rule.shape_octaves));
    rule.num_shapes = shapes.size();
    if (rule.num_shapes <= kFewShapes) return;
  }
}

// Finds kept boxes: any that overlaps, or the first one kept.
template <class T, bool first>
class KeptPyramid {
 public:
  // Nothing is prepared for several boxes at once.
  struct Cells {
    static constexpr size_t kBoxes = 1;
  };

  KeptPyramid(const OverlapRule<T>& rule, const RankedBoxes<T>& boxes)
      : certain_(rule.certain),
        reach_((1.0 - certain_) / (1.0 + certain_)),
        greatest_{rule.sizes[0].greatest, rule.sizes[1].greatest},
        octaves_(rule.shape_octaves),
        boxes_(rule.threshold, boxes) {}

  void look_at(const RankedBoxes<T>&, size_t, Cells&) const {}

  // Takes the next kept box; one without area suppresses nothing and is not filed.
  void add(const Corners<T>& corners, LabelId<T> label, const Cells&, size_t) {
    const uint32_t position = skip();
    if (!corners.has_area()) return;
    const Box box(corners);
    Shape& shape = shape_of(box);
    const uint32_t hash = shape.hash + hash_of_label(label);
    int64_t x = detail::cell_at(box.center[0], shape.inverse_pitch[0]);
    int64_t y = detail::cell_at(box.center[1], shape.inverse_pitch[1]);
    Cell& cell = cells_.at(hash_at(hash, 0, x, y));
    if (cell.head == 0) {
      cell.head = position + 1;
    } else {
      boxes_.chain(cell.head, position);
    }
    for (int level = 1; level <= shape.levels; ++level, x >>= 3, y >>= 3) {
      Block& block = blocks_.at(hash_at(hash, level, x >> 3, y >> 3));
      if (block.head == 0) block.head = position + 1;
      block.children |= uint64_t(1) << ((y & 7) * 8 + (x & 7));
    }
  }

  // Takes the next kept box without filing it; its position.
  uint32_t skip() { return boxes_.add(); }

  // The position of a kept box of the label with IoU above the threshold, or kNone.
  uint32_t find(const Corners<T>& corners, LabelId<T> label, const Cells&, size_t) const {
    if (!corners.has_area()) return kNone;
    const Box box(corners);
    const Query<T> query{corners, corners.area(), label};
    uint32_t found = kNone;
    const auto own = shape_places_.find(detail::shape_key(box.size, octaves_));  // where most boxes find theirs
    if (own != shape_places_.end() && search_shape(shapes_[own->second], box, query, found)) return found;
    for (size_t k = 0; k < shapes_.size(); ++k) {
      if (own != shape_places_.end() && k == own->second) continue;
      if (search_shape(shapes_[k], box, query, found)) return found;
    }
    return found;
  }

 private:
  using Box = detail::BoxGeometry;
  static constexpr int kMostLevels = 17;  // 8^17 cells are all there are

  struct Shape {
    double least[2], greatest[2];  // sizes: width and height
    double inverse_pitch[2];       // 1 / least
    int levels;                    // of blocks
    uint32_t hash;
  };
  struct Cell {
    uint32_t hash, head;  // see KeptChains
  };
  struct Block {
    uint32_t hash, head;  // the head of all that is below
    uint64_t children;    // those that are occupied
  };

  static uint32_t hash_at(uint32_t hash, int level, int64_t x, int64_t y) {
    return (hash + static_cast<uint32_t>(level) * 0xc2b2ae3du + static_cast<uint32_t>(x) * 0x85ebca77u +
            static_cast<uint32_t>(y) * 0x27d4eb2fu) *
           0x2c1b3c6du;
  }

  Shape& shape_of(const Box& box) {
    const uint32_t key = detail::shape_key(box.size, octaves_);
    const auto [entry, is_new] = shape_places_.try_emplace(key, static_cast<uint32_t>(shapes_.size()));
    if (is_new) shapes_.push_back(new_shape(key));
    return shapes_[entry->second];
  }

  Shape new_shape(uint32_t key) const {
    Shape shape{};
    double cells = 0;  // that the largest box reaches over
    for (int axis = 0; axis < 2; ++axis) {
      const int octave = static_cast<int>(axis == 0 ? key >> 16 : key & 0xffff) * octaves_ + detail::kLeastOctave;
      shape.least[axis] = std::ldexp(1.0, octave);
      shape.greatest[axis] = std::min(std::ldexp(1.0, octave + octaves_), std::numeric_limits<double>::max());
      shape.inverse_pitch[axis] = std::ldexp(1.0, -octave);
      const double largest = std::min(greatest_[axis], shape.greatest[axis] / certain_);
      cells = std::max(cells, (largest + shape.greatest[axis]) * shape.inverse_pitch[axis] + 1.0);
    }
    shape.levels = 1;  // or as many as it takes to ask two blocks a side
    while (std::ldexp(1.0, 3 * shape.levels) < cells && shape.levels < kMostLevels) ++shape.levels;
    shape.hash = key * 0x9e3779b1u;
    return shape;
  }

  // Whether the sizes alone let a box of the shape suppress the box.
  bool comparable(const Shape& shape, const Box& box) const {
    const double area = box.size[0] * box.size[1], least_area = shape.least[0] * shape.least[1];
    const double greatest_area = shape.greatest[0] * shape.greatest[1];
    return (box.size[0] * certain_ <= shape.greatest[0]) & (shape.least[0] * certain_ <= box.size[0]) &
           (box.size[1] * certain_ <= shape.greatest[1]) & (shape.least[1] * certain_ <= box.size[1]) &
           (area * certain_ <= greatest_area) & (least_area * certain_ <= area);
  }

  // Whether the search is over.
  bool search_shape(const Shape& shape, const Box& box, const Query<T>& query, uint32_t& found) const {
    if (!comparable(shape, box)) return false;
    detail::CellRange ranges[2];
    for (int axis = 0; axis < 2; ++axis) {
      const double reach =
          (0.5 * box.size[axis] + 0.5 * shape.greatest[axis]) * reach_ + std::abs(box.center[axis]) * 0x1p-50;
      ranges[axis] = {detail::cell_at(box.center[axis] - reach, shape.inverse_pitch[axis]),
                      detail::cell_at(box.center[axis] + reach, shape.inverse_pitch[axis])};
    }
    const auto few = [&](detail::CellRange range) { return range.last - range.first <= 1; };
    int level = 1;
    while (level < shape.levels && !(few(ranges[0].blocks(level)) && few(ranges[1].blocks(level)))) ++level;
    const Search search{ranges[0], ranges[1], shape.hash + hash_of_label(query.label), query};
    const detail::CellRange xs = ranges[0].blocks(level), ys = ranges[1].blocks(level);
    for (int64_t y = ys.first; y <= ys.last; ++y) {
      for (int64_t x = xs.first; x <= xs.last; ++x) {
        if (search_block(search, level, x, y, found)) return true;
      }
    }
    return false;
  }

  struct Search {
    detail::CellRange xs, ys;  // of cells
    uint32_t hash;
    const Query<T>& query;
  };

  bool search_block(const Search& search, int level, int64_t x, int64_t y, uint32_t& found) const {
    const Block* block = blocks_.find(hash_at(search.hash, level, x, y));
    if (!block || (first && block->head - 1 >= found)) return false;
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
    const Cell* cell = cells_.find(hash_at(search.hash, 0, x, y));
    return cell && boxes_.search(cell->head, search.query, found);
  }

  double certain_, reach_, greatest_[2];
  int octaves_;
  KeptChains<T, first> boxes_;
  std::vector<Shape> shapes_;
  std::unordered_map<uint32_t, uint32_t> shape_places_;
  SlotTable<Cell> cells_;
  SlotTable<Block> blocks_;
};

}  // namespace hashnms
