// The Python module hashnms._core: a table of contents of the core.
//
// Functions take the arguments of a call as they are. They return None if they refuse them: if an array is not plain or
// has the wrong type or shape, a number is invalid, or a name is unknown. src/hashnms/_calls.py then converts them, or
// raises the error that says why.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "fusion.hpp"
#include "grow.hpp"
#include "hashes.hpp"
#include "hnms.hpp"
#include "join.hpp"
#include "nms.hpp"
#include "partial_nms.hpp"
#include "soft_nms.hpp"
#include "support/interrupt.hpp"
#include "support/seeds.hpp"
#include "top_k.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace hashnms::bindings {

std::atomic<size_t> num_threads = 1;  // the number that a call may use

template <class Score>
nb::object rows_of(nb::handle boxes, const Claims<Score>& claims) {
  const NewArray<int64_t> rows(boxes, {claims.size()});
  std::transform(claims.begin(), claims.end(), rows.data, [](const auto& claim) { return int64_t{claim.box()}; });
  return rows.object;
}

// The ident of Python's main thread, the only one that receives signals: set by _threads.py.
unsigned long main_thread = 0;

// Whether Ctrl-C was pressed, or the handler of another signal failed; its error is then Python's current one.
bool signal_has_come() {
  const nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals() != 0;
}

// Releases Python's lock during the work, unless there are so few boxes that this would take longer than the work.
template <class Work>
auto unlocked(size_t boxes, const Work& work) {
  if (boxes <= 256) return work();
  try {
    const nb::gil_scoped_release release;
    std::optional<Interrupt> interrupt;
    if (PyThread_get_thread_ident() == main_thread) interrupt.emplace(signal_has_come);
    return work();
  } catch (const Interrupted&) {
    throw nb::python_error();
  }
}

nb::object hnms(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, nb::handle alpha,
                nb::handle num_hashes, nb::handle box_format) {
  const auto family = family_of(alpha, num_hashes);
  if (!family) return nb::none();
  return with_input(boxes, scores, labels, images, box_format, [&](const auto& input) -> nb::object {
    const auto kept =
        unlocked(input.count, [&] { return hashnms::hnms(input, *family, Functions(*family), num_threads); });
    return kept ? rows_of(boxes, *kept) : nb::none();
  });
}

// The number of the function is not checked.
nb::object hnms_of_function(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle alpha,
                            nb::handle num_hashes, size_t function, nb::handle box_format) {
  const auto family = family_of(alpha, num_hashes);
  if (!family) return nb::none();
  return with_input(boxes, scores, labels, nb::none(), box_format, [&](const auto& input) -> nb::object {
    const auto kept =
        unlocked(input.count, [&] { return hashnms::hnms(input, *family, Functions(function), num_threads); });
    return kept ? rows_of(boxes, *kept) : nb::none();
  });
}

// The options are complete except for where to write suppressors.
template <bool want_suppressor>
nb::object nms_of(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, NmsOptions options,
                  nb::handle box_format) {
  return with_input(boxes, scores, labels, images, box_format, [&](const auto& input) -> nb::object {
    std::optional<NewArray<int64_t>> suppressor;
    if (want_suppressor) suppressor.emplace(boxes, std::initializer_list<size_t>{input.count});
    options.suppressor = suppressor ? suppressor->data : nullptr;
    const auto kept = unlocked(input.count, [&] { return hashnms::nms(input, options, num_threads); });
    if (!kept) return nb::none();
    const NewArray<int64_t> keep(boxes, {kept->size()});
    std::copy(kept->begin(), kept->end(), keep.data);
    return suppressor ? nb::object(nb::make_tuple(keep.object, suppressor->object)) : keep.object;
  });
}

// All options except where to write suppressors; nothing if a setting is invalid.
std::optional<NmsOptions> nms_options(nb::handle iou_threshold, nb::handle score_threshold, nb::handle max_output,
                                      nb::handle metric, nb::handle inclusive) {
  const auto threshold = number_in(iou_threshold, 0.0, 1.0);
  const auto above = score_threshold_of(score_threshold);
  const auto most = most_boxes(max_output);
  const auto measure = metric_of(metric);
  const auto or_equal = bool_of(inclusive);
  if (!threshold || !above || !most || !measure || !or_equal || (*or_equal && *threshold == 0.0)) return std::nullopt;
  return NmsOptions{*measure, *threshold, *or_equal, *above, *most, nullptr};
}

