// The Python module hashnms._core: a table of contents of the core, and the only file that sees nanobind.
//
// Arguments are checked in src/hashnms/_validate.py; here only array types and shapes are. A result of None means
// that a number in the arrays is not legal: the caller finds out which and says so.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hnms.hpp"
#include "iou_hash.hpp"
#include "large_array.hpp"
#include "nms.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Boxes = nb::ndarray<const T, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
template <class T, size_t... columns>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<1 + sizeof...(columns)>>;

template <class T, size_t... columns>
Result<T, columns...> give(std::unique_ptr<T[]> data, size_t rows) {
  nb::capsule owner(data.get(), [](void* values) noexcept { delete[] static_cast<T*>(values); });
  return {data.release(), {rows, columns...}, owner};
}

template <class T>
Result<T> give(const std::vector<T>& values) {
  auto data = std::make_unique_for_overwrite<T[]>(values.size());
  std::copy(values.begin(), values.end(), data.get());
  return give<T>(std::move(data), values.size());
}

template <class T, class Score>
void check_lengths(const Boxes<T>& boxes, const Vector<Score>& scores, const std::optional<Vector<int64_t>>& labels) {
  if (scores.shape(0) != boxes.shape(0) || (labels && labels->shape(0) != boxes.shape(0))) {
    throw nb::value_error("boxes, scores and labels must have one length");
  }
}

template <class T, class Score>
std::optional<Result<int64_t>> hnms(const Boxes<T>& boxes, const Vector<Score>& scores,
                                    const std::optional<Vector<int64_t>>& labels, const hashnms::HashFamily& family,
                                    hashnms::BoxFormat box_format, size_t num_threads) {
  check_lengths(boxes, scores, labels);
  const int64_t* label_data = labels ? labels->data() : nullptr;
  std::unique_ptr<int64_t[]> keep;
  size_t count = 0;
  {
    nb::gil_scoped_release unlocked;
    const auto kept =
        hashnms::hnms(boxes.data(), box_format, scores.data(), label_data, boxes.shape(0), family, num_threads);
    if (kept) {
      count = kept->size();
      keep = std::make_unique_for_overwrite<int64_t[]>(count);
      std::transform(kept->begin(), kept->end(), keep.get(), [](const auto& claim) { return int64_t{claim.box()}; });
    }
  }
  if (!keep) return std::nullopt;
  return give<int64_t>(std::move(keep), count);
}

// Calls use(row, codes) with both halves of the code of each box.
template <class T, class Use>
void for_each_code(const Boxes<T>& boxes, const hashnms::CellTable& widths, const hashnms::CellTable& heights,
                   double bx, double by, hashnms::BoxFormat box_format, const Use& use) {
  const nb::gil_scoped_release unlocked;
  for (size_t row = 0; row < boxes.shape(0); ++row) {
    use(row, hashnms::axis_codes(boxes.data() + 4 * row, box_format, widths, heights, bx, by));
  }
}

// Whether the codes fit the offset's limit for boxes of type T, and int64 if that is asked.
template <class T>
bool fit(const std::array<hashnms::AxisCode, 2>& codes, bool int64) {
  const double limit = std::min(hashnms::kOffsetLimit<T>, int64 ? 0x1p63 : std::numeric_limits<double>::infinity());
  return std::abs(codes[0].offset) < limit && std::abs(codes[1].offset) < limit;
}

template <class T>
std::optional<Result<int64_t, 4>> iou_hash(const Boxes<T>& boxes, const hashnms::CellTable& widths,
                                           const hashnms::CellTable& heights, double bx, double by,
                                           hashnms::BoxFormat box_format) {
  auto result = std::make_unique_for_overwrite<int64_t[]>(4 * boxes.shape(0));
  bool fits = true;
  for_each_code(boxes, widths, heights, bx, by, box_format, [&](size_t row, const auto& codes) {
    if (!fit<T>(codes, true)) {
      fits = false;
      return;
    }
    for (int axis = 0; axis < 2; ++axis) {
      result[4 * row + axis] = codes[axis].index;
      result[4 * row + axis + 2] = static_cast<int64_t>(codes[axis].offset);
    }
  });
  if (!fits) return std::nullopt;
  return give<int64_t, 4>(std::move(result), boxes.shape(0));
}

template <class T>
Result<bool> has_code(const Boxes<T>& boxes, const hashnms::CellTable& widths, const hashnms::CellTable& heights,
                      double bx, double by, hashnms::BoxFormat box_format, bool int64) {
  auto result = std::make_unique_for_overwrite<bool[]>(boxes.shape(0));
  for_each_code(boxes, widths, heights, bx, by, box_format,
                [&](size_t row, const auto& codes) { result[row] = fit<T>(codes, int64); });
  return give<bool>(std::move(result), boxes.shape(0));
}

