// The boxes of a call divided into strips of the plane.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/input.hpp"
#include "greedy/overlap_rule.hpp"
#include "support/dispatch.hpp"
#include "support/interrupt.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// Strips along one axis, so small that what is looked up for the boxes of one stays in the cache, and at least one for
// each thread, which takes several that follow each other: its range. One box suppresses another only if both lie in
// one strip, or one of them crosses a border.
class Strips {
 public:
  enum class Axis { x, y };

  // Where a box lies along the axis: the part around its centre that meets that of any box it could suppress, or that
  // could suppress it.
  struct Span {
    double from, to;
  };
  // Of strips: the first, and the one after the last.
  struct Range {
    size_t begin, end;
  };

  // Of about equal numbers of boxes, along the axis that promises the least time; one strip if none promises any gain.
  // All from a sample of the boxes.
  template <class T, class Score>
  static Strips dividing(const Input<T, Score>& input, const OverlapRule<T>& rule, size_t ranges) {
    const size_t strips = ranges * std::max<size_t>(input.count / ranges >> tuning::kLogBoxesPerStrip, 1);
    Strips best;
    double best_cost = ranges > 1 ? tuning::kWorthStrips : tuning::kWorthStripsAlone;
    if (strips < 2) return best;
    for (const Axis axis : {Axis::x, Axis::y}) {
      Strips some(axis, rule.least_iou);
      std::vector<Span> spans;
      for (size_t k = 0; k < kSample; ++k) {
        spans.push_back(some.span(input.corners(input.sampled_row(k))));
      }
      some.place_borders(spans, strips, ranges);
      const double cost = some.cost(spans);
      if (cost < best_cost) best = some, best_cost = cost;
    }
    return best;
  }

  size_t count() const { return count_; }
  size_t ranges() const { return ranges_; }
  Range range(size_t k) const { return {count_ * k / ranges_, count_ * (k + 1) / ranges_}; }

  template <class T>
  Span span(const Corners<T>& box) const {
    return axis_ == Axis::x ? middle_of(box.x1, box.x2) : middle_of(box.y1, box.y2);
  }

  // Calls use(row, span) for every row of the input.
  template <class T, class Score, class Use>
  void for_each_span(const Input<T, Score>& input, const Use& use) const {
    const auto go = [&](auto span_of) {
      for_each_piece(input.count, [&](size_t begin, size_t end) {
        for (size_t row = begin; row < end; ++row) use(row, span_of(row));
      });
    };
    // The axis is chosen outside of the loop.
    if (axis_ == Axis::x) {
      go([&](size_t row) { return middle_of(input.corners(row).x1, input.corners(row).x2); });
    } else {
      go([&](size_t row) { return middle_of(input.corners(row).y1, input.corners(row).y2); });
    }
  }

  // The strip that a place lies in.
  HASHNMS_INLINE size_t strip_at(double place) const {
    size_t strip = 0;
    for (size_t step = begins_.size() / 2; step > 0; step /= 2) {
      strip += begins_[strip + step] <= place ? step : 0;
    }
    return strip;
  }
  double begin(size_t strip) const { return begins_[strip]; }
  double end(size_t strip) const { return strip + 1 < begins_.size() ? begins_[strip + 1] : kInfinity; }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr size_t kSample = 4096;

  Strips() = default;
  Strips(Axis axis, double least_iou) : axis_(axis), reach_((1.0 - least_iou) / (1.0 + least_iou) * (1.0 + 0x1p-40)) {}

  // IoU > t needs |dx| <= (w1 + w2) / 2 * (1 - t) / (1 + t), to which each box adds its part; a little more, for
  // rounding.
  HASHNMS_INLINE Span middle_of(double from, double to) const {
    const double center = 0.5 * from + 0.5 * to;
    const double reach = (0.5 * to - 0.5 * from) * reach_ + std::abs(center) * 0x1p-50;
    return {std::max(from, center - reach), std::min(to, center + reach)};
  }

  void place_borders(const std::vector<Span>& spans, size_t strips, size_t ranges) {
    std::vector<double> middles;
    for (const Span& span : spans) middles.push_back(0.5 * span.from + 0.5 * span.to);
    std::sort(middles.begin(), middles.end());
    count_ = strips, ranges_ = ranges;
    begins_.assign(std::bit_ceil(strips), kInfinity);
    begins_[0] = -kInfinity;
    for (size_t k = 1; k < strips; ++k) begins_[k] = middles[k * middles.size() / strips];
  }

  // The share of the boxes in the fullest range, and how often boxes cross a border and are looked at again: between
  // ranges by one thread.
  double cost(const std::vector<Span>& spans) const {
    std::vector<size_t> boxes(ranges_);
    size_t crossing = 0;
    for (const Span& span : spans) {
      const size_t strip = strip_at(span.from);
      size_t first = 0;
      while (range(first).end <= strip) ++first;
      for (size_t k = first; k < ranges_ && (k == first || span.to > begin(range(k).begin)); ++k) {
        ++boxes[k];
        crossing += k > first ? 4 : 0;
      }
      crossing += strip_at(span.to) - strip;  // it may be carried through many
    }
    return static_cast<double>(*std::max_element(boxes.begin(), boxes.end()) + crossing) /
           static_cast<double>(spans.size());
  }

  Axis axis_ = Axis::x;
  double reach_ = 1.0;
  size_t count_ = 1, ranges_ = 1;
  std::vector<double> begins_{-kInfinity};  // of the strips; filled up to a power of two
};

}  // namespace hashnms
