// Exact greedy NMS: by decreasing score, a box is kept unless a kept box of its label overlaps it too much.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "box.hpp"
#include "dispatch.hpp"
#include "extents.hpp"
#include "kept_grid.hpp"
#include "kept_list.hpp"
#include "label_ids.hpp"
#include "large_array.hpp"
#include "rank.hpp"

namespace hashnms {

struct NmsOptions {
  double iou_threshold;
  double score_threshold;  // boxes need a score above it; -inf for all
  size_t max_output;
  bool want_suppressor;
};

struct NmsResult {
  LargeArray<int64_t> keep;
  LargeArray<int64_t> suppressor;  // of each box: the kept box that removed it, itself, or -1; empty unless wanted
};

namespace detail {

// The boxes by decreasing score. Those kept are moved to the front as they are found, so that at any time the first
// `kept` are the kept ones, and those from `next` on are still to be looked at.
template <class T>
struct RankedBoxes {
  LargeArray<Corners<T>> corners;
  LargeArray<LabelId<T>> labels;
  LargeArray<uint32_t> rows;     // in the input
  LargeArray<uint32_t> remover;  // of each row, the position of the kept box that removed it; empty unless wanted
  size_t next = 0, kept = 0;

  // Moves a box to the front; its position there.
  uint32_t keep(const Corners<T>& box, LabelId<T> label, uint32_t row) {
    corners[kept] = box;
    labels[kept] = label;
    rows[kept] = row;
    return static_cast<uint32_t>(kept++);
  }
  bool done() const { return next == corners.size(); }
  bool wants_remover() const { return remover.size() > 0; }
};

// Goes on until `most` boxes are kept, and then, if removers are wanted, finds those of the rest. `kept_boxes` finds a
// kept box that overlaps a given one, and takes new ones.
template <class T, class KeptBoxes>
HASHNMS_INLINE void keep_until(RankedBoxes<T>& ranked, size_t stop, size_t most, KeptBoxes& kept_boxes) {
  for (size_t k = KeptBoxes::kAtOnce; !ranked.done(); ++ranked.next, ++k) {
    if (ranked.kept == stop && !(stop == most && ranked.wants_remover())) return;
    if (k == KeptBoxes::kAtOnce) {
      kept_boxes.look_at(&ranked.corners[ranked.next], &ranked.labels[ranked.next],
                         std::min(k, ranked.corners.size() - ranked.next));
      k = 0;
    }
    const Corners<T> box = ranked.corners[ranked.next];
    const LabelId<T> label = ranked.labels[ranked.next];
    const uint32_t row = ranked.rows[ranked.next];
    uint32_t found = kept_boxes.find(box, label, k);
    if (found == kNone && ranked.kept < most) {
      found = ranked.keep(box, label, row);
      kept_boxes.add(box, label, k);
    }
    if (ranked.wants_remover()) ranked.remover[row] = found;
  }
}

// A grid as keep_until() wants it: several boxes are hashed at once.
template <class T, bool first>
struct GridSearch {
  KeptGrid<T, first>& grid;
  CellHashes hashes;

