// Tensors of other libraries as the core reads them: through the table of C functions that their type offers (the C
// exchange API of DLPack 1.2), in a few nanoseconds where a conversion to an array takes a microsecond.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>

namespace hashnms::bindings {

namespace nb = nanobind;

// The table as DLPack 1 lays it out, up to the one function that is called here.
struct ExchangeTable {
  uint32_t major_version, minor_version;
  ExchangeTable* older_version;
  void *allocate, *managed_from_object, *object_from_managed;
  int (*view_of_object)(void* object, nb::dlpack::dltensor* view);
};

// The table of a type, or null. The last type asked for is remembered: it nearly always is the next one, too.
inline const ExchangeTable* exchange_table_of(PyTypeObject* type) {
  static PyTypeObject* known_type = nullptr;
  static const ExchangeTable* known_table = nullptr;
  if (type == known_type) return known_table;
  const nb::handle type_handle(reinterpret_cast<PyObject*>(type));
  const nb::object capsule = nb::getattr(type_handle, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (table && table->major_version > 1) table = table->older_version;
  if (!table || table->major_version != 1 || !table->view_of_object) return nullptr;
  type_handle.inc_ref();  // never freed, so that no other type gets its address
  known_type = type;
  known_table = table;
  return table;
}

// What the object holds, if it is such a tensor in the memory of the CPU.
inline std::optional<nb::dlpack::dltensor> cpu_tensor(nb::handle object) {
  const ExchangeTable* table = exchange_table_of(Py_TYPE(object.ptr()));
  if (!table) return std::nullopt;
  nb::dlpack::dltensor view;
  if (table->view_of_object(object.ptr(), &view) != 0) {
    PyErr_Clear();  // it has no memory to look at: whoever converts it will say why
    return std::nullopt;
  }
  if (view.device.device_type != nb::device::cpu::value) return std::nullopt;
  return view;
}

}  // namespace hashnms::bindings
