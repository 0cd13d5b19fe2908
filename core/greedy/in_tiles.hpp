// Exact NMS of many boxes tile by tile: what is looked up for one stays in the cache, and threads share them.
//
// Every tile is decided as a part of the scene (partial.hpp), with the boxes whose regions touch it; those that touch
// several are open. Two boxes of which one suppresses the other touch a tile in common. So a box that is undecided in
// every tile it touches is suppressed by none of the boxes kept so far, only perhaps by another undecided one. The
// undecided boxes, a few in a hundred, are a scene of their own: the next round, with fewer tiles. The last round has
// one tile and decides all.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "boxes/claims.hpp"
#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "greedy/merged_rows.hpp"
#include "greedy/partial.hpp"
#include "greedy/plan.hpp"
#include "greedy/ranked_boxes.hpp"
#include "greedy/suppressors.hpp"
#include "greedy/tile_claims.hpp"
#include "greedy/tiles.hpp"
#include "support/large_array.hpp"
#include "support/threads.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// About so many boxes go into a tile; tests make it few.
inline std::atomic<size_t> boxes_per_tile = tuning::kBoxesPerTile;

// How many tiles are best for so many boxes.
inline size_t wanted_tiles(size_t boxes, size_t threads) {
  constexpr size_t kMostTiles = 60000;  // fewer than 2^16: they are numbered and counted in 16 bits
  const size_t for_threads =
      threads == 1 ? 1 : std::min(boxes / tuning::kLeastPerTile, tuning::kTilesPerThread * threads);
  return std::min(std::max(boxes / boxes_per_tile, for_threads), kMostTiles);
}

template <bool want_first, Metric metric, class T, class Score>
class NmsInTiles {
 public:
  NmsInTiles(const Input<T, Score>& input, const LabelIds<T>& ids, const Plan<T>& plan, Suppressors& suppressors,
             size_t threads)
      : input_(input), ids_(ids), plan_(plan), suppressors_(suppressors), threads_(threads) {}

  // The kept ones of some rows, by rank.
  LargeArray<uint32_t> kept(LargeArray<uint32_t> rows) {
    const Reach reach(plan_.rule.least_iou);
    for (size_t most = rows.size(); rows.size() > 0;) {
      auto tiles = Tiles::dividing(input_, rows, reach, std::min(wanted_tiles(rows.size(), threads_), most));
      rows = decide(std::move(rows), tiles);
      most = tiles.count() / 2;
    }
    return merged_rows<Score>(kept_, threads_);
  }

 private:
  // One round; the rows that remain.
  LargeArray<uint32_t> decide(LargeArray<uint32_t> rows, Tiles& tiles) {
    const TileClaims<Score> claims(input_, rows, tiles, threads_);
    rows = LargeArray<uint32_t>(0);  // the memory is needed
    std::vector<Part> parts(tiles.count(), Part{&tiles, nullptr, nullptr, suppressors_, {}, {}});
    const size_t before = kept_.size();
    kept_.resize(before + tiles.count());
    run_queue(threads_, tiles.count(), [&](size_t tile, size_t) {
      RankedBoxes<T> boxes(input_, ids_, claims.sorted(tile));
      decide_part<want_first, metric>(parts[tile], boxes, plan_);
      std::vector<Claim<Score>>& kept = kept_[before + tile];
      kept.reserve(boxes.kept);
      for (size_t k = 0; k < boxes.kept; ++k) kept.push_back(input_.claim(boxes.rows[k]));
    });
    return remaining(parts);
  }

  // Those that no tile has decided; where suppressors are wanted also those whose suppressor is not certain.
  LargeArray<uint32_t> remaining(const std::vector<Part>& parts) {
    size_t most = 0;
    for (const Part& part : parts) {
      most += part.undecided.size();
      for (const auto [row, by] : part.removals) suppress(row, by);
    }
    LargeArray<uint32_t> rows(most);
    if (most == 0) return rows;
    if (seen_.size() == 0) seen_ = LargeArray<uint16_t>(input_.count, Filled::with_zeros);
    size_t count = 0;
    for (const Part& part : parts) {
      for (const auto [row, touched] : part.undecided) {
        rows[count] = row;
        count += touched == 1 || ++seen_[row] == (suppressors_.wanted() ? 1 : touched);
      }
    }
    rows.shrink(count);
    for (const Part& part : parts) {
      for (const Part::Undecided& box : part.undecided) seen_[box.row] = 0;
    }
    return rows;
  }

  // The first by rank of all that could.
  void suppress(uint32_t row, uint32_t by) {
    if (!suppressors_.has(row) || input_.claim(suppressors_.of(row)) < input_.claim(by)) suppressors_.set(row, by);
  }

  const Input<T, Score>& input_;
  const LabelIds<T>& ids_;
  const Plan<T>& plan_;
  Suppressors& suppressors_;
  size_t threads_;
  std::vector<std::vector<Claim<Score>>> kept_;  // in each tile of each round, by rank
  LargeArray<uint16_t> seen_{0};                 // in how many tiles a row is undecided
};

}  // namespace hashnms
