// The key of a cell: its whole code and the label, so two cells never share a key. Key{} means no cell.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "boxes/box.hpp"
#include "boxes/input.hpp"
#include "boxes/scan.hpp"
#include "hash/iou_hash.hpp"
#include "support/dispatch.hpp"
#include "support/seeds.hpp"

namespace hashnms {

// One word, if the extents of the input allow it, which they nearly always do.
using PackedKey = uint64_t;

// Use the upper bits. Folding the key lets its own upper bits affect all of them. Two keys agree in b of these bits
// with a probability of about 2^-b.
HASHNMS_INLINE uint64_t hash_of(PackedKey key, uint64_t seed) { return (key ^ (key >> 29)) * seed; }

// Whether a slot that holds `held` belongs to another cell. One comparison of a minimum instead of two comparisons
// keeps the compiler from branching on the first, which would be unpredictable.
inline bool is_other(PackedKey held, PackedKey key) { return std::min(held, held ^ key) != 0; }

// Otherwise five numbers: for tiny boxes far apart, or alpha next to 1.
struct WideKey {
  bool exists;
  int64_t label, i, j;
  double m, n;
  auto operator<=>(const WideKey&) const = default;
};

inline uint64_t hash_of(const WideKey& key) {
  uint64_t hash = static_cast<uint64_t>(key.exists);
  for (const uint64_t part :
       {static_cast<uint64_t>(key.label), static_cast<uint64_t>(key.i), static_cast<uint64_t>(key.j),
        std::bit_cast<uint64_t>(key.m + 0.0), std::bit_cast<uint64_t>(key.n + 0.0)}) {  // -0.0 is 0.0
    hash = (hash ^ (hash >> 32) ^ part) * seed(7);
  }
  return hash;
}

// How a code and a label are packed into one word: each field is the distance from its least value in this input, with
// n in the lowest bits, then m, j, i, and the label in the highest.
struct KeyLayout {
  int64_t label_origin, size_origin[2];  // of i and j
  double offset_origin[2];               // of m and n
  int label_shift, size_shift[2], offset_shift[2];

  // Nothing if 63 bits are too few, a size is outside the table, or an offset may exceed the limit.
  static std::optional<KeyLayout> fit(const Extents& extents, const IoUHash& hash, double offset_limit) {
    KeyLayout layout;
    int used = 0;
    int size_bits[2];
    for (const int axis : {1, 0}) {
      const Interval& sizes = extents.sizes[axis];
      const Interval& centers = extents.centers[axis];
      if (!hash.cells->covers(sizes)) return std::nullopt;
      const AxisCell small = hash.cells->find(sizes.least), large = hash.cells->find(sizes.greatest);
      // An offset grows with the centre and, in absolute value, with 1/delta: these are its extremes.
      const double least = offset_of(centers.least, (centers.least < 0 ? small : large).inverse_delta, hash.shift);
      const double greatest =
          offset_of(centers.greatest, (centers.greatest < 0 ? large : small).inverse_delta, hash.shift);
      if (!(greatest - least < kMostOffsets && -offset_limit < least && greatest < offset_limit)) return std::nullopt;
      layout.size_origin[axis] = small.index;
      layout.offset_origin[axis] = least;
      layout.offset_shift[axis] = used;
      used += static_cast<int>(std::bit_width(static_cast<uint64_t>(greatest - least)));
      size_bits[axis] = static_cast<int>(std::bit_width(static_cast<uint64_t>(large.index - small.index)));
    }
    for (const int axis : {1, 0}) {
      layout.size_shift[axis] = used;
      used += size_bits[axis];
    }
    layout.label_origin = extents.labels.least;
    layout.label_shift = used;
    used += static_cast<int>(std::bit_width(layout.distance(extents.labels.greatest)));
    if (used > 63) return std::nullopt;
    return layout;
  }

  HASHNMS_INLINE uint64_t size_field(int axis, int64_t index) const {
    return static_cast<uint64_t>(index - size_origin[axis]) << size_shift[axis];
  }

  // For an integer in [0, 2^51) held in a double: adding 2^52 puts its bits into the mantissa, which vectorizes.
  HASHNMS_INLINE uint64_t offset_field(int axis, double offset) const {
    const uint64_t bits = std::bit_cast<uint64_t>(offset - offset_origin[axis] + 0x1p52);
    return (bits & ((uint64_t(1) << 52) - 1)) << offset_shift[axis];
  }

  HASHNMS_INLINE uint64_t label_field(int64_t label) const { return distance(label) << label_shift; }

 private:
  static constexpr double kMostOffsets = 0x1p51;

