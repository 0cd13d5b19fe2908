// The Python module hashnms._core: a table of contents of the core.
//
// Functions take the arrays of a call as they are and return None where they cannot: where an array is not a plain one
// of the right type and shape, or a number in it is not legal. src/hashnms/_validate.py then converts them or says why.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "hnms.hpp"
#include "iou_hash.hpp"
#include "nms.hpp"
#include "soft_nms.hpp"
#include "top_k.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace hashnms::bindings {

template <class Score>
nb::object rows_of(nb::handle boxes, const Claims<Score>& claims) {
  const NewArray<int64_t> rows(boxes, {claims.size()});
  std::transform(claims.begin(), claims.end(), rows.data, [](const auto& claim) { return int64_t{claim.box()}; });
  return rows.object;
}

nb::object hnms(nb::handle boxes, nb::handle scores, nb::handle labels, const HashFamily& family, BoxFormat box_format,
                size_t num_threads) {
  return with_input(boxes, scores, labels, box_format, [&](const auto& input) -> nb::object {
    const auto kept = [&] {
      const nb::gil_scoped_release unlocked;
      return hashnms::hnms(input, family, num_threads);
    }();
    return kept ? rows_of(boxes, *kept) : nb::none();
  });
}

nb::object nms(nb::handle boxes, nb::handle scores, nb::handle labels, double iou_threshold, double score_threshold,
               size_t max_output, bool want_suppressor, BoxFormat box_format, size_t num_threads) {
  return with_input(boxes, scores, labels, box_format, [&](const auto& input) -> nb::object {
    std::optional<NewArray<int64_t>> suppressor;
    if (want_suppressor) suppressor.emplace(boxes, std::initializer_list<size_t>{input.count});
    const auto kept = [&] {
      const nb::gil_scoped_release unlocked;
      return hashnms::nms(input, {iou_threshold, score_threshold, max_output, suppressor ? suppressor->data : nullptr},
                          num_threads);
    }();
    if (!kept) return nb::none();
    const NewArray<int64_t> keep(boxes, {kept->size()});
    std::copy(kept->begin(), kept->end(), keep.data);
    return suppressor ? nb::object(nb::make_tuple(keep.object, suppressor->object)) : keep.object;
  });
}

nb::object soft_nms(nb::handle boxes, nb::handle scores, nb::handle labels, SoftMethod method, double sigma,
                    double iou_threshold, double min_score, size_t max_output, BoxFormat box_format,
                    size_t num_threads) {
  return with_input(
      boxes, scores, labels, box_format, [&]<class T, class Score>(const Input<T, Score>& input) -> nb::object {
        const auto selection = [&] {
          const nb::gil_scoped_release unlocked;
          return hashnms::soft_nms(input, {method, sigma, iou_threshold, min_score, max_output}, num_threads);
        }();
        if (!selection) return nb::none();
        const NewArray<Score> decayed(boxes, {selection->claims.size()});
        std::transform(selection->claims.begin(), selection->claims.end(), decayed.data,
                       [&](const auto& claim) { return selection->scores[claim.box()]; });
        return nb::make_tuple(rows_of(boxes, selection->claims), decayed.object);
      });
}

nb::object top_k(nb::handle boxes, nb::handle scores, nb::handle labels, double score_threshold, size_t most_of_label,
                 size_t most_in_all, BoxFormat box_format) {
  return with_input(boxes, scores, labels, box_format, [&](const auto& input) -> nb::object {
    const auto top = [&] {
      const nb::gil_scoped_release unlocked;
      return hashnms::top_k(input, {score_threshold, most_of_label, most_in_all});
    }();
    return top ? rows_of(boxes, *top) : nb::none();
  });
}

PlainArray plain_boxes(nb::handle boxes) {
  const PlainArray array(boxes);
  if (!array.has_columns(4)) throw nb::type_error("boxes must be a plain (N, 4) array");
  return array;
}

// Calls use(row, codes, type) with both halves of the code of each box and the boxes' float type.
template <class Use>
void for_each_code(const PlainArray& boxes, const CellTable& widths, const CellTable& heights, double bx, double by,
                   BoxFormat box_format, const Use& use) {
  with_float_type(boxes, [&](auto number) {
    const nb::gil_scoped_release unlocked;
    for (size_t row = 0; row < boxes.rows(); ++row) {
      use(row, axis_codes(boxes.data<decltype(number)>() + 4 * row, box_format, widths, heights, bx, by), number);
    }
    return nb::object();
  });
}

// Whether the codes fit the offset's limit for boxes of type T, and int64 if that is asked.
template <class T>
bool fit(const std::array<AxisCode, 2>& codes, bool int64) {
  const double limit = std::min(kOffsetLimit<T>, int64 ? 0x1p63 : std::numeric_limits<double>::infinity());
  return std::abs(codes[0].offset) < limit && std::abs(codes[1].offset) < limit;
}

nb::object iou_hash(nb::handle boxes, const CellTable& widths, const CellTable& heights, double bx, double by,
                    BoxFormat box_format) {
  const PlainArray array = plain_boxes(boxes);
  const NewArray<int64_t> result(boxes, {array.rows(), 4});
  bool fits = true;
  for_each_code(array, widths, heights, bx, by, box_format, [&](size_t row, const auto& codes, auto number) {
    if (!fit<decltype(number)>(codes, true)) {
      fits = false;
      return;
    }
    for (int axis = 0; axis < 2; ++axis) {
      result.data[4 * row + axis] = codes[axis].index;
      result.data[4 * row + axis + 2] = static_cast<int64_t>(codes[axis].offset);
    }
  });
  return fits ? result.object : nb::none();
}

