// The boxes that take part, label by label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "input.hpp"
#include "label_ids.hpp"
#include "large_array.hpp"
#include "rank.hpp"

namespace hashnms {

struct LabelGroups {
  LargeArray<uint32_t> rows;   // in order within a group
  std::vector<size_t> starts;  // of the groups in them, and their end

  size_t count() const { return starts.size() - 1; }

  // Boxes with min_score or more.
  template <class T, class Score>
  LabelGroups(const Input<T, Score>& input, Score min_score) : rows(input.count), starts{0} {
    size_t taking_part = 0;
    for (size_t row = 0; row < input.count; ++row) {
      rows[taking_part] = static_cast<uint32_t>(row);
      taking_part += input.scores[row] >= min_score;
    }
    rows.shrink(taking_part);
    if (input.labels) sort_by_label(LabelIds<T>(input.labels, input.count));
    if (rows.size() > 0) starts.push_back(rows.size());
  }

 private:
  template <class T>
  void sort_by_label(const LabelIds<T>& ids) {
    Claims<T> claims(rows.size());  // a label id is as wide as T
    for (size_t k = 0; k < rows.size(); ++k) claims[k] = Claim<T>::ranked(ids[rows[k]], rows[k]);
    sort_claims(claims);
    for (size_t k = 0; k < rows.size(); ++k) {
      rows[k] = claims[k].box();
      if (k > 0 && claims[k].rank() != claims[k - 1].rank()) starts.push_back(k);
    }
  }
};

}  // namespace hashnms