  static constexpr size_t kAtOnce = CellHashes::kBoxes;
  void look_at(const Corners<T>* boxes, const LabelId<T>* labels, size_t count) {
    grid.hash(boxes, labels, count, hashes);
  }
  uint32_t find(const Corners<T>& box, LabelId<T> label, size_t k) const { return grid.find(box, label, hashes, k); }
  void add(const Corners<T>& box, LabelId<T>, size_t k) { grid.add(box, hashes.home[k]); }
};

HASHNMS_VECTOR_CLONES static void keep_with_list(RankedBoxes<float>& ranked, size_t stop, size_t most,
                                                 KeptList<float>& list) {
  keep_until(ranked, stop, most, list);
}
HASHNMS_VECTOR_CLONES static void keep_with_list(RankedBoxes<double>& ranked, size_t stop, size_t most,
                                                 KeptList<double>& list) {
  keep_until(ranked, stop, most, list);
}

template <class T, class Score>
RankedBoxes<T> ranked_boxes(const T* boxes, BoxFormat format, const Score* scores, const int64_t* labels, size_t count,
                            double score_threshold, bool want_remover) {
  Claims<Score> claims(count);
  size_t taking_part = 0;
  for (size_t k = 0; k < count; ++k) {
    claims[taking_part] = Claim<Score>(scores[k], static_cast<uint32_t>(k));
    taking_part += static_cast<double>(scores[k]) > score_threshold;
  }
  claims.shrink(taking_part);
  sort_claims(claims);
  RankedBoxes<T> ranked{LargeArray<Corners<T>>(taking_part), LargeArray<LabelId<T>>(taking_part),
                        LargeArray<uint32_t>(taking_part), LargeArray<uint32_t>(want_remover ? count : 0)};
  std::fill(ranked.remover.begin(), ranked.remover.end(), kNone);
  const LabelIds<T> ids(labels, count);
  for (size_t k = 0; k < taking_part; ++k) {
    const uint32_t row = claims[k].box();
    ranked.corners[k] = corners_of(boxes + 4 * static_cast<size_t>(row), format);
    ranked.labels[k] = ids[row];
    ranked.rows[k] = row;
  }
  return ranked;
}

// From how many kept boxes on the grid is faster than trying all (benchmarks/nms.py). The lower the threshold, the more
// differ the boxes that can suppress each other, the larger are the cells, and the more kept boxes lie in one.
inline size_t few_kept(double threshold) {
  if (threshold >= 0.35) return 96;
  return static_cast<size_t>(std::min(250.0 / (threshold * threshold), 0x1p40));
}

// Whether the grid's rules hold: they are about real numbers, and areas near the least normal one are rounded too
// coarsely for that; and the sizes it computes with must stay well inside a double's range.
template <class T>
bool grid_serves(const RankedBoxes<T>& ranked, double threshold) {
  const double least_area = 0x1p10 * std::numeric_limits<T>::min() / threshold;
  const double least_size = std::max<double>(std::numeric_limits<T>::min(), 0x1p-900);
  const auto fits = [=](double size) { return size >= least_size && size <= 0x1p900; };
  return std::all_of(ranked.corners.begin(), ranked.corners.end(), [&](const Corners<T>& box) {
    return !box.has_area() || (box.area() >= least_area && fits(box.x2 - box.x1) && fits(box.y2 - box.y1));
  });
}

template <bool first, class T>
void keep_with_grid(RankedBoxes<T>& ranked, double threshold, size_t most) {
  KeptGrid<T, first> grid(threshold, ranked.corners.data(), ranked.labels.data(), ranked.kept);
  GridSearch<T, first> search{grid, {}};
  keep_until(ranked, most, most, search);
}

template <class T>
void keep_greedily(RankedBoxes<T>& ranked, double threshold, size_t most) {
  KeptList<T> list(rounded_down<T>(threshold));
  keep_with_list(ranked, std::min(most, few_kept(threshold)), most, list);
  if (ranked.done() || ranked.kept == most) return;
  if (!grid_serves(ranked, threshold)) return keep_with_list(ranked, most, most, list);
  if (ranked.wants_remover()) {
    keep_with_grid<true>(ranked, threshold, most);
  } else {
    keep_with_grid<false>(ranked, threshold, most);
  }
}

}  // namespace detail

// Nothing if a number is not legal; the caller's other checks are trusted. Labels may be null.
template <class T, class Score>
std::optional<NmsResult> nms(const T* boxes, BoxFormat format, const Score* scores, const int64_t* labels, size_t count,
                             const NmsOptions& options) {
  if (!extents_of(boxes, format, nullptr, count).legal || !all_finite(scores, count)) return std::nullopt;
  auto ranked =
      detail::ranked_boxes(boxes, format, scores, labels, count, options.score_threshold, options.want_suppressor);
  detail::keep_greedily(ranked, options.iou_threshold, options.max_output);
  NmsResult result{LargeArray<int64_t>(ranked.kept), LargeArray<int64_t>(ranked.remover.size())};
  std::copy_n(ranked.rows.begin(), ranked.kept, result.keep.begin());
  std::transform(ranked.remover.begin(), ranked.remover.end(), result.suppressor.begin(),
                 [&](uint32_t position) { return position == kNone ? int64_t{-1} : result.keep[position]; });
  return result;
}

}  // namespace hashnms
