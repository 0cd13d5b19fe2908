// Exact NMS of a part of a scene: which of its boxes are certainly kept, which certainly suppressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "boxes/images.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "boxes/scan.hpp"
#include "greedy/borders.hpp"
#include "greedy/overlap_rule.hpp"
#include "greedy/partial.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/suppressors.hpp"
#include "greedy/tiles.hpp"
#include "nms.hpp"
#include "support/large_array.hpp"

namespace hashnms {

enum class Status : int8_t { suppressed = 0, kept = 1, undecided = 2 };

// The status of each row. `open` says which boxes may overlap a box outside the part, `kept` which are known to be
// kept; both may be null. Nothing if a number is invalid; the caller checks the rest.
template <class T, class Score>
std::optional<LargeArray<Status>> partial_nms(const Input<T, Score>& given, const NmsOptions& options, const bool* open,
                                              const bool* kept) {
  const Extents extents = extents_of(given.boxes, given.format, nullptr, given.count);
  if (!extents.valid || !all_finite(given.scores, given.count)) return std::nullopt;
  const PairLabels pairs(given);
  const auto input = pairs.of(given);
  const auto plan = Plan<T>::of(input, options.metric, options.exclusive_threshold(), extents);
  const LabelIds<T> ids(input.labels, input.count);
  Suppressors nobody(nullptr, 0);
  Part part{nullptr, open, kept, nobody, {}, {}};
  RankedBoxes<T> ranked(input, ids, detail::claims_above(input, -std::numeric_limits<double>::infinity()));
  with_metric(options.metric, [&]<Metric metric>() { decide_part<false, metric>(part, ranked, plan); });
  LargeArray<Status> status(input.count, Filled::with_zeros);
  for (size_t k = 0; k < ranked.kept; ++k) status[ranked.rows[k]] = Status::kept;
  for (const Part::Undecided& box : part.undecided) status[box.row] = Status::undecided;
  return status;
}

// Writes the regions of boxes (tiles.hpp), four numbers each; false if a number is invalid.
template <class T>
bool write_regions(const T* boxes, BoxFormat format, size_t count, const NmsOptions& options, double* regions) {
  const Extents extents = extents_of(boxes, format, nullptr, count);
  if (!extents.valid) return false;
  const Reach reach(OverlapRule<T>::of(options.metric, options.exclusive_threshold(), extents).least_iou);
  for (size_t row = 0; row < count; ++row, regions += 4) {
    const Region region = reach.region(corners_of(boxes + 4 * row, format));
    regions[0] = region.x1, regions[1] = region.y1, regions[2] = region.x2, regions[3] = region.y2;
  }
  return true;
}

namespace detail {

// Whether all boxes that have an area have an ordinary size.
template <class T>
bool all_ordinary(const T* boxes, BoxFormat format, size_t count) {
  for (size_t row = 0; row < count; ++row) {
    const Corners<T> box = corners_of(boxes + 4 * row, format);
    const double width = box.x2 - box.x1, height = box.y2 - box.y1;
    if (width > 0.0 && height > 0.0 && !OverlapRule<T>::is_ordinary(width, height)) return false;
  }
  return true;
}

}  // namespace detail

// Which boxes of a part of a scene touch which tile: the first boxes, which have together at most `most` copies, but at
// least one box. Nothing if a number is invalid, or if the size of a box is not ordinary and the region depends on it:
// then it depends on the other boxes of the scene, too.
template <class T>
std::optional<Touches> touched_tiles(const T* boxes, BoxFormat format, size_t count, const NmsOptions& options,
                                     const Borders& borders, size_t most) {
  const Extents extents = extents_of(boxes, format, nullptr, count);
  if (!extents.valid) return std::nullopt;
  const Extents ordinary{true, {{1.0, 1.0}, {1.0, 1.0}}, {}, {}};
  const auto rule = OverlapRule<T>::of(options.metric, options.exclusive_threshold(), ordinary);
  if (rule.least_iou > 0.0 && !detail::all_ordinary(boxes, format, count)) return std::nullopt;
  return touches_of(boxes, format, count, Reach(rule.least_iou), borders, most);
}

}  // namespace hashnms
