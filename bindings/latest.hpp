// A cache of the tables that the latest calls used: making one takes longer than hashing ten boxes.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <tuple>

#include "hash/iou_hash.hpp"

namespace hashnms::bindings {

// Values that are made from parameters. Use it only while holding Python's lock. A free-threaded Python has none: there
// the mutex guards it.
template <class Value, class... Parameters>
class Latest {
 public:
  static std::shared_ptr<const Value> find(Parameters... parameters) {
    const std::tuple key(parameters...);
    const nanobind::ft_lock_guard lock(mutex_);
    const auto kept = std::find_if(entries_.begin(), entries_.end(),
                                   [&](const Entry& entry) { return entry.value && entry.key == key; });
    if (kept != entries_.end()) return kept->value;
    Entry& oldest = entries_[next_++ % entries_.size()];
    oldest = {key, std::make_shared<const Value>(parameters...)};
    return oldest.value;
  }

 private:
  struct Entry {
    std::tuple<Parameters...> key;
    std::shared_ptr<const Value> value;
  };
  static inline nanobind::ft_mutex mutex_;
  static inline std::array<Entry, 8> entries_;
  static inline size_t next_ = 0;
};

using Families = Latest<HashFamily, double, size_t>;   // by alpha and K
using CellTables = Latest<CellTable, double, double>;  // by alpha and W_0

}  // namespace hashnms::bindings