  uint64_t distance(int64_t label) const { return static_cast<uint64_t>(label) - static_cast<uint64_t>(label_origin); }
};

namespace detail {

constexpr size_t kBlock = 16;

// The keys of kBlock boxes, without labels. Short stages for both axes at once, so that everything except the table
// look-up is vectorized.
template <BoxFormat format, class T>
HASHNMS_INLINE void pack_block(const T* rows, const IoUHash& hash, const KeyLayout& layout, PackedKey* keys) {
  double size[2 * kBlock], center[2 * kBlock], inverse_delta[2 * kBlock], offset[2 * kBlock];
  uint64_t bucket[2 * kBlock];
  int64_t index[2 * kBlock];
  for (size_t k = 0; k < kBlock; ++k) {
    for (int axis = 0; axis < 2; ++axis) {
      size[2 * k + axis] = size_of<format>(rows + 4 * k, axis);
      center[2 * k + axis] = center_of<format>(rows + 4 * k, axis);
    }
  }
  for (size_t k = 0; k < 2 * kBlock; ++k) bucket[k] = hash.cells->bucket_of(size[k]);
  for (size_t k = 0; k < 2 * kBlock; ++k) {
    const AxisCell cell = hash.cells->find(size[k], bucket[k]);
    index[k] = cell.index;
    inverse_delta[k] = cell.inverse_delta;
  }
  for (size_t k = 0; k < 2 * kBlock; ++k) offset[k] = offset_of(center[k], inverse_delta[k], hash.shift);
  for (size_t k = 0; k < kBlock; ++k) {
    const PackedKey key = layout.size_field(0, index[2 * k]) | layout.size_field(1, index[2 * k + 1]) |
                          layout.offset_field(0, offset[2 * k]) | layout.offset_field(1, offset[2 * k + 1]);
    keys[k] = ((size[2 * k] > 0) & (size[2 * k + 1] > 0)) ? key + 1 : PackedKey{};
  }
}

template <BoxFormat format, class T>
HASHNMS_INLINE void pack_keys(const BoxView<T>& view, const IoUHash& hash, const KeyLayout& layout, size_t begin,
                              size_t end, PackedKey* keys) {
  T gathered[4 * kBlock] = {};
  PackedKey last_keys[kBlock];
  for (; begin < end; begin += kBlock) {
    const size_t count = std::min(end - begin, kBlock);
    const T* rows = view.boxes + 4 * begin;
    if (view.rows || count < kBlock) {
      if (view.rows) {
        for (size_t k = begin + count; k < std::min(begin + 2 * kBlock, end); ++k) {
          prefetch(view.boxes + 4 * static_cast<size_t>(view.rows[k]));
        }
      }
      for (size_t k = 0; k < count; ++k) std::copy_n(view.boxes + 4 * view.row(begin + k), 4, gathered + 4 * k);
      rows = gathered;
    }
    PackedKey* const block = count < kBlock ? last_keys : keys + begin;
    pack_block<format>(rows, hash, layout, block);
    if (view.labels) {
      for (size_t k = 0; k < count; ++k) {
        const PackedKey label = layout.label_field(view.labels[view.row(begin + k)]);
        block[k] = block[k] ? block[k] + label : PackedKey{};
      }
    }
    if (count < kBlock) std::copy_n(last_keys, count, keys + begin);
  }
}

template <class T>
HASHNMS_INLINE void pack_keys(const BoxView<T>& view, const IoUHash& hash, const KeyLayout& layout, size_t begin,
                              size_t end, PackedKey* keys) {
  switch (view.format) {
    case BoxFormat::xyxy:
      return pack_keys<BoxFormat::xyxy>(view, hash, layout, begin, end, keys);
    case BoxFormat::xywh:
      return pack_keys<BoxFormat::xywh>(view, hash, layout, begin, end, keys);
    case BoxFormat::cxcywh:
      return pack_keys<BoxFormat::cxcywh>(view, hash, layout, begin, end, keys);
  }
}

}  // namespace detail

// The keys of the view's boxes [begin, end).
HASHNMS_VECTOR_CLONES static void make_keys(const BoxView<float>& view, const IoUHash& hash, const KeyLayout& layout,
                                            size_t begin, size_t end, PackedKey* keys) {
  detail::pack_keys(view, hash, layout, begin, end, keys);
}
HASHNMS_VECTOR_CLONES static void make_keys(const BoxView<double>& view, const IoUHash& hash, const KeyLayout& layout,
                                            size_t begin, size_t end, PackedKey* keys) {
  detail::pack_keys(view, hash, layout, begin, end, keys);
}

// Wide keys, which need no layout. False if an offset exceeds the limit.
template <class T>
bool make_keys(const BoxView<T>& view, const IoUHash& hash, double offset_limit, size_t begin, size_t end,
               WideKey* keys) {
  bool fits = true;
  for (size_t k = begin; k < end; ++k) {
    const size_t row = view.row(k);
    const auto [x, y] = axis_codes(view.boxes + 4 * row, view.format, *hash.cells, *hash.cells, hash.shift, hash.shift);
    const int64_t label = view.labels ? view.labels[row] : 0;
    keys[k] = x.has_cell() && y.has_cell() ? WideKey{true, label, x.index, y.index, x.offset, y.offset} : WideKey{};
    fits &= std::abs(x.offset) < offset_limit && std::abs(y.offset) < offset_limit;
  }
  return fits;
}

}  // namespace hashnms
