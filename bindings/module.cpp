// The Python module hashnms._core: a table of contents of the core.
//
// Functions take the arguments of a call as they are and return None where they cannot: where an array is not a plain
// one of the right type and shape, a number is not legal, a name not known. src/hashnms/_validate.py then converts them
// or says why.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "families.hpp"
#include "hash/iou_hash.hpp"
#include "hnms.hpp"
#include "nms.hpp"
#include "soft_nms.hpp"
#include "support/interrupt.hpp"
#include "support/seeds.hpp"
#include "top_k.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace hashnms::bindings {

std::atomic<size_t> num_threads = 1;  // that a call may use

template <class Score>
nb::object rows_of(nb::handle boxes, const Claims<Score>& claims) {
  const NewArray<int64_t> rows(boxes, {claims.size()});
  std::transform(claims.begin(), claims.end(), rows.data, [](const auto& claim) { return int64_t{claim.box()}; });
  return rows.object;
}

// Whether Ctrl-C was pressed, or the handler of another signal failed: its error is Python's current one then.
bool signal_has_come() {
  const nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals() != 0;
}

// Without Python's lock, unless the boxes are so few that they take less time than giving it up.
template <class Work>
auto unlocked(size_t boxes, const Work& work) {
  if (boxes <= 256) return work();
  try {
    const nb::gil_scoped_release release;
    const Interrupt interrupt(signal_has_come);
    return work();
  } catch (const Interrupted&) {
    throw nb::python_error();
  }
}

nb::object hnms(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle alpha, nb::handle num_hashes,
                nb::handle box_format) {
  const auto family = Families::find(alpha, num_hashes);
  if (!family) return nb::none();
  return with_input(boxes, scores, labels, box_format, [&](const auto& input) -> nb::object {
    const auto kept = unlocked(input.count, [&] { return hashnms::hnms(input, *family, num_threads); });
    return kept ? rows_of(boxes, *kept) : nb::none();
  });
}

nb::object nms(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle iou_threshold,
               nb::handle score_threshold, nb::handle max_output, nb::handle box_format, bool want_suppressor) {
  const auto share = number_in(iou_threshold, 0.0, 1.0);
  const auto above = score_threshold_of(score_threshold);
  const auto most = most_boxes(max_output);
  if (!share || !above || !most) return nb::none();
  return with_input(boxes, scores, labels, box_format, [&](const auto& input) -> nb::object {
    std::optional<NewArray<int64_t>> suppressor;
    if (want_suppressor) suppressor.emplace(boxes, std::initializer_list<size_t>{input.count});
    const NmsOptions options{*share, *above, *most, suppressor ? suppressor->data : nullptr};
    const auto kept = unlocked(input.count, [&] { return hashnms::nms(input, options, num_threads); });
    if (!kept) return nb::none();
    const NewArray<int64_t> keep(boxes, {kept->size()});
    std::copy(kept->begin(), kept->end(), keep.data);
    return suppressor ? nb::object(nb::make_tuple(keep.object, suppressor->object)) : keep.object;
  });
}

nb::object soft_nms(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle method, nb::handle sigma,
                    nb::handle iou_threshold, nb::handle min_score, nb::handle max_output, nb::handle box_format) {
  const auto soft_method = soft_method_of(method);
  const auto width = number_in(sigma, 1e-30, 1e30);
  const auto share = number_in(iou_threshold, 0.0, 1.0);
  const auto least = number_in(min_score, 0.0, std::numeric_limits<double>::max());
  const auto most = most_boxes(max_output);
  if (!soft_method || !width || !share || !least || !most) return nb::none();
  const SoftNmsOptions options{*soft_method, *width, *share, *least, *most};
  return with_input(
      boxes, scores, labels, box_format, [&]<class T, class Score>(const Input<T, Score>& input) -> nb::object {
        const auto selection = unlocked(input.count, [&] { return hashnms::soft_nms(input, options, num_threads); });
        if (!selection) return nb::none();
        const NewArray<Score> decayed(boxes, {selection->claims.size()});
        std::transform(selection->claims.begin(), selection->claims.end(), decayed.data,
                       [&](const auto& claim) { return selection->scores[claim.box()]; });
        return nb::make_tuple(rows_of(boxes, selection->claims), decayed.object);
      });
}

nb::object top_k(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle score_threshold,
                 nb::handle most_of_label, nb::handle most_in_all, nb::handle box_format) {
  const auto above = score_threshold_of(score_threshold);
  const auto of_label = most_boxes(most_of_label), in_all = most_boxes(most_in_all);
  if (!above || !of_label || !in_all) return nb::none();
  return with_input(boxes, scores, labels, box_format, [&](const auto& input) -> nb::object {
    const auto top = unlocked(input.count, [&] { return hashnms::top_k(input, {*above, *of_label, *in_all}); });
    return top ? rows_of(boxes, *top) : nb::none();
  });
}