template <class T>
Result<T> give(hashnms::LargeArray<T> values) {
  auto data = std::make_unique<hashnms::LargeArray<T>>(std::move(values));
  nb::capsule owner(data.get(), [](void* array) noexcept { delete static_cast<hashnms::LargeArray<T>*>(array); });
  hashnms::LargeArray<T>& array = *data.release();
  return {array.data(), {array.size()}, owner};
}

template <class T, class Score>
std::optional<std::pair<Result<int64_t>, std::optional<Result<int64_t>>>> nms(
    const Boxes<T>& boxes, const Vector<Score>& scores, const std::optional<Vector<int64_t>>& labels,
    double iou_threshold, double score_threshold, size_t max_output, bool want_suppressor,
    hashnms::BoxFormat box_format, size_t num_threads) {
  check_lengths(boxes, scores, labels);
  const int64_t* label_data = labels ? labels->data() : nullptr;
  std::optional<hashnms::NmsResult> result;
  {
    const nb::gil_scoped_release unlocked;
    result = hashnms::nms(hashnms::Input<T, Score>{boxes.data(), box_format, scores.data(), label_data, boxes.shape(0)},
                          {iou_threshold, score_threshold, max_output, want_suppressor}, num_threads);
  }
  if (!result) return std::nullopt;
  std::optional<Result<int64_t>> suppressor;
  if (want_suppressor) suppressor = give(std::move(result->suppressor));
  return std::pair(give(std::move(result->keep)), std::move(suppressor));
}

template <class T, class Score>
void define_nms(nb::module_& m) {
  m.def("nms", &nms<T, Score>, "boxes"_a.noconvert(), "scores"_a.noconvert(), "labels"_a.noconvert().none(),
        "iou_threshold"_a, "score_threshold"_a, "max_output"_a, "want_suppressor"_a, "box_format"_a, "num_threads"_a,
        "The boxes that greedy NMS keeps, and of each box its suppressor if wanted; None if a number is not legal.");
}

template <class T, class Score>
void define_hnms(nb::module_& m) {
  m.def("hnms", &hnms<T, Score>, "boxes"_a.noconvert(), "scores"_a.noconvert(), "labels"_a.noconvert().none(),
        "family"_a, "box_format"_a, "num_threads"_a,
        "The best box of each cell, for one hash after another; None if a number is not legal.");
}

template <class T>
void define_iou_hash(nb::module_& m) {
  m.def("iou_hash", &iou_hash<T>, "boxes"_a.noconvert(), "widths"_a, "heights"_a, "bx"_a, "by"_a, "box_format"_a,
        "The codes i, j, m, n; None if one of them does not fit 64 bits.");
  m.def("has_code", &has_code<T>, "boxes"_a.noconvert(), "widths"_a, "heights"_a, "bx"_a, "by"_a, "box_format"_a,
        "int64"_a, "Of each box, whether it has a code; with int64, one that int64 holds.");
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The compiled core of hashnms.";

  nb::enum_<hashnms::BoxFormat>(m, "BoxFormat", "What the four numbers of a box are.")
      .value("xyxy", hashnms::BoxFormat::xyxy)
      .value("xywh", hashnms::BoxFormat::xywh)
      .value("cxcywh", hashnms::BoxFormat::cxcywh);

  nb::class_<hashnms::CellTable>(m, "CellTable", "The cells of all widths for one alpha and W_0.")
      .def(nb::init<double, double>(), "alpha"_a, "origin"_a)
      .def(
          "float32_cells",
          [](const hashnms::CellTable& table) {
            const auto cells = table.float32_cells();
            return nb::make_tuple(cells.first, give(cells.edges), give(cells.inverse_deltas));
          },
          nb::sig("def float32_cells(self) -> tuple[int, NDArray[numpy.float64], NDArray[numpy.float64]]"),
          "The index of the first cell, and the least width and 1/delta of every cell a float32 box can have.");

  nb::class_<hashnms::HashFamily>(m, "HashFamily", "The hash functions of Multi-HNMS, one for each W_0.")
      .def(nb::init<double, std::vector<double>>(), "alpha"_a, "origins"_a);

  define_hnms<float, float>(m);
  define_hnms<float, double>(m);
  define_hnms<double, float>(m);
  define_hnms<double, double>(m);
  define_nms<float, float>(m);
  define_nms<float, double>(m);
  define_nms<double, float>(m);
  define_nms<double, double>(m);
  define_iou_hash<float>(m);
  define_iou_hash<double>(m);
}
