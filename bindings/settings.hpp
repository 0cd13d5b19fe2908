// The numbers and names of a call, from Python objects. Functions return nothing for unusual types and values out of
// range; src/hashnms/_settings.py then converts them or raises an error. Limits are defined only here; Python reads
// them from the module.
#pragma once

#include <nanobind/nanobind.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "boxes/box.hpp"
#include "boxes/metric.hpp"
#include "hash/iou_hash.hpp"
#include "soft_nms.hpp"

namespace hashnms::bindings {

namespace nb = nanobind;

inline constexpr size_t kMostBoxes = UINT32_MAX;
// Beyond these limits, a gaussian lowers all scores to 0, or none.
inline constexpr double kLeastSigma = 1e-30, kGreatestSigma = 1e30;
// From here on, doubles have no fraction, so a shift would be a whole number of cells.
inline constexpr double kShiftLimit = 0x1p53;

inline std::optional<double> number_in(nb::handle object, double least, double greatest) {
  if (!PyFloat_Check(object.ptr())) return std::nullopt;
#if defined(Py_LIMITED_API)
  const double number = PyFloat_AsDouble(object.ptr());
#else
  const double number = PyFloat_AS_DOUBLE(object.ptr());
#endif
  return number >= least && number <= greatest ? std::optional(number) : std::nullopt;
}

// The number that scores must be above; for None, all are.
inline std::optional<double> score_threshold_of(nb::handle object) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return object.is_none() ? -kInfinity : number_in(object, -kInfinity, kInfinity);
}

inline std::optional<bool> bool_of(nb::handle object) {
  return PyBool_Check(object.ptr()) ? std::optional(object.is(Py_True)) : std::nullopt;
}

inline std::optional<size_t> count_of(nb::handle object) {
  if (!PyLong_CheckExact(object.ptr())) return std::nullopt;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  return overflow == 0 && number >= 0 ? std::optional(static_cast<size_t>(number)) : std::nullopt;
}

// A number of boxes; for None, the most possible.
inline std::optional<size_t> most_boxes(nb::handle object) {
  return object.is_none() ? std::optional(kMostBoxes) : count_of(object);
}

inline std::optional<double> alpha_of(nb::handle object) {
  const auto alpha = number_in(object, 0.0, 1.0);
  return alpha && *alpha != 0.0 && *alpha != 1.0 ? alpha : std::nullopt;
}

inline std::optional<size_t> num_hashes_of(nb::handle object) {
  const auto count = count_of(object);
  return count && *count >= 1 && *count <= HashFamily::kMostHashes ? count : std::nullopt;
}

// W_0 or H_0.
inline std::optional<double> origin_of(nb::handle object) {
  return number_in(object, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max());
}

// b_x or b_y.
inline std::optional<double> shift_of(nb::handle object) {
  const auto shift = number_in(object, -kShiftLimit, kShiftLimit);
  return shift && std::abs(*shift) < kShiftLimit ? shift : std::nullopt;
}

inline bool is_name(nb::handle object, const char* name) {
  return PyUnicode_Check(object.ptr()) && PyUnicode_CompareWithASCIIString(object.ptr(), name) == 0;
}

inline std::optional<BoxFormat> box_format_of(nb::handle object) {
  if (is_name(object, "xyxy")) return BoxFormat::xyxy;
  if (is_name(object, "xywh")) return BoxFormat::xywh;
  if (is_name(object, "cxcywh")) return BoxFormat::cxcywh;
  return std::nullopt;
}

inline std::optional<Metric> metric_of(nb::handle object) {
  if (is_name(object, "iou")) return Metric::iou;
  if (is_name(object, "ios")) return Metric::ios;
  if (is_name(object, "diou")) return Metric::diou;
  return std::nullopt;
}

inline std::optional<SoftMethod> soft_method_of(nb::handle object) {
  if (is_name(object, "gaussian")) return SoftMethod::gaussian;
  if (is_name(object, "linear")) return SoftMethod::linear;
  if (is_name(object, "hard")) return SoftMethod::hard;
  return std::nullopt;
}

}  // namespace hashnms::bindings
