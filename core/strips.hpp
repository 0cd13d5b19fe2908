// The boxes of a call divided among threads: into strips of the plane, or into ranges of labels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "box.hpp"
#include "input.hpp"
#include "label_ids.hpp"

namespace hashnms {

// Strips along one axis. Two boxes overlap only if both lie in one strip, or one of them crosses a border. Labels are
// an axis like x and y, one that no box crosses a border of.
class Strips {
 public:
  enum class Axis { x, y, label };

  // Where a box lies along the axis.
  struct Span {
    double from, to;
  };

  // Of about equal numbers of boxes, along the axis that promises the least time; one strip if none promises any gain.
  // All from a sample of the boxes.
  template <class T, class Score>
  static Strips dividing(const Input<T, Score>& input, const LabelIds<T>& ids, size_t strips) {
    Strips best;
    double best_cost = kWorthwhile;
    if (strips < 2) return best;
    for (const Axis axis : {Axis::x, Axis::y, Axis::label}) {
      if (axis == Axis::label && !input.labels) continue;
      Strips some(axis);
      std::vector<Span> spans;
      for (size_t k = 0; k < kSample; ++k) {
        const size_t row = input.sampled_row(k);
        spans.push_back(some.span(input.corners(row), ids[row]));
      }
      some.place_borders(spans, strips);
      const double cost = some.cost(spans);
      if (cost < best_cost) best = some, best_cost = cost;
    }
    return best;
  }

  size_t count() const { return borders_.size() + 1; }

  template <class T>
  Span span(const Corners<T>& box, LabelId<T> label) const {
    switch (axis_) {
      case Axis::x:
        return {double(box.x1), double(box.x2)};
      case Axis::y:
        return {double(box.y1), double(box.y2)};
      default:
        return {double(label), double(label)};
    }
  }

  // Calls use(row, span) for every row of the input.
  template <class T, class Score, class Use>
  void for_each_span(const Input<T, Score>& input, const LabelIds<T>& ids, const Use& use) const {
    const auto go = [&](auto span_of) {
      for (size_t row = 0; row < input.count; ++row) use(row, span_of(row));
    };
    // The axis is chosen outside of the loop.
    if (axis_ == Axis::label) {
      go([&](size_t row) { return Span{double(ids[row]), double(ids[row])}; });
    } else if (axis_ == Axis::x) {
      go([&](size_t row) { return Span{double(input.corners(row).x1), double(input.corners(row).x2)}; });
    } else {
      go([&](size_t row) { return Span{double(input.corners(row).y1), double(input.corners(row).y2)}; });
    }
  }

  // A box belongs to the strip it begins in and to those whose first border it crosses.
  auto touching(size_t strip) const {
    return [begin = begin(strip), end = end(strip)](Span span) {
      return (span.from < end) & ((span.from >= begin) | (span.to > begin));
    };
  }
  bool touches(size_t strip, Span span) const { return touching(strip)(span); }
  bool crosses(size_t strip, Span span) const { return span.from < begin(strip) || span.to > end(strip); }

 private:
  static constexpr size_t kSample = 1024;
  static constexpr double kWorthwhile = 0.7;  // of the time that one strip takes

  Strips() = default;
  explicit Strips(Axis axis) : axis_(axis) {}

  double begin(size_t strip) const {
    return strip == 0 ? -std::numeric_limits<double>::infinity() : borders_[strip - 1];
  }
  double end(size_t strip) const {
    return strip == borders_.size() ? std::numeric_limits<double>::infinity() : borders_[strip];
  }

  void place_borders(const std::vector<Span>& spans, size_t strips) {
    std::vector<double> middles;
    for (const Span& span : spans) middles.push_back(0.5 * span.from + 0.5 * span.to);
    std::sort(middles.begin(), middles.end());
    for (size_t k = 1; k < strips; ++k) borders_.push_back(middles[k * middles.size() / strips]);
  }

  // The share of the boxes in the fullest strip, and of those that cross a border: these are done again by one thread.
  double cost(const std::vector<Span>& spans) const {
    size_t fullest = 0, crossing = 0;
    for (size_t strip = 0; strip < count(); ++strip) {
      size_t inside = 0;
      for (const Span& span : spans) {
        inside += touches(strip, span);
        crossing += touches(strip, span) && crosses(strip, span);
      }
      fullest = std::max(fullest, inside);
    }
    return static_cast<double>(fullest + 2 * crossing) / static_cast<double>(spans.size());
  }

  Axis axis_ = Axis::x;
  std::vector<double> borders_;
};

}  // namespace hashnms