template <bool want_suppressor>
nb::object nms(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, nb::handle iou_threshold,
               nb::handle score_threshold, nb::handle max_output, nb::handle metric, nb::handle inclusive,
               nb::handle box_format) {
  const auto options = nms_options(iou_threshold, score_threshold, max_output, metric, inclusive);
  return options ? nms_of<want_suppressor>(boxes, scores, labels, images, *options, box_format) : nb::none();
}

nb::object join(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, nb::handle iou_threshold,
                nb::handle score_threshold, nb::handle max_output, nb::handle metric, nb::handle inclusive,
                nb::handle box_format) {
  auto options = nms_options(iou_threshold, score_threshold, max_output, metric, inclusive);
  if (!options) return nb::none();
  return with_input(boxes, scores, labels, images, box_format, [&](const auto& input) -> nb::object {
    const NewArray<int64_t> joined(boxes, {input.count}), suppressor(boxes, {input.count});
    options->suppressor = suppressor.data;
    const bool is_valid =
        unlocked(input.count, [&] { return hashnms::join(input, *options, num_threads, joined.data); });
    return is_valid ? nb::object(nb::make_tuple(joined.object, suppressor.object)) : nb::none();
  });
}

// The options that do not concern scores; nothing if a setting is invalid.
std::optional<NmsOptions> overlap_options(nb::handle iou_threshold, nb::handle metric, nb::handle inclusive) {
  const auto threshold = number_in(iou_threshold, 0.0, 1.0);
  const auto measure = metric_of(metric);
  const auto or_equal = bool_of(inclusive);
  if (!threshold || !measure || !or_equal || (*or_equal && *threshold == 0.0)) return std::nullopt;
  return NmsOptions{*measure, *threshold, *or_equal, -std::numeric_limits<double>::infinity(), kMostBoxes, nullptr};
}

nb::object partial_nms(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, nb::handle open,
                       nb::handle kept, nb::handle iou_threshold, nb::handle metric, nb::handle inclusive,
                       nb::handle box_format) {
  const auto options = overlap_options(iou_threshold, metric, inclusive);
  if (!options) return nb::none();
  const PlainArray open_array(open), kept_array(kept);
  return with_input(boxes, scores, labels, images, box_format, [&](const auto& input) -> nb::object {
    const auto fits = [&](nb::handle object, const PlainArray& array) {
      return object.is_none() || (array.has_shape(input.count) && array.template is_of<bool>());
    };
    if (!fits(open, open_array) || !fits(kept, kept_array)) return nb::none();
    const auto status = unlocked(input.count, [&] {
      return hashnms::partial_nms(input, *options, open_array.data<bool>(), kept_array.data<bool>());
    });
    if (!status) return nb::none();
    const NewArray<int8_t> result(nb::none(), {input.count});
    std::transform(status->begin(), status->end(), result.data, [](Status some) { return static_cast<int8_t>(some); });
    return result.object;
  });
}

nb::object batched_nms(nb::handle boxes, nb::handle scores, nb::handle idxs, nb::handle iou_threshold) {
  const auto threshold = number_in(iou_threshold, 0.0, 1.0);
  if (!threshold || idxs.is_none()) return nb::none();
  const NmsOptions options{Metric::iou, *threshold, false, -std::numeric_limits<double>::infinity(),
                           kMostBoxes,  nullptr};
  return nms_of<false>(boxes, scores, idxs, nb::none(), options, nb::str("xyxy"));
}

