// The families of hash functions that the latest calls have used: kept for the next ones, for they hold tables.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include "hash/iou_hash.hpp"
#include "settings.hpp"

namespace hashnms::bindings {

namespace nb = nanobind;

// To be used while Python's lock is held.
class Families {
 public:
  // Null if alpha and K are none of a family.
  static std::shared_ptr<const HashFamily> find(nb::handle alpha, nb::handle num_hashes) {
    const auto ratio = number_in(alpha, 0.0, 1.0);
    const auto count = count_of(num_hashes);
    if (!ratio || *ratio == 0.0 || *ratio == 1.0 || !count || *count == 0 || *count > HashFamily::kMostHashes)
      return nullptr;
    const auto kept = std::find_if(latest_.begin(), latest_.end(), [&](const auto& family) {
      return family && family->alpha() == *ratio && family->size() == *count;
    });
    return kept != latest_.end() ? *kept : make(*ratio, *count);
  }

 private:
  static std::shared_ptr<const HashFamily> make(double alpha, size_t count) {
    auto family = std::make_shared<const HashFamily>(alpha, count);
    latest_[next_++ % latest_.size()] = family;
    return family;
  }

  static inline std::array<std::shared_ptr<const HashFamily>, 8> latest_;
  static inline size_t next_ = 0;
};

}  // namespace hashnms::bindings
