// The boxes kept so far, in trees: for boxes of sizes so different that cells would not tell them apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/labels.hpp"
#include "boxes/metric.hpp"
#include "greedy/kept_chains.hpp"
#include "greedy/ranked_boxes.hpp"
#include "joining/tree.hpp"

namespace hashnms {

// For each label, the latest boxes in a list and all others in trees. A full list becomes a tree, together with the
// trees that are not larger. So there are few trees, each about twice as large as the next, and a box takes part in few
// of them one after another. Earlier trees have earlier boxes.
template <class T, Metric metric>
class KeptForest {
 public:
  explicit KeptForest(T threshold) : rule_{metric, threshold} {}

  bool empty() const { return labels_.empty(); }

  // Positions increase.
  void add(const Corners<T>& box, LabelId<T> label, uint32_t position) {
    OfLabel& boxes = labels_[label];
    boxes.latest.push_back({{box.x1, box.y1, box.x2, box.y2}, position});
    if (boxes.latest.size() == kLatest) boxes.plant(rule_);
  }

  // Lowers `found` to the position of the first box that suppresses the query, if that is less.
  void find(const Query<T>& query, uint32_t& found) const {
    const auto place = labels_.find(query.label);
    if (place == labels_.end()) return;
    for (const Grown& grown : place->second.trees) {
      const uint32_t first = grown.tree.first(query.box, found);
      if (first < found) {
        found = first;
        return;
      }
    }
    for (const Place& kept : place->second.latest) {
      const Corners<T> box = kept.box();
      if (kept.rank < found && overlaps_above<metric>(rule_.threshold, query.box, query.area, box, box.area())) {
        found = kept.rank;
        return;
      }
    }
  }

 private:
  using Place = RankedPlace<T>;
  static constexpr size_t kLatest = 64;

  struct Grown {
    std::vector<Place> boxes;
    JoinTree<T> tree;
  };
  struct OfLabel {
    std::vector<Place> latest;
    std::vector<Grown> trees;

    void plant(const JoinRule<T>& rule) {
      std::vector<Place> boxes = std::exchange(latest, {});
      while (!trees.empty() && trees.back().boxes.size() <= boxes.size()) {
        const std::vector<Place>& earlier = trees.back().boxes;
        boxes.insert(boxes.end(), earlier.begin(), earlier.end());
        trees.pop_back();
      }
      JoinTree<T> tree(boxes.data(), boxes.size(), rule);
      trees.push_back({std::move(boxes), std::move(tree)});
    }
  };

  JoinRule<T> rule_;
  std::unordered_map<LabelId<T>, OfLabel> labels_;
};

}  // namespace hashnms