nb::object soft_nms(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, nb::handle method,
                    nb::handle sigma, nb::handle iou_threshold, nb::handle min_score, nb::handle max_output,
                    nb::handle box_format) {
  const auto soft_method = soft_method_of(method);
  const auto sigma_value = number_in(sigma, kLeastSigma, kGreatestSigma);
  const auto threshold = number_in(iou_threshold, 0.0, 1.0);
  const auto least = number_in(min_score, 0.0, std::numeric_limits<double>::max());
  const auto most = most_boxes(max_output);
  if (!soft_method || !sigma_value || !threshold || !least || !most) return nb::none();
  const SoftNmsOptions options{*soft_method, *sigma_value, *threshold, *least, *most};
  return with_input(
      boxes, scores, labels, images, box_format, [&]<class T, class Score>(const Input<T, Score>& input) -> nb::object {
        const auto selection = unlocked(input.count, [&] { return hashnms::soft_nms(input, options, num_threads); });
        if (!selection) return nb::none();
        const NewArray<Score> decayed(boxes, {selection->claims.size()});
        std::transform(selection->claims.begin(), selection->claims.end(), decayed.data,
                       [&](const auto& claim) { return selection->scores[claim.box()]; });
        return nb::make_tuple(rows_of(boxes, selection->claims), decayed.object);
      });
}

nb::object top_k(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, nb::handle score_threshold,
                 nb::handle most_of_label, nb::handle most_in_all, nb::handle box_format) {
  const auto above = score_threshold_of(score_threshold);
  const auto of_label = most_boxes(most_of_label), in_all = most_boxes(most_in_all);
  if (!above || !of_label || !in_all) return nb::none();
  return with_input(boxes, scores, labels, images, box_format, [&](const auto& input) -> nb::object {
    const auto top = unlocked(input.count, [&] { return hashnms::top_k(input, {*above, *of_label, *in_all}); });
    return top ? rows_of(boxes, *top) : nb::none();
  });
}

nb::object fuse(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, nb::handle iou_threshold,
                nb::handle box_format) {
  const auto threshold = number_in(iou_threshold, 0.0, 1.0);
  if (!threshold) return nb::none();
  return with_input(boxes, scores, labels, images, box_format, [&](const auto& input) -> nb::object {
    const auto fusion = unlocked(input.count, [&] { return hashnms::fuse(input, *threshold); });
    if (!fusion) return nb::none();
    const NewArray<int64_t> clusters(boxes, {input.count}), founders(boxes, {fusion->founders.size()});
    const NewArray<double> fused(boxes, {fusion->fused.size(), 4});
    std::copy(fusion->clusters.begin(), fusion->clusters.end(), clusters.data);
    std::copy(fusion->founders.begin(), fusion->founders.end(), founders.data);
    for (size_t k = 0; k < fusion->fused.size(); ++k) {
      const Corners<double>& box = fusion->fused[k];
      std::copy_n(std::initializer_list<double>{box.x1, box.y1, box.x2, box.y2}.begin(), 4, fused.data + 4 * k);
    }
    return nb::make_tuple(clusters.object, founders.object, fused.object);
  });
}

nb::object grow(nb::handle boxes, nb::handle firsts, nb::handle others, nb::handle ends, nb::handle threshold,
                nb::handle metric) {
  const auto least = number_in(threshold, 0.0, std::numeric_limits<double>::max());
  const auto measure = metric_of(metric);
  const PlainArray box_array(boxes), first_array(firsts), other_array(others), end_array(ends);
  const auto are_rows = [](const PlainArray& array, size_t count) {
    return array.has_shape(count) && array.is_of<int64_t>();
  };
  const size_t count = first_array.rows(), num_others = other_array.rows();
  if (!least || !measure || !box_array.has_columns(4) || !box_array.is_of<double>() || !are_rows(first_array, count) ||
      !are_rows(end_array, count) || !are_rows(other_array, num_others)) {
    return nb::none();
  }
  const Groups groups{box_array.data<double>(), first_array.data<int64_t>(), other_array.data<int64_t>(),
                      end_array.data<int64_t>(), count};
  if (!groups.fits(box_array.rows(), num_others)) return nb::none();
  const NewArray<double> grown(boxes, {count, 4});
  const NewArray<bool> taken(boxes, {num_others});
  unlocked(count + num_others, [&] { hashnms::grow(groups, *measure, *least, grown.data, taken.data); });
  return nb::make_tuple(grown.object, taken.object);
}

