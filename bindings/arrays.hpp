// Arrays as the core reads and returns them. Only this file uses NumPy's C API, which takes a few nanoseconds per
// array; other ways take half a microsecond.
#pragma once

#include <nanobind/nanobind.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <tuple>

#include "boxes/input.hpp"
#include "settings.hpp"
#include "tensors.hpp"

namespace hashnms::bindings {

namespace nb = nanobind;

// Call it before anything else here.
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
template <>
inline constexpr int kTypeNumber<int8_t> = NPY_INT8;
template <>
inline constexpr int kTypeNumber<uint8_t> = NPY_UINT8;

// An array or tensor that the core can read in place: contiguous, aligned, in the machine's byte order.
class PlainArray {
 public:
  explicit PlainArray(nb::handle object) {
    if (PyArray_CheckExact(object.ptr())) {
      read(reinterpret_cast<PyArrayObject*>(object.ptr()));
    } else if (!object.is_none()) {
      if (const auto tensor = cpu_tensor(object)) read(*tensor);
    }
  }

  bool has_shape(size_t rows) const { return axes_ == 1 && shape_[0] == rows; }
  bool has_columns(size_t columns) const { return axes_ == 2 && shape_[1] == columns; }
  size_t rows() const { return shape_[0]; }

  template <class T>
  bool is_of() const {
    return type_ == kTypeNumber<T>;
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }

 private:
  void read(PyArrayObject* array) {
    const int axes = PyArray_NDIM(array);
    if (!PyArray_ISCARRAY_RO(array) || axes > 2) return;
    for (int axis = 0; axis < axes; ++axis) shape_[axis] = static_cast<size_t>(PyArray_DIM(array, axis));
    data_ = PyArray_DATA(array);
    type_ = PyArray_TYPE(array);
    axes_ = axes;
  }

  void read(const nb::dlpack::dltensor& tensor) {
    if (tensor.ndim > 2) return;
    int64_t stride = 1;
    for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
      if (tensor.shape[axis] > 1 && tensor.strides[axis] != stride) return;
      shape_[axis] = static_cast<size_t>(tensor.shape[axis]);
      stride *= tensor.shape[axis];
    }
    type_ = tensor.dtype == nb::dtype<float>()     ? NPY_FLOAT32
            : tensor.dtype == nb::dtype<double>()  ? NPY_FLOAT64
            : tensor.dtype == nb::dtype<int64_t>() ? NPY_INT64
                                                   : NPY_NOTYPE;
    data_ = static_cast<const char*>(tensor.data) + tensor.byte_offset;
    if (type_ == NPY_NOTYPE || reinterpret_cast<uintptr_t>(data_) % (tensor.dtype.bits / 8u) != 0) return;
    axes_ = tensor.ndim;
  }

  const void* data_ = nullptr;
  int type_ = NPY_NOTYPE;
  int axes_ = -1;  // -1: no array
  size_t shape_[2] = {};
};

// An array to return; a tensor if `like`, which the caller gave, is one.
template <class T>
struct NewArray {
  nb::object object;
  T* data;

  NewArray(nb::handle like, std::initializer_list<size_t> shape) {
    if (!PyArray_CheckExact(like.ptr())) {
      if (const ExchangeTable* table = exchange_table_of(Py_TYPE(like.ptr()))) {
        std::tie(object, data) = new_tensor<T>(*table, shape);
        return;
      }
    }
    npy_intp lengths[2] = {};
    int axes = 0;
    for (const size_t length : shape) lengths[axes++] = static_cast<npy_intp>(length);
    object = nb::steal(PyArray_SimpleNew(axes, lengths, kTypeNumber<T>));
    if (!object) throw nb::python_error();
    data = static_cast<T*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(object.ptr())));
  }
};

// Calls use(type) with a value of the array's float type; does nothing if it has another type.
template <class Use>
nb::object with_float_type(const PlainArray& array, const Use& use) {
  if (array.is_of<float>()) return use(float{});
  if (array.is_of<double>()) return use(double{});
  return nb::none();
}

// Calls use(input); returns None if the arrays are not plain or do not match, or the format is unknown.
template <class Use>
nb::object with_input(nb::handle boxes, nb::handle scores, nb::handle labels, nb::handle images, nb::handle box_format,
                      const Use& use) {
  // An array with a tensor is rare, and Python converts it: only callers with two tensors have checked both.
  if (PyArray_CheckExact(boxes.ptr()) != PyArray_CheckExact(scores.ptr())) return nb::none();
  const PlainArray box_array(boxes), score_array(scores), label_array(labels), image_array(images);
  const std::optional<BoxFormat> format = box_format_of(box_format);
  if (!format || !box_array.has_columns(4) || box_array.rows() > kMostBoxes) return nb::none();
  const size_t count = box_array.rows();
  if (!score_array.has_shape(count)) return nb::none();
  const auto fits = [=](nb::handle object, const PlainArray& array) {
    return object.is_none() || (array.has_shape(count) && array.is_of<int64_t>());
  };
  if (!fits(labels, label_array) || !fits(images, image_array)) return nb::none();
  return with_float_type(box_array, [&](auto number) {
    return with_float_type(score_array, [&](auto score) {
      return use(Input<decltype(number), decltype(score)>{
          box_array.data<decltype(number)>(), *format, score_array.data<decltype(score)>(), label_array.data<int64_t>(),
          image_array.data<int64_t>(), count});
    });
  });
}

}  // namespace hashnms::bindings
