// The cells of a pyramid (kept_pyramid.hpp), and in which of them a box that suppresses another can lie.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "boxes/box.hpp"
#include "boxes/cells.hpp"
#include "boxes/metric.hpp"
#include "greedy/overlap_rule.hpp"
#include "greedy/pyramid_shapes.hpp"

namespace hashnms {

namespace detail {

struct BoxGeometry {
  double size[2], center[2];

  template <class T>
  explicit BoxGeometry(const Corners<T>& box)
      : size{double(box.x2) - double(box.x1), double(box.y2) - double(box.y1)},
        center{0.5 * box.x1 + 0.5 * box.x2, 0.5 * box.y1 + 0.5 * box.y2} {}
};

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

struct PyramidShape {
  uint32_t key;                  // see shape_of() and kVast
  double least[2], greatest[2];  // sizes: width and height
  double inverse_pitch[2];       // of cells, see new_shape()
  int levels;                    // of blocks
  uint64_t sum;                  // of its classes of sizes, for hashes
};

// What the overlap rule decides about the pyramids of a call.
template <Metric metric>
class PyramidGeometry {
 public:
  template <class T>
  PyramidGeometry(const OverlapRule<T>& rule, int octaves)
      : least_iou_(rule.least_iou),
        reach_((1.0 - least_iou_) / (1.0 + least_iou_)),
        least_ios_(rule.least_ios),
        greatest_{rule.sizes[0].greatest, rule.sizes[1].greatest},
        farthest_{rule.centers[0].farthest(), rule.centers[1].farthest()},
        ordinary_sizes_(rule.ordinary_sizes),
        octaves_(octaves) {}

  PyramidShape new_shape(uint32_t key) const {
    PyramidShape shape{};
    shape.key = key;
    double cells = 0;  // the most that a search reaches over
    // Cells are as large as the smallest box, or smaller if only boxes with near centres can overlap enough.
    const int finer = reach_ > 0.5 ? 0 : -std::ilogb(reach_) - 1;
    for (int axis = 0; axis < 2; ++axis) {
      const int group = static_cast<int>(axis == 0 ? key >> 16 : key & (kVast - 1));
      const int octave = group * octaves_ + kLeastOctave;
      shape.least[axis] = group == 0 ? 0.0 : std::ldexp(1.0, octave);
      shape.greatest[axis] = std::ldexp(1.0, octave + octaves_);  // infinite for the largest: their size may be
      // No box lies farther out than 2^53 times its size, so cells that much finer still have numbers of their own.
      const int most_finer = farthest_[axis] > 0 ? std::max(6, 59 + octave - std::ilogb(farthest_[axis])) : finer;
      shape.inverse_pitch[axis] = std::ldexp(1.0, std::min(std::min(finer, most_finer) - octave, 1022));
      const double largest = std::min(greatest_[axis], shape.greatest[axis] / least_iou_);
      // For the rounding of centres, which are at most 2^53 times as far away as the box is large.
      const double margin = std::min(farthest_[axis] * 0x1p-50, 8.0 * largest);
      const double widest = (largest + shape.greatest[axis]) * reach_ + margin;
      cells = std::max(cells, widest * shape.inverse_pitch[axis] + 1.0);
    }
    shape.levels = 1;  // more if a search would go through more than two blocks a side
    while (std::ldexp(1.0, 3 * shape.levels) < cells && shape.levels < kMostLevels) ++shape.levels;
    return shape;
  }

  static bool much_smaller(const PyramidShape& shape, const detail::BoxGeometry& box) {
    return (box.size[0] > 8.0 * shape.greatest[0]) | (box.size[1] > 8.0 * shape.greatest[1]);
  }

