// Growing boxes: the first box of a group absorbs the others one after another, if they overlap the box as grown so
// far.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "boxes/box.hpp"
#include "boxes/metric.hpp"
#include "support/interrupt.hpp"

namespace hashnms {

// Groups of rows of `boxes`, xyxy: the first row of each group, its other rows in `others`, and where these end.
struct Groups {
  const double* boxes;
  const int64_t* firsts;
  const int64_t* others;
  const int64_t* ends;
  size_t count;

  Corners<double> box(int64_t row) const { return corners_of(boxes + 4 * row, BoxFormat::xyxy); }
  bool fits(size_t rows, size_t num_others) const {
    const auto is_row = [=](int64_t row) { return row >= 0 && row < static_cast<int64_t>(rows); };
    return std::all_of(firsts, firsts + count, is_row) && std::all_of(others, others + num_others, is_row) &&
           std::is_sorted(ends, ends + count) && (count == 0 || ends[0] >= 0) &&
           (count == 0 ? 0 : ends[count - 1]) == static_cast<int64_t>(num_others);
  }
};

// Writes the grown boxes, and which of the others they absorbed: those whose overlap was at least the threshold.
inline void grow(const Groups& groups, Metric metric, double threshold, double* grown, bool* taken) {
  with_metric(metric, [&]<Metric kMetric>() {
    int64_t at = 0;
    for_each_piece(groups.count, [&](size_t begin, size_t end) {
      for (size_t group = begin; group < end; ++group) {
        Corners<double> box = groups.box(groups.firsts[group]);
        for (; at < groups.ends[group]; ++at) {
          const Corners<double> other = groups.box(groups.others[at]);
          taken[at] = overlap_of<kMetric>(box, box.area(), other, other.area()) >= threshold;
          if (!taken[at]) continue;
          box = {std::min(box.x1, other.x1), std::min(box.y1, other.y1), std::max(box.x2, other.x2),
                 std::max(box.y2, other.y2)};
        }
        double* const row = grown + 4 * group;
        row[0] = box.x1, row[1] = box.y1, row[2] = box.x2, row[3] = box.y2;
      }
    });
  });
}

}  // namespace hashnms