// Calls use(rows, format) with the numbers of the boxes, in their type; returns None if they are not plain.
template <class Use>
nb::object with_boxes(const PlainArray& boxes, nb::handle box_format, const Use& use) {
  const std::optional<BoxFormat> format = box_format_of(box_format);
  if (!format || !boxes.has_columns(4) || boxes.rows() > kMostBoxes) return nb::none();
  return with_float_type(boxes, [&](auto number) { return use(boxes.data<decltype(number)>(), *format); });
}

template <class T>
nb::object array_of(const std::vector<T>& values) {
  const NewArray<T> result(nb::none(), {values.size()});
  std::copy(values.begin(), values.end(), result.data);
  return result.object;
}

nb::object regions(nb::handle boxes, nb::handle iou_threshold, nb::handle metric, nb::handle inclusive,
                   nb::handle box_format) {
  const auto options = overlap_options(iou_threshold, metric, inclusive);
  if (!options) return nb::none();
  const PlainArray array(boxes);
  return with_boxes(array, box_format, [&](const auto* rows, BoxFormat format) -> nb::object {
    const NewArray<double> result(nb::none(), {array.rows(), 4});
    const bool valid =
        unlocked(array.rows(), [&] { return write_regions(rows, format, array.rows(), *options, result.data); });
    return valid ? result.object : nb::none();
  });
}

// The borders and `most` are not checked.
nb::object touched_tiles(nb::handle boxes, nb::handle iou_threshold, nb::handle metric, nb::handle inclusive,
                         nb::handle box_format, nb::handle across, nb::handle down, nb::handle row_starts,
                         size_t most) {
  const auto options = overlap_options(iou_threshold, metric, inclusive);
  if (!options) return nb::none();
  const PlainArray array(boxes), columns(across), rows(down), starts(row_starts);
  const Borders borders({columns.data<double>(), columns.rows()}, {rows.data<double>(), rows.rows()},
                        {starts.data<int64_t>(), starts.rows()});
  return with_boxes(array, box_format, [&](const auto* numbers, BoxFormat format) -> nb::object {
    const auto touches = unlocked(
        array.rows(), [&] { return hashnms::touched_tiles(numbers, format, array.rows(), *options, borders, most); });
    if (!touches) return nb::none();
    return nb::make_tuple(array_of(touches->starts), array_of(touches->rows), array_of(touches->copies));
  });
}

// Row r is bit r % 8 of byte r / 8 of the bitmap. The arguments are not checked.
void clear_bits(nb::handle bitmap, nb::handle rows) {
  const PlainArray array(rows);
  auto* const bits = static_cast<uint8_t*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(bitmap.ptr())));
  const int64_t* const numbers = array.data<int64_t>();
  for (size_t k = 0; k < array.rows(); ++k) bits[numbers[k] >> 3] &= static_cast<uint8_t>(~(1 << (numbers[k] & 7)));
}

nb::object iou_hash(nb::handle boxes, nb::handle alpha, nb::handle w0, nb::handle h0, nb::handle bx, nb::handle by,
                    nb::handle box_format) {
  const auto hash = hash_of(alpha, w0, h0, bx, by);
  if (!hash) return nb::none();
  const PlainArray array(boxes);
  return with_boxes(array, box_format, [&](const auto* rows, BoxFormat format) -> nb::object {
    const size_t count = array.rows();
    const NewArray<int64_t> result(boxes, {count, 4});
    const bool all_fit = unlocked(count, [&] {
      return extents_of(rows, format, nullptr, count).valid && hash->write_codes(rows, count, format, result.data);
    });
    return all_fit ? result.object : nb::none();
  });
}

// For the errors of iou_hash: which boxes have codes that fit into int64.
nb::object has_code(nb::handle boxes, nb::handle alpha, nb::handle w0, nb::handle h0, nb::handle bx, nb::handle by,
                    nb::handle box_format) {
  const auto hash = hash_of(alpha, w0, h0, bx, by);
  if (!hash) return nb::none();
  const PlainArray array(boxes);
  return with_boxes(array, box_format, [&](const auto* rows, BoxFormat format) -> nb::object {
    const NewArray<bool> result(boxes, {array.rows()});
    unlocked(array.rows(), [&] {
      for_each_piece(array.rows(), [&](size_t begin, size_t end) {
        for (size_t row = begin; row < end; ++row) result.data[row] = hash->has_int64_code(rows + 4 * row, format);
      });
    });
    return result.object;
  });
}

