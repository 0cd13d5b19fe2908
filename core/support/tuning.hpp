// Every number that was chosen by measuring. None changes an answer, only how long it takes.
//
// To choose one again: change it here, `make demo` (which builds), run the benchmark that its line names on both sides
// of the border it draws, and compare with the number before, in turns, on a quiet machine. All were chosen on a 2-core
// x86-64 virtual machine with 2 MiB of second-level cache.
#pragma once

#include <cstddef>

namespace hashnms::tuning {

// Sorting by score (boxes/claims.hpp): python -m benchmarks.nms --largest 1000000
inline constexpr size_t kFewToSort = 256;               // below: std::sort
inline constexpr size_t kManyToSort = size_t(1) << 17;  // from here on two digits of 14 bits instead of 11
inline constexpr size_t kFetchedAhead = 16;             // rows whose numbers are fetched before they are needed

// HNMS (hash/): python -m benchmarks.hnms
inline constexpr size_t kFewInCells = 24;  // up to: each key is compared with each other
inline constexpr size_t kHashedPerThread = size_t(1) << 16;
inline constexpr size_t kKeysPerPart = size_t(1) << 13;       // a part's map stays in the second-level cache
inline constexpr size_t kManyKeys = size_t(1) << 20;          // from here on one thread divides keys into parts
inline constexpr size_t kManyKeysThreaded = size_t(1) << 17;  // and several threads do

// Exact NMS (greedy/): python -m benchmarks.nms, with --iou 0.1 0.3 0.4 0.5 0.7 0.9
inline constexpr size_t kFewBytesRanked = 2048;    // up to so many bytes of x1: greedy/few.hpp
inline constexpr double kLeastIouOfGrid = 0.34;    // above: the grid, else the pyramid
inline constexpr size_t kFewKeptForGrid = 64;      // kept boxes up to which the list is faster than the grid
inline constexpr size_t kFewKeptForPyramid = 512;  // and than the pyramid: this,
inline constexpr size_t kFewKeptPerShape = 32;     // or so many for each shape if that is more
inline constexpr size_t kFewShapes = 64;           // shapes that a pyramid should have at most
inline constexpr double kUsualSizesPerTile = 2;    // of the tiles of greedy/shape_tiles.hpp
// python -m benchmarks.nms --labels
inline constexpr size_t kManyForLabels = size_t(1) << 13;      // boxes from which on label by label can be faster:
inline constexpr size_t kEnoughLabels = 10;                    // with so many labels,
inline constexpr size_t kVeryManyForLabels = size_t(1) << 18;  // or with two from this many boxes on
// python -m benchmarks.nms --largest 10000000, on one thread and on two
inline constexpr size_t kBoxesPerThread = size_t(1) << 16;
inline constexpr size_t kBoxesPerTile = size_t(1) << 19;  // about, where one thread does them all
inline constexpr size_t kLeastPerTile = size_t(1) << 13;  // and where several threads share few boxes,
inline constexpr size_t kTilesPerThread = 2;              // in so many tiles each: more have more borders
inline constexpr int kLogClaimsMerged = 15;               // that are sorted together in the end

// Soft-NMS (soft/): python -m benchmarks.soft_nms
inline constexpr size_t kFewToSelect = 128;  // boxes of a label up to which the plain loop is faster
inline constexpr size_t kLeafBoxes = 32, kNodeChildren = 16;
inline constexpr size_t kMostPending = 1024;  // selected boxes that a leaf remembers
inline constexpr size_t kSelectedPerThread = size_t(1) << 12;

// Transitive groups (joining/), with the leaves and nodes of Soft-NMS: python -m benchmarks.merging
inline constexpr size_t kJoinedPerThread = size_t(1) << 14;

// Weighted boxes fusion (fusion/): docs/howto/merging.md says how it was measured
inline constexpr size_t kFewClusters = 24;  // up to: each is tried

}  // namespace hashnms::tuning
