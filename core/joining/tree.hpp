// A tree of boxes that finds the first box by rank that overlaps a given box.
//
// A leaf holds neighbours of similar sizes. A node knows the cover and the best box of each child. If that box overlaps
// the given box, the rest of the child is not searched. If no box of the child can overlap it, the child is skipped. So
// few children are entered: those on the border of the overlap that have a better rank than the one found so far. Where
// all boxes overlap, the root answers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/covers.hpp"
#include "boxes/lanes.hpp"
#include "boxes/metric.hpp"
#include "boxes/neighbourhoods.hpp"
#include "support/dispatch.hpp"
#include "support/tuning.hpp"

namespace hashnms {

template <class T>
struct RankedPlace {
  T corners[4];
  uint32_t rank;

  Corners<T> box() const { return {corners[0], corners[1], corners[2], corners[3]}; }
};

// Boxes join if they overlap by more than a threshold.
template <class T>
struct JoinRule {
  Metric metric;
  T threshold;
};

namespace detail {

// Some boxes, the best rank first; unused lanes have no area.
template <class T, size_t lanes>
struct RankedLanes {
  BoxLanes<T, lanes> boxes;
  uint32_t ranks[lanes];

  void set(size_t k, const RankedPlace<T>& place) {
    boxes.set(k, place.box());
    ranks[k] = place.rank;
  }

  // Which of the kTogether boxes from `begin` on overlap the box.
  template <Metric metric>
  HASHNMS_INLINE uint32_t overlapping(const Corners<T>& box, T area, T threshold, size_t begin) const {
    uint32_t mask = 0;
    for (size_t k = 0; k < kTogether; ++k) {
      const Corners<T> other = boxes.get(begin + k);
      const bool overlaps = overlap_of<metric>(box, area, other, other.area()) > threshold;
      mask |= overlaps ? uint32_t(1) << k : 0u;
    }
    return mask;
  }

  // The first rank that overlaps the box, or `before` if that is less.
  template <Metric metric>
  HASHNMS_INLINE uint32_t first(const Corners<T>& box, T threshold, uint32_t before) const {
    const T area = box.area();
    for (size_t begin = 0; begin < lanes && ranks[begin] < before; begin += kTogether) {
      const uint32_t mask = overlapping<metric>(box, area, threshold, begin);
      if (mask != 0) return std::min(before, ranks[begin + static_cast<size_t>(std::countr_zero(mask))]);
    }
    return before;
  }
};

template <class T>
using JoinLeaf = RankedLanes<T, tuning::kLeafBoxes>;

template <class T>
struct JoinNode {
  static constexpr size_t kChildren = tuning::kNodeChildren;
  RankedLanes<T, kChildren> best;  // the best box of each child, by rank
  CoverLanes<T, kChildren> covers;
  int32_t children[kChildren];  // their places in the tree, see JoinTree::Part

  // Bits of the children that may have an overlapping box, and of those whose best box overlaps the box.
  struct Asked {
    uint32_t entered, overlapping;
  };
  template <Metric metric>
  HASHNMS_INLINE Asked asked(const Corners<T>& box, T threshold) const {
    const T area = box.area();
    uint32_t overlapping = 0;
    for (size_t begin = 0; begin < kChildren; begin += kTogether) {
      overlapping |= best.template overlapping<metric>(box, area, threshold, begin) << begin;
    }
    return {covers.template meeting<metric>(box, threshold), overlapping};
  }
};

// Overloads, because vector clones of a template are not possible.
#define HASHNMS_JOINS(T)                                                                                             \
  HASHNMS_VECTOR_CLONES static uint32_t first_in_vectors(const JoinLeaf<T>& leaf, const JoinRule<T>& rule,           \
                                                         const Corners<T>& box, uint32_t before) {                   \
    return with_metric(rule.metric, [&]<Metric metric>() HASHNMS_INLINE_LAMBDA {                                     \
      return leaf.template first<metric>(box, rule.threshold, before);                                               \
    });                                                                                                              \
  }                                                                                                                  \
  HASHNMS_VECTOR_CLONES static JoinNode<T>::Asked asked_in_vectors(const JoinNode<T>& node, const JoinRule<T>& rule, \
                                                                   const Corners<T>& box) {                          \
    return with_metric(rule.metric, [&]<Metric metric>() HASHNMS_INLINE_LAMBDA {                                     \
      return node.template asked<metric>(box, rule.threshold);                                                       \
    });                                                                                                              \
  }
HASHNMS_JOINS(float)
HASHNMS_JOINS(double)
#undef HASHNMS_JOINS

}  // namespace detail

template <class T>
class JoinTree {
 public:
  // Takes one or more boxes that can overlap others, and reorders them.
  JoinTree(RankedPlace<T>* boxes, size_t count, const JoinRule<T>& rule) : rule_(rule) {
    leaves_.reserve(count / kLeafBoxes * 5 / 4 + 1);  // most leaves become full
    root_ = add(boxes, boxes + count).place;
  }