// For the errors of hnms: which boxes have a code under every function.
nb::object family_has_code(nb::handle boxes, nb::handle alpha, nb::handle num_hashes, nb::handle box_format) {
  const auto family = family_of(alpha, num_hashes);
  if (!family) return nb::none();
  const PlainArray array(boxes);
  return with_boxes(array, box_format, [&](const auto* rows, BoxFormat format) -> nb::object {
    const NewArray<bool> result(boxes, {array.rows()});
    std::fill(result.data, result.data + array.rows(), true);
    unlocked(array.rows(), [&] {
      for (size_t k = 0; k < family->size(); ++k) {
        family->with_hash(k, [&](const IoUHash& hash) {
          for_each_piece(array.rows(), [&](size_t begin, size_t end) {
            for (size_t row = begin; row < end; ++row) result.data[row] &= has_code_of(hash, rows + 4 * row, format);
          });
        });
      }
    });
    return result.object;
  });
}

nb::object float32_cells(double alpha, double origin) {
  const auto cells = CellTables::find(alpha, origin)->float32_cells();
  return nb::make_tuple(cells.first, array_of(cells.edges), array_of(cells.inverse_deltas));
}

}  // namespace hashnms::bindings

#define HASHNMS_ARRAYS "boxes: object, scores: object, labels: object, images: object, "
#define HASHNMS_NMS                                                                                         \
  "iou_threshold: object, score_threshold: object, max_output: object, metric: object, inclusive: object, " \
  "box_format: object) -> "
#define HASHNMS_FUNCTION \
  "boxes: object, alpha: object, w0: object, h0: object, bx: object, by: object, box_format: object"
#define HASHNMS_ROWS "numpy.typing.NDArray[numpy.int64]"
#define HASHNMS_FLOATS "numpy.typing.NDArray[numpy.float64]"

