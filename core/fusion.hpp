// Weighted boxes fusion: by decreasing score, a box joins the cluster whose fused box overlaps it most, or starts one.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/claims.hpp"
#include "boxes/images.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "boxes/scan.hpp"
#include "fusion/fused_boxes.hpp"
#include "support/dispatch.hpp"
#include "support/interrupt.hpp"
#include "support/large_array.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// Clusters, label by label, and within a label by the score of their first box.
struct Fusion {
  LargeArray<int64_t> clusters;        // the cluster of each row
  std::vector<uint32_t> founders;      // the row of each cluster's first box
  std::vector<Corners<double>> fused;  // the fused box of each cluster
};

namespace detail {

// To the 24 bits of a float32 number, ties to even, but with the exponents of a double: nothing underflows.
inline double rounded_to_24_bits(double value) {
  constexpr uint64_t kDropped = (uint64_t(1) << 29) - 1;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  return std::bit_cast<double>((bits + (kDropped >> 1) + (bits >> 29 & 1)) & ~kDropped);
}

// The sums behind a fused box: of score * coordinate and of scores, in the order in which boxes join. They are doubles.
// In a cluster whose first box is within [0, 1], they are rounded as float32 numbers, and so is the fused box:
// ensemble-boxes does this, so clusters are the same as there.
class ClusterSums {
 public:
  ClusterSums() = default;
  ClusterSums(const Corners<double>& box, double score)
      : is_narrow_(box.x1 >= 0 && box.y1 >= 0 && box.x2 <= 1 && box.y2 <= 1),
        unit_(score > 0 ? std::ldexp(1.0, std::min(-std::ilogb(score), 1023)) : 1.0),
        sums_{},
        scores_(0) {
    join(box, score);
  }

  void join(const Corners<double>& box, double score) {
    const double share = score * unit_, coordinates[4] = {box.x1, box.y1, box.x2, box.y2};
    for (int k = 0; k < 4; ++k) sums_[k] = rounded(sums_[k] + share * coordinates[k]);
    scores_ += share;
  }

  // Nothing if all scores are 0.
  std::optional<Corners<double>> fused() const {
    if (scores_ == 0) return std::nullopt;
    return Corners<double>{rounded(sums_[0] / scores_), rounded(sums_[1] / scores_), rounded(sums_[2] / scores_),
                           rounded(sums_[3] / scores_)};
  }

 private:
  double rounded(double value) const { return is_narrow_ ? rounded_to_24_bits(value) : value; }

  bool is_narrow_;
  double unit_;  // a power of two: with it, the greatest score is from 1 to 2, so that no product underflows
  double sums_[4], scores_;
};

template <class T>
Corners<double> wide_corners(const T* row, BoxFormat format) {
  const double numbers[4] = {double(row[0]), double(row[1]), double(row[2]), double(row[3])};
  return corners_of(numbers, format);
}

}  // namespace detail

// Nothing if a number is invalid. The caller checks the rest: no score below 0, and sums that fit into a double.
template <class T, class Score>
std::optional<Fusion> fuse(const Input<T, Score>& given, double iou_threshold) {
  const Extents extents = extents_of(given.boxes, given.format, nullptr, given.count);
  if (!extents.valid || !all_finite(given.scores, given.count)) return std::nullopt;
  const PairLabels pairs(given);
  const auto input = pairs.of(given);
  Fusion fusion{LargeArray<int64_t>(input.count), {}, {}};
  if (input.count == 0) return fusion;
  const LabelGroups groups(rows_with(input.scores, input.count, [](Score) { return true; }), input.labels);
  size_t most = 0;
  for (size_t group = 0; group < groups.count(); ++group) most = std::max(most, groups.size(group));
  FusedBoxes fused(iou_threshold, extents, most);
  LargeArray<detail::ClusterSums> sums(most);
  for (size_t group = 0; group < groups.count(); ++group) {
    Claims<Score> claims(groups.size(group));
    std::transform(groups.begin(group), groups.begin(group) + groups.size(group), claims.begin(),
                   [&](uint32_t row) { return input.claim(row); });
    sort_claims(claims);
    fused.clear();
    const auto first = static_cast<int64_t>(fusion.founders.size());
    const auto corners_at = [&](uint32_t row) {
      return detail::wide_corners(input.boxes + 4 * size_t{row}, input.format);
    };
    // Prefetches what a box needs in three steps: its numbers, the cell that it searches first, and the box in that
    // cell.
    constexpr size_t kAhead = tuning::kFetchedAhead, kStep = kAhead / 4;
    uint32_t hashes[kAhead] = {};
    const auto fetch_ahead = [&](size_t k) {
      if (k + kAhead >= claims.size()) return;
      prefetch(input.boxes + 4 * size_t{claims[k + kAhead].box()});
      prefetch(input.scores + claims[k + kAhead].box());
      prefetch(fusion.clusters.data() + claims[k + kAhead].box());
      hashes[(k + 2 * kStep) % kAhead] = fused.fetch_cell(corners_at(claims[k + 2 * kStep].box()));
      const uint32_t guess = fused.fetch_box(hashes[(k + kStep) % kAhead]);
      prefetch(&sums[guess]);
    };
    for_each_piece(claims.size(), [&](size_t begin, size_t end) {
      for (size_t k = begin; k < end; ++k) {
        if (k % 256 == 255) Interrupt::check();  // each box may be compared with all clusters
        fetch_ahead(k);
        const uint32_t row = claims[k].box();
        const Corners<double> box = corners_at(row);
        const auto score = static_cast<double>(input.scores[row]);
        uint32_t cluster = fused.find(box);
        if (cluster == FusedBoxes::kNone) {
          cluster = static_cast<uint32_t>(fused.size());
          fused.add(box);
          sums[cluster] = {box, score};
          fusion.founders.push_back(row);
        } else {
          sums[cluster].join(box, score);
          if (const auto moved = sums[cluster].fused()) fused.move(cluster, *moved);
        }
        fusion.clusters[row] = first + cluster;
      }
    });
    for (size_t cluster = 0; cluster < fused.size(); ++cluster) fusion.fused.push_back(fused[cluster]);
  }
  return fusion;
}

}  // namespace hashnms
