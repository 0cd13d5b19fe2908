// Tensors of other libraries, read through the table of C functions that their type offers (the C exchange API of
// DLPack 1.2). That takes a few nanoseconds; a conversion to an array takes a microsecond.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <optional>
#include <utility>

namespace hashnms::bindings {

namespace nb = nanobind;

// The layout of DLPack 1; the numbers follow in the same block of memory.
struct ManagedTensor {
  uint32_t major_version = 1, minor_version = 0;
  void* context = nullptr;
  void (*free)(ManagedTensor*) = [](ManagedTensor* tensor) { std::free(tensor); };
  uint64_t flags = 0;
  nb::dlpack::dltensor tensor;
  int64_t shape[2], strides[2];
};

// The table in the layout of DLPack 1, up to the last function that is called here.
struct ExchangeTable {
  uint32_t major_version, minor_version;
  ExchangeTable* older_version;
  void *allocate, *managed_from_object;
  int (*object_from_managed)(ManagedTensor* tensor, void** object);
  int (*view_of_object)(void* object, nb::dlpack::dltensor* view);
};

// The table of a type, or null. It remembers the type that defines the table, not one that inherits it.
inline const ExchangeTable* exchange_table_of(PyTypeObject* type) {
  static nb::ft_mutex mutex;  // held only while what is remembered is read or written
  static PyTypeObject* known_type = nullptr;
  static const ExchangeTable* known_table = nullptr;
  {
    const nb::ft_lock_guard lock(mutex);
    if (type == known_type) return known_table;
  }
  const nb::handle type_handle(reinterpret_cast<PyObject*>(type));
  const nb::object capsule = nb::getattr(type_handle, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (table && table->major_version > 1) table = table->older_version;
  if (!table || table->major_version != 1 || !table->view_of_object) return nullptr;
  if (nb::cast<bool>(nb::getattr(type_handle, "__dict__").attr("__contains__")("__dlpack_c_exchange_api__"))) {
    const nb::ft_lock_guard lock(mutex);
    type_handle.inc_ref();  // never freed, so that no other type gets its address
    known_type = type;
    known_table = table;
  }
  return table;
}

// The contents of the object, if it is such a tensor in CPU memory.
inline std::optional<nb::dlpack::dltensor> cpu_tensor(nb::handle object) {
  const ExchangeTable* table = exchange_table_of(Py_TYPE(object.ptr()));
  if (!table) return std::nullopt;
  nb::dlpack::dltensor view;
  if (table->view_of_object(object.ptr(), &view) != 0) {
    PyErr_Clear();  // it has no memory; its conversion will raise the error
    return std::nullopt;
  }
  if (view.device.device_type != nb::device::cpu::value) return std::nullopt;
  for (int axis = 0; axis < view.ndim && !view.data; ++axis) {
    if (view.shape[axis] == 0) return view;
    if (axis + 1 == view.ndim) return std::nullopt;  // numbers without memory: a placeholder tensor
  }
  return view;
}

// A new CPU tensor of the table's library, and where to write its numbers.
template <class T>
std::pair<nb::object, T*> new_tensor(const ExchangeTable& table, std::initializer_list<size_t> lengths) {
  constexpr size_t kHeader = (sizeof(ManagedTensor) + 63) / 64 * 64;
  size_t count = 1;
  for (const size_t length : lengths) count *= length;
  void* memory = std::malloc(kHeader + count * sizeof(T));
  if (!memory) throw std::bad_alloc();
  auto* managed = new (memory) ManagedTensor();
  T* numbers = reinterpret_cast<T*>(static_cast<char*>(memory) + kHeader);
  int64_t stride = static_cast<int64_t>(count);
  int axes = 0;
  for (const size_t length : lengths) {
    stride /= static_cast<int64_t>(std::max<size_t>(length, 1));
    managed->shape[axes] = static_cast<int64_t>(length);
    managed->strides[axes++] = stride;
  }
  managed->tensor = {numbers, {nb::device::cpu::value, 0}, axes, nb::dtype<T>(), managed->shape, managed->strides, 0};
  void* object = nullptr;
  if (table.object_from_managed(managed, &object) != 0) {
    std::free(memory);
    throw nb::python_error();
  }
  return {nb::steal(static_cast<PyObject*>(object)), numbers};
}

}  // namespace hashnms::bindings