PlainArray plain_boxes(nb::handle boxes) {
  const PlainArray array(boxes);
  if (!array.has_columns(4)) throw nb::type_error("boxes must be a plain (N, 4) array");
  return array;
}

BoxFormat known_format(nb::handle box_format) {
  if (const auto format = box_format_of(box_format)) return *format;
  throw nb::value_error("box_format must be the name of one");
}

// Calls use(row, codes, type) with both halves of the code of each box and the boxes' float type.
template <class Use>
void for_each_code(const PlainArray& boxes, const CellTable& widths, const CellTable& heights, double bx, double by,
                   nb::handle box_format, const Use& use) {
  const BoxFormat format = known_format(box_format);
  with_float_type(boxes, [&](auto number) {
    const nb::gil_scoped_release unlocked;
    for (size_t row = 0; row < boxes.rows(); ++row) {
      use(row, axis_codes(boxes.data<decltype(number)>() + 4 * row, format, widths, heights, bx, by), number);
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
                    nb::handle box_format) {
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
                    nb::handle box_format, bool int64) {
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

  m.def(
      "family_origins",
      [](double alpha, size_t num_hashes) { return bindings::array_of(HashFamily::origins(alpha, num_hashes)); },
      "alpha"_a, "num_hashes"_a,
      nb::sig("def family_origins(alpha: float, num_hashes: int) -> numpy.typing.NDArray[numpy.float64]"),
      "W_0 of each function of a family.");
  m.def("set_num_threads", [](size_t count) { bindings::num_threads = count; }, "num_threads"_a);
  m.def(
      "hash_seed", [] { return seed(0); }, "What keys are multiplied by in this process: for tests, which attack it.");
  m.def("get_num_threads", [] { return bindings::num_threads.load(); });

  m.def("hnms", &bindings::hnms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "alpha"_a.none(),
        "num_hashes"_a.none(), "box_format"_a.none(),
        nb::sig("def hnms(" HASHNMS_ARRAYS
                "alpha: object, num_hashes: object, box_format: object) -> numpy.typing.NDArray[numpy.int64] | None"),
        "The best box of each cell, for one hash after another.");
  m.def("nms", &bindings::nms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "iou_threshold"_a.none(),
        "score_threshold"_a.none(), "max_output"_a.none(), "box_format"_a.none(), "want_suppressor"_a,
        nb::sig("def nms(" HASHNMS_ARRAYS
                "iou_threshold: object, score_threshold: object, max_output: object, box_format: object, "
                "want_suppressor: bool) -> numpy.typing.NDArray[numpy.int64] | "
                "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]] | None"),
        "The boxes that greedy NMS keeps; with want_suppressor, a pair of these and the suppressor of each box.");
  m.def("soft_nms", &bindings::soft_nms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "method"_a.none(),
        "sigma"_a.none(), "iou_threshold"_a.none(), "min_score"_a.none(), "max_output"_a.none(), "box_format"_a.none(),
        nb::sig("def soft_nms(" HASHNMS_ARRAYS
                "method: object, sigma: object, iou_threshold: object, min_score: object, max_output: object, "
                "box_format: object) -> "
                "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[typing.Any]] | None"),
        "The boxes that Soft-NMS selects, in this order, and their scores by then.");
  m.def("top_k", &bindings::top_k, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "score_threshold"_a.none(),
        "most_of_label"_a.none(), "most_in_all"_a.none(), "box_format"_a.none(),
        nb::sig("def top_k(" HASHNMS_ARRAYS
                "score_threshold: object, most_of_label: object, most_in_all: object, box_format: object) -> "
                "numpy.typing.NDArray[numpy.int64] | None"),
        "The boxes with the highest scores, of each label and in all.");
  m.def("iou_hash", &bindings::iou_hash, "boxes"_a, "widths"_a, "heights"_a, "bx"_a, "by"_a, "box_format"_a,
        nb::sig("def iou_hash(boxes: object, widths: CellTable, heights: CellTable, bx: float, by: float, "
                "box_format: str) -> numpy.typing.NDArray[numpy.int64] | None"),
        "The codes i, j, m, n; None if one of them does not fit 64 bits.");
  m.def("has_code", &bindings::has_code, "boxes"_a, "widths"_a, "heights"_a, "bx"_a, "by"_a, "box_format"_a, "int64"_a,
        nb::sig("def has_code(boxes: object, widths: CellTable, heights: CellTable, bx: float, by: float, "
                "box_format: str, int64: bool) -> numpy.typing.NDArray[numpy.bool_]"),
        "Of each box, whether it has a code; with int64, one that int64 holds.");
}
