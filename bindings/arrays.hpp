// NumPy arrays as the core reads them and gives them back: the only file that sees NumPy's C API, which takes a few
// nanoseconds where other ways of passing an array take half a microsecond.
#pragma once

#include <nanobind/nanobind.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "input.hpp"

namespace hashnms::bindings {

namespace nb = nanobind;

// To be called before anything else here.
inline void import_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

template <class T>
inline constexpr int kTypeNumber = 0;
template <>
inline constexpr int kTypeNumber<float> = NPY_FLOAT32;
template <>
inline constexpr int kTypeNumber<double> = NPY_FLOAT64;
template <>
inline constexpr int kTypeNumber<int64_t> = NPY_INT64;
template <>
inline constexpr int kTypeNumber<bool> = NPY_BOOL;

// An array that the core can read as it lies: an ndarray itself, contiguous, aligned, in the machine's byte order.
class PlainArray {
 public:
  explicit PlainArray(nb::handle object)
      : array_(PyArray_CheckExact(object.ptr()) ? reinterpret_cast<PyArrayObject*>(object.ptr()) : nullptr) {
    if (array_ && !PyArray_ISCARRAY_RO(array_)) array_ = nullptr;
  }

  bool has_shape(size_t rows) const {
    return array_ && PyArray_NDIM(array_) == 1 && static_cast<size_t>(PyArray_DIM(array_, 0)) == rows;
  }
  bool has_columns(size_t columns) const {
    return array_ && PyArray_NDIM(array_) == 2 && static_cast<size_t>(PyArray_DIM(array_, 1)) == columns;
  }
  size_t rows() const { return static_cast<size_t>(PyArray_DIM(array_, 0)); }

  template <class T>
  bool is_of() const {
    return PyArray_TYPE(array_) == kTypeNumber<T>;
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(PyArray_DATA(array_));
  }

 private:
  PyArrayObject* array_;
};

template <class T>
struct NewArray {
  nb::object object;
  T* data;

  explicit NewArray(std::initializer_list<size_t> shape) {
    npy_intp lengths[2] = {};
    int axes = 0;
    for (const size_t length : shape) lengths[axes++] = static_cast<npy_intp>(length);
    object = nb::steal(PyArray_SimpleNew(axes, lengths, kTypeNumber<T>));
    if (!object) throw nb::python_error();
    data = static_cast<T*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(object.ptr())));
  }
};

// Calls use(type) with a value of the array's float type; nothing if it has another.
template <class Use>
nb::object with_float_type(const PlainArray& array, const Use& use) {
  if (array.is_of<float>()) return use(float{});
  if (array.is_of<double>()) return use(double{});
  return nb::none();
}

// Calls use(input); None if the arrays are not plain or do not fit each other.
template <class Use>
nb::object with_input(nb::handle boxes, nb::handle scores, nb::handle labels, BoxFormat format, const Use& use) {
  const PlainArray box_array(boxes), score_array(scores), label_array(labels);
  if (!box_array.has_columns(4) || box_array.rows() > UINT32_MAX) return nb::none();
  const size_t count = box_array.rows();
  if (!score_array.has_shape(count)) return nb::none();
  const int64_t* label_data = nullptr;
  if (!labels.is_none()) {
    if (!label_array.has_shape(count) || !label_array.is_of<int64_t>()) return nb::none();
    label_data = label_array.data<int64_t>();
  }
  return with_float_type(box_array, [&](auto number) {
    return with_float_type(score_array, [&](auto score) {
      return use(Input<decltype(number), decltype(score)>{box_array.data<decltype(number)>(), format,
                                                          score_array.data<decltype(score)>(), label_data, count});
    });
  });
}

}  // namespace hashnms::bindings