  size_t leaves() const { return leaves_.size(); }

  // The first rank that overlaps a box, if that is less than `before`, else that.
  uint32_t first(const Corners<T>& box, uint32_t before) const { return first_in(root_, box, before); }

  // Calls use(rank, first) for each box of a leaf: `first` is the best rank that overlaps it, or its own.
  template <class Use>
  void for_each_first(size_t number, const Use& use) const {
    const Leaf& leaf = leaves_[number];
    for (size_t k = 0; k < kLeafBoxes && leaf.ranks[k] != kNobody.rank; ++k) {
      const Corners<T> box = leaf.boxes.get(k);
      // A rank found among its neighbours avoids most of the search.
      const uint32_t near = detail::first_in_vectors(leaf, rule_, box, leaf.ranks[k]);
      use(leaf.ranks[k], first_in(root_, box, near));
    }
  }

 private:
  using Leaf = detail::JoinLeaf<T>;
  using Node = detail::JoinNode<T>;
  static constexpr size_t kLeafBoxes = tuning::kLeafBoxes;
  static constexpr RankedPlace<T> kNobody{{}, ~uint32_t(0)};

  // What a node stores about a child.
  struct Part {
    Cover<T> cover;
    RankedPlace<T> best = kNobody;
    int32_t place = 0;  // of a node, or ~place of a leaf
  };

  Part add(RankedPlace<T>* begin, RankedPlace<T>* end) {
    return static_cast<size_t>(end - begin) <= kLeafBoxes ? add_leaf(begin, end) : add_node(begin, end);
  }

  Part add_leaf(RankedPlace<T>* begin, RankedPlace<T>* end) {
    std::sort(begin, end, [](const auto& a, const auto& b) { return a.rank < b.rank; });
    Part part{{}, *begin, ~static_cast<int32_t>(leaves_.size())};
    Leaf& leaf = leaves_.emplace_back();
    for (size_t k = 0; k < kLeafBoxes; ++k) {
      leaf.set(k, begin + k < end ? begin[k] : kNobody);
      if (begin + k < end) part.cover.include(Cover<T>(begin[k].box()));
    }
    return part;
  }

  Part add_node(RankedPlace<T>* begin, RankedPlace<T>* end) {
    Part children[Node::kChildren];
    Part* const last = add_children(begin, end, Node::kChildren, children);
    std::sort(children, last, [](const Part& a, const Part& b) { return a.best.rank < b.best.rank; });
    Part part{{}, children[0].best, static_cast<int32_t>(nodes_.size())};
    Node& node = nodes_.emplace_back();
    for (size_t k = 0; k < Node::kChildren; ++k) {
      node.best.set(k, children[k].best);
      node.covers.set(k, children[k].cover);
      node.children[k] = children[k].place;
      part.cover.include(children[k].cover);
    }
    return part;
  }

  // Adds up to `most` children, which is a power of two; returns where they end.
  Part* add_children(RankedPlace<T>* begin, RankedPlace<T>* end, size_t most, Part* children) {
    if (most == 1 || static_cast<size_t>(end - begin) <= kLeafBoxes) {
      *children = add(begin, end);
      return children + 1;
    }
    RankedPlace<T>* const middle = halved(begin, end, kLeafBoxes);
    return add_children(middle, end, most / 2, add_children(begin, middle, most / 2, children));
  }

  // The first rank in a node or leaf that overlaps the box, if that is less than `before`, else that.
  uint32_t first_in(int32_t place, const Corners<T>& box, uint32_t before) const {
    if (place < 0) return detail::first_in_vectors(leaves_[static_cast<size_t>(~place)], rule_, box, before);
    const Node& node = nodes_[static_cast<size_t>(place)];
    const auto [entered, overlapping] = detail::asked_in_vectors(node, rule_, box);
    for (uint32_t left = entered | overlapping; left != 0; left &= left - 1) {
      const auto k = static_cast<size_t>(std::countr_zero(left));
      if (node.best.ranks[k] >= before) return before;
      if (overlapping >> k & 1) return node.best.ranks[k];
      before = first_in(node.children[k], box, before);
    }
    return before;
  }

  JoinRule<T> rule_;
  std::vector<Leaf> leaves_;
  std::vector<Node> nodes_;
  int32_t root_;
};

}  // namespace hashnms
