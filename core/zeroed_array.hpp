// An array that starts as zero bytes. A large one takes its pages zeroed from the system, huge ones where there are
// any, so that a million cells do not cost a page fault every few.
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

template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  explicit ZeroedArray(size_t size) : data_(static_cast<T*>(std::calloc(size, sizeof(T)))), size_(size) {
    if (!data_) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t kHugePage = 2 << 20;
    const auto begin = (reinterpret_cast<uintptr_t>(data_.get()) + kHugePage - 1) / kHugePage * kHugePage;
    const auto end = reinterpret_cast<uintptr_t>(data_.get() + size) / kHugePage * kHugePage;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: may be refused
#endif
  }

  size_t size() const { return size_; }
  T& operator[](size_t k) { return data_.get()[k]; }
  const T& operator[](size_t k) const { return data_.get()[k]; }
  const T* begin() const { return data_.get(); }
  const T* end() const { return data_.get() + size_; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_;
};

}  // namespace hashnms
