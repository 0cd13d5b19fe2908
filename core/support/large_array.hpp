// An array for as many items as there are boxes. A large one requests huge pages: with them, HNMS of a million boxes
// takes half the time (python -m benchmarks.hnms).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace hashnms {

enum class Filled { no, with_zeros };

template <class T>
class LargeArray {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  explicit LargeArray(size_t size, Filled filled = Filled::no)
      : data_(allocate(size * sizeof(T), filled)), size_(size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t kHugePage = 2 << 20;
    const auto begin = (reinterpret_cast<uintptr_t>(data_.get()) + kHugePage - 1) / kHugePage * kHugePage;
    const auto end = reinterpret_cast<uintptr_t>(data_.get() + size) / kHugePage * kHugePage;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // a hint
#endif
  }

  size_t size() const { return size_; }
  void shrink(size_t size) { size_ = size; }  // keeps the first items; memory is not freed
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](size_t k) { return data_.get()[k]; }
  const T& operator[](size_t k) const { return data_.get()[k]; }
  T* begin() { return data_.get(); }
  T* end() { return data_.get() + size_; }
  const T* begin() const { return data_.get(); }
  const T* end() const { return data_.get() + size_; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };

  static T* allocate(size_t bytes, Filled filled) {
    if (bytes == 0) return nullptr;
    void* data = filled == Filled::with_zeros ? std::calloc(bytes, 1) : std::malloc(bytes);
    if (!data) throw std::bad_alloc();
    return static_cast<T*>(data);
  }

  std::unique_ptr<T, Free> data_;
  size_t size_;
};

}  // namespace hashnms
