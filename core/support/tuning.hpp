// All numbers that were chosen by measuring. They change only running times, never results.
//
// To choose one again: change it here, build with `make demo`, and run the benchmark named above it for inputs on both
// sides of the number. Compare with the old number, alternating runs, on a quiet machine. All were chosen on a 2-core
// x86-64 virtual machine with 2 MiB of second-level cache.
#pragma once

#include <cstddef>

namespace hashnms::tuning {

// Sorting by score (boxes/claims.hpp): python -m benchmarks.nms --largest 1000000
inline constexpr size_t kFewToSort = 256;               // below: std::sort
inline constexpr size_t kManyToSort = size_t(1) << 17;  // from here on two digits of 14 bits instead of 11
inline constexpr size_t kFetchedAhead = 16;             // rows that are prefetched

// HNMS (hash/): python -m benchmarks.hnms
inline constexpr size_t kFewInCells = 24;  // up to this: every key is compared with every other
inline constexpr size_t kHashedPerThread = size_t(1) << 16;
inline constexpr size_t kKeysPerPart = size_t(1) << 13;       // so that a part's map stays in the second-level cache
inline constexpr size_t kManyKeys = size_t(1) << 20;          // from here on, one thread divides keys into parts
inline constexpr size_t kManyKeysThreaded = size_t(1) << 17;  // from here on, several threads do

// Exact NMS (greedy/): python -m benchmarks.nms, with --iou 0.1 0.3 0.4 0.5 0.7 0.9
inline constexpr size_t kFewBytesRanked = 2048;    // up to this many bytes of x1: greedy/few.hpp
inline constexpr double kLeastIouOfGrid = 0.34;    // above: the grid; below: the pyramid
inline constexpr size_t kFewKeptForGrid = 64;      // kept boxes up to which the list is faster than the grid
inline constexpr size_t kFewKeptForPyramid = 512;  // and than the pyramid: this many,
inline constexpr size_t kFewKeptPerShape = 32;     // or this many for each shape, if that is more
inline constexpr size_t kFewShapes = 64;           // shapes that a pyramid should have at most,
inline constexpr int kMostOctaves = 4;             // each of so many octaves at most
inline constexpr double kUsualSizesPerTile = 2;    // of the tiles of greedy/shape_tiles.hpp
// python -m benchmarks.nms --labels
inline constexpr size_t kManyForLabels = size_t(1) << 13;      // from here on, label by label can be faster:
inline constexpr size_t kEnoughLabels = 10;                    // with this many labels,
inline constexpr size_t kVeryManyForLabels = size_t(1) << 18;  // or with two from this many boxes on
// python -m benchmarks.nms --largest 10000000, on one thread and on two
inline constexpr size_t kBoxesPerThread = size_t(1) << 16;
inline constexpr size_t kBoxesPerTile = size_t(1) << 19;  // approximately, on one thread
inline constexpr size_t kLeastPerTile = size_t(1) << 13;  // on several threads that share few boxes,
inline constexpr size_t kTilesPerThread = 3;              // with this many tiles each: more tiles have more borders
inline constexpr int kLogClaimsMerged = 15;               // claims that are sorted together at the end

// Soft-NMS (soft/): python -m benchmarks.soft_nms
inline constexpr size_t kFewToSelect = 128;  // boxes of a label up to which the plain loop is faster
inline constexpr size_t kLeafBoxes = 32, kNodeChildren = 16;
inline constexpr size_t kMostPending = 1024;  // selected boxes that a leaf remembers
inline constexpr size_t kSelectedPerThread = size_t(1) << 12;

// Transitive groups (joining/), with the leaves and nodes of Soft-NMS: python -m benchmarks.merging
inline constexpr size_t kJoinedPerThread = size_t(1) << 14;

// Weighted boxes fusion (fusion/): docs/howto/merging.md says how it was measured
inline constexpr size_t kFewClusters = 24;  // up to this: every cluster is tried

}  // namespace hashnms::tuning