  // Whether the sizes alone let a box of the shape suppress the box.
  bool comparable(const PyramidShape& shape, const detail::BoxGeometry& box) const {
    const double area = box.size[0] * box.size[1], least_area = shape.least[0] * shape.least[1];
    const bool area_is_coarse = !(area >= 0x1p-900 && area <= 0x1p900);  // it may be rounded coarsely
    if constexpr (metric == Metric::ios) {
      return area_is_coarse | (least_area < 0x1p-900) |
             (most_shared(shape, box) >= std::min(area, least_area) * least_ios_);
    }
    return (box.size[0] * least_iou_ <= shape.greatest[0]) & (shape.least[0] * least_iou_ <= box.size[0]) &
           (box.size[1] * least_iou_ <= shape.greatest[1]) & (shape.least[1] * least_iou_ <= box.size[1]) &
           (area_is_coarse | (std::max(area, least_area) * least_iou_ <= most_shared(shape, box)));
  }

  // The cells along an axis where the centre of such a box can lie.
  CellRange searched(const PyramidShape& shape, const detail::BoxGeometry& box, int axis) const {
    // Both centres, and the distance added to one, have relative rounding errors of at most 2^-53.
    const double apart = most_apart(shape, box, axis);
    const double reach = apart + (std::abs(box.center[axis]) + apart) * 0x1p-51;
    return {cell_at(box.center[axis] - reach, shape.inverse_pitch[axis]),
            cell_at(box.center[axis] + reach, shape.inverse_pitch[axis])};
  }

  // The cells of centres of boxes of the shape that lie inside the box.
  static CellRange inside(const PyramidShape& shape, const detail::BoxGeometry& box, int axis) {
    const double reach = 0.5 * box.size[axis] - 0.5 * shape.greatest[axis];
    return {cell_at(box.center[axis] - reach, shape.inverse_pitch[axis]) + 1,
            cell_at(box.center[axis] + reach, shape.inverse_pitch[axis]) - 1};
  }

 private:
  static constexpr int kMostLevels = 21;  // 8^21 cells are all there are

  // The largest intersection.
  static double most_shared(const PyramidShape& shape, const detail::BoxGeometry& box) {
    return std::min(box.size[0], shape.greatest[0]) * std::min(box.size[1], shape.greatest[1]);
  }

  // How far the centres can be apart along an axis.
  double most_apart(const PyramidShape& shape, const detail::BoxGeometry& box, int axis) const {
    const double size = box.size[axis];
    if constexpr (metric == Metric::ios) {
      // IoS > t needs an intersection wider than t times the narrower width. The result is increased a little, for the
      // rounding of sizes. If it overflows, there is no limit.
      const auto of = [&](double other) { return 0.5 * size + 0.5 * other - least_ios_ * std::min(size, other); };
      const double most = std::max(of(shape.least[axis]), of(shape.greatest[axis]));
      const double rounded = most + (size + shape.greatest[axis]) * 0x1p-50;
      return rounded < kInfinity ? rounded : kInfinity;
    }
    const double most = (0.5 * size + 0.5 * shape.greatest[axis]) * reach_;
    return metric == Metric::diou ? std::min(most, most_between(shape, box)) : most;
  }

  // The same along any axis: DIoU > t needs d2 / c2 < IoU - t, and IoU is at most the largest intersection over the
  // least union. Without this limit, a large box would search all small boxes in it, and needles all that they cross,
  // although only those near its centre can overlap it enough. The result is increased a little, for rounding. There is
  // no limit if squares or areas may be rounded coarsely.
  double most_between(const PyramidShape& shape, const detail::BoxGeometry& box) const {
    const double width = box.size[0] + shape.greatest[0], height = box.size[1] + shape.greatest[1];
    const double area = box.size[0] * box.size[1], least_area = shape.least[0] * shape.least[1];
    const double shared = most_shared(shape, box);
    const double most_iou = shared / std::max({area, least_area, area + least_area - shared});
    const double penalty = std::max(std::min(most_iou, 1.0) * (1.0 + 0x1p-10) - least_iou_, 0x1p-200);
    const double between = std::sqrt(penalty * (width * width + height * height)) * (1.0 + 0x1p-10);
    const bool is_known = ordinary_sizes_ && between >= 0x1p-400 && between <= 0x1p400 && least_area >= 0x1p-900;
    return is_known ? between : kInfinity;
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double least_iou_, reach_, least_ios_, greatest_[2], farthest_[2];
  bool ordinary_sizes_;
  int octaves_;
};

}  // namespace hashnms
