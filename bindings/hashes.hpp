// Hash functions and their codes, for Python.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "arrays.hpp"
#include "hash/iou_hash.hpp"
#include "latest.hpp"
#include "settings.hpp"
#include "support/interrupt.hpp"

namespace hashnms::bindings {

inline std::shared_ptr<const HashFamily> family_of(nb::handle alpha, nb::handle num_hashes) {
  const auto ratio = alpha_of(alpha);
  const auto count = num_hashes_of(num_hashes);
  return ratio && count ? Families::find(*ratio, *count) : nullptr;
}

// Whether the offsets can be distinguished for boxes of type T, and are within the limit.
template <class T>
bool fit(const std::array<AxisCode, 2>& codes, double limit = std::numeric_limits<double>::infinity()) {
  limit = std::min(limit, kOffsetLimit<T>);
  return std::abs(codes[0].offset) < limit && std::abs(codes[1].offset) < limit;
}

template <class T>
bool has_code_of(const IoUHash& hash, const T* box, BoxFormat format) {
  return fit<T>(axis_codes(box, format, *hash.cells, *hash.cells, hash.shift, hash.shift));
}

// One hash function with any parameters.
struct Hash {
  std::shared_ptr<const CellTable> widths, heights;
  double bx, by;

  template <class T>
  bool has_int64_code(const T* box, BoxFormat format) const {
    return fit<T>(codes(box, format), kInt64Limit);
  }

  // Writes i, j, m, n of each box; returns whether all fit into int64.
  template <class T>
  bool write_codes(const T* boxes, size_t count, BoxFormat format, int64_t* result) const {
    bool all_fit = true;
    for_each_piece(count, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end && all_fit; ++row) {
        const auto code = codes(boxes + 4 * row, format);
        all_fit = fit<T>(code, kInt64Limit);
        for (int axis = 0; axis < 2 && all_fit; ++axis) {
          result[4 * row + axis] = code[axis].index;
          result[4 * row + axis + 2] = static_cast<int64_t>(code[axis].offset);
        }
      }
    });
    return all_fit;
  }

 private:
  static constexpr double kInt64Limit = 0x1p63;

  template <class T>
  std::array<AxisCode, 2> codes(const T* box, BoxFormat format) const {
    return axis_codes(box, format, *widths, *heights, bx, by);
  }
};

inline std::optional<Hash> hash_of(nb::handle alpha, nb::handle w0, nb::handle h0, nb::handle bx, nb::handle by) {
  const auto ratio = alpha_of(alpha);
  const auto width = origin_of(w0), height = origin_of(h0);
  const auto x_shift = shift_of(bx), y_shift = shift_of(by);
  if (!ratio || !width || !height || !x_shift || !y_shift) return std::nullopt;
  return Hash{CellTables::find(*ratio, *width), CellTables::find(*ratio, *height), *x_shift, *y_shift};
}

}  // namespace hashnms::bindings