nb::object has_code(nb::handle boxes, const CellTable& widths, const CellTable& heights, double bx, double by,
                    BoxFormat box_format, bool int64) {
  const PlainArray array = plain_boxes(boxes);
  const NewArray<bool> result(boxes, {array.rows()});
  for_each_code(array, widths, heights, bx, by, box_format, [&](size_t row, const auto& codes, auto number) {
    result.data[row] = fit<decltype(number)>(codes, int64);
  });
  return result.object;
}

nb::object array_of(const std::vector<double>& values) {
  const NewArray<double> result(nb::none(), {values.size()});
  std::copy(values.begin(), values.end(), result.data);
  return result.object;
}

}  // namespace hashnms::bindings

#define HASHNMS_ARRAYS "boxes: object, scores: object, labels: object, "

NB_MODULE(_core, m) {
  using namespace hashnms;
  bindings::import_numpy();
  nb::set_leak_warnings(false);  // tables are kept in caches that live as long as Python does
  m.doc() = "The compiled core of hashnms.";

  nb::enum_<BoxFormat>(m, "BoxFormat", "What the four numbers of a box are.")
      .value("xyxy", BoxFormat::xyxy)
      .value("xywh", BoxFormat::xywh)
      .value("cxcywh", BoxFormat::cxcywh);

  nb::enum_<SoftMethod>(m, "SoftMethod", "How Soft-NMS lowers scores.")
      .value("gaussian", SoftMethod::gaussian)
      .value("linear", SoftMethod::linear);

  nb::class_<CellTable>(m, "CellTable", "The cells of all widths for one alpha and W_0.")
      .def(nb::init<double, double>(), "alpha"_a, "origin"_a)
      .def(
          "float32_cells",
          [](const CellTable& table) {
            const auto cells = table.float32_cells();
            return nb::make_tuple(cells.first, bindings::array_of(cells.edges),
                                  bindings::array_of(cells.inverse_deltas));
          },
          nb::sig("def float32_cells(self) -> tuple[int, numpy.typing.NDArray[numpy.float64], "
                  "numpy.typing.NDArray[numpy.float64]]"),
          "The index of the first cell, and the least width and 1/delta of every cell a float32 box can have.");

  nb::class_<HashFamily>(m, "HashFamily", "The hash functions of Multi-HNMS, one for each W_0.")
      .def(nb::init<double, std::vector<double>>(), "alpha"_a, "origins"_a);

  m.def("hnms", &bindings::hnms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "family"_a, "box_format"_a,
        "num_threads"_a,
        nb::sig(
            "def hnms(" HASHNMS_ARRAYS
            "family: HashFamily, box_format: BoxFormat, num_threads: int) -> numpy.typing.NDArray[numpy.int64] | None"),
        "The best box of each cell, for one hash after another.");
  m.def("nms", &bindings::nms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "iou_threshold"_a,
        "score_threshold"_a, "max_output"_a, "want_suppressor"_a, "box_format"_a, "num_threads"_a,
        nb::sig("def nms(" HASHNMS_ARRAYS
                "iou_threshold: float, score_threshold: float, max_output: int, want_suppressor: bool, "
                "box_format: BoxFormat, num_threads: int) -> numpy.typing.NDArray[numpy.int64] | "
                "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]] | None"),
        "The boxes that greedy NMS keeps; with want_suppressor, a pair of these and the suppressor of each box.");
  m.def("soft_nms", &bindings::soft_nms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "method"_a, "sigma"_a,
        "iou_threshold"_a, "min_score"_a, "max_output"_a, "box_format"_a, "num_threads"_a,
        nb::sig("def soft_nms(" HASHNMS_ARRAYS
                "method: SoftMethod, sigma: float, iou_threshold: float, min_score: float, max_output: int, "
                "box_format: BoxFormat, num_threads: int) -> "
                "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[typing.Any]] | None"),
        "The boxes that Soft-NMS selects, in this order, and their scores by then.");
  m.def("top_k", &bindings::top_k, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "score_threshold"_a,
        "most_of_label"_a, "most_in_all"_a, "box_format"_a,
        nb::sig("def top_k(" HASHNMS_ARRAYS
                "score_threshold: float, most_of_label: int, most_in_all: int, box_format: BoxFormat) -> "
                "numpy.typing.NDArray[numpy.int64] | None"),
        "The boxes with the highest scores, of each label and in all.");
  m.def("iou_hash", &bindings::iou_hash, "boxes"_a, "widths"_a, "heights"_a, "bx"_a, "by"_a, "box_format"_a,
        nb::sig("def iou_hash(boxes: object, widths: CellTable, heights: CellTable, bx: float, by: float, "
                "box_format: BoxFormat) -> numpy.typing.NDArray[numpy.int64] | None"),
        "The codes i, j, m, n; None if one of them does not fit 64 bits.");
  m.def("has_code", &bindings::has_code, "boxes"_a, "widths"_a, "heights"_a, "bx"_a, "by"_a, "box_format"_a, "int64"_a,
        nb::sig("def has_code(boxes: object, widths: CellTable, heights: CellTable, bx: float, by: float, "
                "box_format: BoxFormat, int64: bool) -> numpy.typing.NDArray[numpy.bool_]"),
        "Of each box, whether it has a code; with int64, one that int64 holds.");
}