NB_MODULE(_core, m) {
  using namespace hashnms;
  bindings::import_numpy();
  nb::set_leak_warnings(false);  // tables are cached until Python ends
  m.doc() = "The compiled core of hashnms.";

  m.attr("MOST_BOXES") = bindings::kMostBoxes;
  m.attr("MOST_HASHES") = HashFamily::kMostHashes;
  m.attr("LEAST_SIGMA") = bindings::kLeastSigma;
  m.attr("GREATEST_SIGMA") = bindings::kGreatestSigma;
  m.attr("SHIFT_LIMIT") = bindings::kShiftLimit;

  m.def("set_num_threads", [](size_t count) { bindings::num_threads = count; }, "num_threads"_a);
  m.def(
      "set_boxes_per_tile", [](size_t count) { return boxes_per_tile.exchange(count); }, "count"_a,
      "Set the approximate number of boxes in a tile of NMS, for tests. Returns the previous number.");
  m.def("set_main_thread", [](unsigned long ident) { bindings::main_thread = ident; }, "ident"_a);
  m.def("get_num_threads", [] { return bindings::num_threads.load(); });
  m.def(
      "hash_seed", [] { return seed(0); },
      "The random factor of keys in this process: for kernels, and for tests that attack it.");

  m.def("hnms", &bindings::hnms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "images"_a.none(),
        "alpha"_a.none(), "num_hashes"_a.none(), "box_format"_a.none(),
        nb::sig("def hnms(" HASHNMS_ARRAYS "alpha: object, num_hashes: object, box_format: object) -> " HASHNMS_ROWS
                " | None"),
        "The best box of each cell, for one hash after another.");
  m.def("hnms_of_function", &bindings::hnms_of_function, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(),
        "alpha"_a.none(), "num_hashes"_a.none(), "function"_a, "box_format"_a.none(),
        nb::sig("def hnms_of_function(boxes: object, scores: object, labels: object, alpha: object, "
                "num_hashes: object, function: int, box_format: object) -> " HASHNMS_ROWS " | None"),
        "The best box of each cell of one function of a family. The number of the function is not checked.");
  m.def("nms", &bindings::nms<false>, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "images"_a.none(),
        "iou_threshold"_a.none(), "score_threshold"_a.none(), "max_output"_a.none(), "metric"_a.none(),
        "inclusive"_a.none(), "box_format"_a.none(),
        nb::sig("def nms(" HASHNMS_ARRAYS HASHNMS_NMS HASHNMS_ROWS " | None"), "The boxes that greedy NMS keeps.");
  m.def("nms_suppressor", &bindings::nms<true>, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(),
        "images"_a.none(), "iou_threshold"_a.none(), "score_threshold"_a.none(), "max_output"_a.none(),
        "metric"_a.none(), "inclusive"_a.none(), "box_format"_a.none(),
        nb::sig("def nms_suppressor(" HASHNMS_ARRAYS HASHNMS_NMS "tuple[" HASHNMS_ROWS ", " HASHNMS_ROWS "] | None"),
        "The boxes that greedy NMS keeps, and the suppressor of each box.");
  m.def("partial_nms", &bindings::partial_nms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(),
        "images"_a.none(), "open"_a.none(), "kept"_a.none(), "iou_threshold"_a.none(), "metric"_a.none(),
        "inclusive"_a.none(), "box_format"_a.none(),
        nb::sig("def partial_nms(" HASHNMS_ARRAYS
                "open: object, kept: object, iou_threshold: object, metric: object, inclusive: object, "
                "box_format: object) -> numpy.typing.NDArray[numpy.int8] | None"),
        "The certain status of each box in a part of a scene: 0 for suppressed, 1 for kept, 2 for undecided.");
  m.def("regions", &bindings::regions, "boxes"_a.none(), "iou_threshold"_a.none(), "metric"_a.none(),
        "inclusive"_a.none(), "box_format"_a.none(),
        nb::sig("def regions(boxes: object, iou_threshold: object, metric: object, inclusive: object, "
                "box_format: object) -> " HASHNMS_FLOATS " | None"),
        "The region of each box: if one of two boxes can suppress the other, their regions intersect.");
  m.def("join", &bindings::join, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "images"_a.none(),
        "iou_threshold"_a.none(), "score_threshold"_a.none(), "max_output"_a.none(), "metric"_a.none(),
        "inclusive"_a.none(), "box_format"_a.none(),
        nb::sig("def join(" HASHNMS_ARRAYS HASHNMS_NMS "tuple[" HASHNMS_ROWS ", " HASHNMS_ROWS "] | None"),
        "For each box, the first box that overlaps it, kept or not, and the kept box at the end of this chain.");
  m.def("touched_tiles", &bindings::touched_tiles, "boxes"_a.none(), "iou_threshold"_a.none(), "metric"_a.none(),
        "inclusive"_a.none(), "box_format"_a.none(), "across"_a, "down"_a, "row_starts"_a, "most"_a,
        nb::sig("def touched_tiles(boxes: object, iou_threshold: object, metric: object, inclusive: object, "
                "box_format: object, across: " HASHNMS_FLOATS ", down: " HASHNMS_FLOATS ", row_starts: " HASHNMS_ROWS
                ", most: int) -> tuple[" HASHNMS_ROWS ", " HASHNMS_ROWS ", numpy.typing.NDArray[numpy.int8]] | None"),
        "The boxes that touch each tile: where each tile starts, their rows, and which copy each is. Only the first "
        "boxes, with at most `most` copies, but at least one box. The borders and `most` are not checked.");
  m.def("clear_bits", &bindings::clear_bits, "bitmap"_a, "rows"_a,
        nb::sig("def clear_bits(bitmap: numpy.typing.NDArray[numpy.uint8], rows: " HASHNMS_ROWS ") -> None"),
        "Clear the bits of rows; row r is bit r % 8 of byte r / 8. The arguments are not checked.");
  m.def("batched_nms", &bindings::batched_nms, "boxes"_a.none(), "scores"_a.none(), "idxs"_a.none(),
        "iou_threshold"_a.none(),
        nb::sig("def batched_nms(boxes: object, scores: object, idxs: object, iou_threshold: object) -> " HASHNMS_ROWS
                " | None"),
        "The boxes that greedy NMS keeps in each group.");
  m.def("soft_nms", &bindings::soft_nms, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "images"_a.none(),
        "method"_a.none(), "sigma"_a.none(), "iou_threshold"_a.none(), "min_score"_a.none(), "max_output"_a.none(),
        "box_format"_a.none(),
        nb::sig("def soft_nms(" HASHNMS_ARRAYS
                "method: object, sigma: object, iou_threshold: object, min_score: object, max_output: object, "
                "box_format: object) -> tuple[" HASHNMS_ROWS ", numpy.typing.NDArray[typing.Any]] | None"),
        "The boxes that Soft-NMS selects, in order, and their scores when selected.");
  m.def("top_k", &bindings::top_k, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "images"_a.none(),
        "score_threshold"_a.none(), "most_of_label"_a.none(), "most_in_all"_a.none(), "box_format"_a.none(),
        nb::sig(
            "def top_k(" HASHNMS_ARRAYS
            "score_threshold: object, most_of_label: object, most_in_all: object, box_format: object) -> " HASHNMS_ROWS
            " | None"),
        "The boxes with the highest scores, in each label and in all.");
  m.def("fuse", &bindings::fuse, "boxes"_a.none(), "scores"_a.none(), "labels"_a.none(), "images"_a.none(),
        "iou_threshold"_a.none(), "box_format"_a.none(),
        nb::sig("def fuse(" HASHNMS_ARRAYS "iou_threshold: object, box_format: object) -> tuple[" HASHNMS_ROWS
                ", " HASHNMS_ROWS ", " HASHNMS_FLOATS "] | None"),
        "The cluster of each box, and the first row and the fused xyxy box of each cluster.");
  m.def("grow", &bindings::grow, "boxes"_a.none(), "firsts"_a.none(), "others"_a.none(), "ends"_a.none(),
        "threshold"_a.none(), "metric"_a.none(),
        nb::sig("def grow(boxes: object, firsts: object, others: object, ends: object, threshold: object, metric: "
                "object) -> tuple[" HASHNMS_FLOATS ", numpy.typing.NDArray[numpy.bool_]] | None"),
        "The first box of each group, grown by the others that overlap it as it is by then; and which these are.");
  m.def("iou_hash", &bindings::iou_hash, "boxes"_a.none(), "alpha"_a.none(), "w0"_a.none(), "h0"_a.none(),
        "bx"_a.none(), "by"_a.none(), "box_format"_a.none(),
        nb::sig("def iou_hash(" HASHNMS_FUNCTION ") -> " HASHNMS_ROWS " | None"), "The codes i, j, m, n.");
  m.def("has_code", &bindings::has_code, "boxes"_a.none(), "alpha"_a.none(), "w0"_a.none(), "h0"_a.none(),
        "bx"_a.none(), "by"_a.none(), "box_format"_a.none(),
        nb::sig("def has_code(" HASHNMS_FUNCTION ") -> numpy.typing.NDArray[numpy.bool_] | None"),
        "Whether each box has a code that fits into int64.");
  m.def("family_has_code", &bindings::family_has_code, "boxes"_a.none(), "alpha"_a.none(), "num_hashes"_a.none(),
        "box_format"_a.none(),
        nb::sig("def family_has_code(boxes: object, alpha: object, num_hashes: object, box_format: object) -> "
                "numpy.typing.NDArray[numpy.bool_] | None"),
        "Whether each box has a code under every function of the family.");

  m.def(
      "family_origins",
      [](double alpha, size_t num_hashes) { return bindings::array_of(HashFamily::origins(alpha, num_hashes)); },
      "alpha"_a, "num_hashes"_a, nb::sig("def family_origins(alpha: float, num_hashes: int) -> " HASHNMS_FLOATS),
      "W_0 of each function of a family. The arguments are not checked.");
  m.def("float32_cells", &bindings::float32_cells, "alpha"_a, "origin"_a,
        nb::sig("def float32_cells(alpha: float, origin: float) -> tuple[int, " HASHNMS_FLOATS ", " HASHNMS_FLOATS "]"),
        "The index of the first cell, and the least width and 1/delta of every cell that a float32 box can have. "
        "The arguments are not checked.");
}
