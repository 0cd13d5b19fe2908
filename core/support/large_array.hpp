// An array for as many items as there are boxes. Where it is large its pages are asked for as huge ones: ten million
// boxes otherwise spend more time in page faults than in anything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "support/spare_blocks.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace hashnms {

enum class Filled { no, with_zeros };
enum class Pages { huge, small };  // small where little of a large array will be used

// Zeros from the system that take no memory until they are used. What malloc gives has often been used before, and
// would be held in vain while other arrays take more.
class FreshPages {
 public:
#if defined(__linux__)
  static void* take(size_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    return data;
  }
  static void give(void* data, size_t bytes) { munmap(data, bytes); }
#else
  static void* take(size_t bytes) {
    void* data = std::calloc(bytes, 1);
    if (!data) throw std::bad_alloc();
    return data;
  }
  static void give(void* data, size_t) { std::free(data); }
#endif
};

template <class T>
class LargeArray {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  explicit LargeArray(size_t size, Filled filled = Filled::no, Pages pages = Pages::huge)
      : data_(allocate(size * sizeof(T), filled, pages), Free{size * sizeof(T), pages}), size_(size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t kHugePage = 2 << 20;
    const auto begin = (reinterpret_cast<uintptr_t>(data_.get()) + kHugePage - 1) / kHugePage * kHugePage;
    const auto end = reinterpret_cast<uintptr_t>(data_.get() + size) / kHugePage * kHugePage;
    const bool wanted = pages == Pages::huge && begin < end;
    if (wanted) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // only advice
#endif
  }

  size_t size() const { return size_; }
  void shrink(size_t size) { size_ = size; }  // to the first items; the memory stays
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
    size_t bytes;
    Pages pages;
    void operator()(T* data) const {
      pages == Pages::small ? FreshPages::give(data, bytes) : SpareBlocks::give(data, bytes);
    }
  };

  static T* allocate(size_t bytes, Filled filled, Pages pages) {
    if (bytes == 0) return nullptr;
    if (pages == Pages::small) return static_cast<T*>(FreshPages::take(bytes));
    void* data = SpareBlocks::take(bytes);
    if (data && filled == Filled::with_zeros) std::memset(data, 0, bytes);
    const size_t rounded = SpareBlocks::rounded(bytes);
    if (!data) data = filled == Filled::with_zeros ? std::calloc(rounded, 1) : std::malloc(rounded);
    if (!data) throw std::bad_alloc();
    return static_cast<T*>(data);
  }

  std::unique_ptr<T, Free> data_;
  size_t size_;
};

}  // namespace hashnms
