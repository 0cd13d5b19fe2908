// The fused boxes of clusters, which move as clusters grow, and a search for the one that overlaps a box most.
//
// Fused boxes are filed by shape (the octaves of width and height) and by cell of the centre. IoU > t needs
// t <= w1/w2 <= 1/t, the same for heights and areas, and |dx| <= (w1 + w2) / 2 * (1 - t) / (1 + t), the same for dy: so
// a box searches a few cells of a few shapes. The best IoU found so far replaces t. If a box would have to search more
// cells than a shape has boxes, as at low thresholds, it tries all boxes of the shape.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "boxes/box.hpp"
#include "boxes/cells.hpp"
#include "boxes/scan.hpp"
#include "support/dispatch.hpp"
#include "support/large_array.hpp"
#include "support/seeds.hpp"
#include "support/tuning.hpp"
#include "support/work.hpp"

namespace hashnms {

class FusedBoxes {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // For up to `most` clusters of boxes with these extents.
  FusedBoxes(double iou_threshold, const Extents& extents, size_t most)
      : threshold_(iou_threshold), finer_(finer_for(iou_threshold)), boxes_(most), filed_(most) {
    for (int axis = 0; axis < 2; ++axis) {
      const auto [least, greatest] = extents.sizes[axis];
      farthest_[axis] = std::max(extents.centers[axis].farthest(), std::numeric_limits<double>::min());
      if (!(least <= greatest)) continue;  // no box has a size
      first_octave_[axis] = exponent_of(least);
      octaves_[axis] = exponent_of(greatest) - first_octave_[axis] + 1;
    }
    shape_places_ = LargeArray<uint32_t>(static_cast<size_t>(octaves_[0] * octaves_[1]), Filled::with_zeros);
  }

  size_t size() const { return size_; }
  const Corners<double>& operator[](size_t cluster) const { return boxes_[cluster].corners; }

  // Prepares for the boxes of another label.
  void clear() {
    size_ = 0;
    is_filed_ = false;
    for (const Shape& shape : shapes_) shape_places_[shape.key] = 0;
    shapes_.clear();
  }

  // Adds a cluster.
  void add(const Corners<double>& corners) {
    boxes_[size_++] = {corners, corners.area(), kNone};
    if (is_filed_) {
      file(static_cast<uint32_t>(size_ - 1));
    } else if (size_ > tuning::kFewClusters) {
      file_all();
    }
  }

  void move(uint32_t cluster, const Corners<double>& corners) {
    boxes_[cluster].corners = corners;
    boxes_[cluster].area = corners.area();
    if (!is_filed_) return;
    const Filed& filed = filed_[cluster];
    if (filed.shape != kNone && corners.has_area()) {
      const Shape& shape = shapes_[filed.shape];
      if (shape.key == key_of(corners) && filed.cell == cell_of(shape, corners)) return;
    }
    if (filed.shape != kNone) remove(cluster);
    file(cluster);
  }

  // Prefetches the cell that a box will search first, and returns its hash.
  uint32_t fetch_cell(const Corners<double>& corners) const {
    if (!is_filed_) return 0;
    const uint32_t key = key_of(corners);
    const Shape* const shape = shape_at(key);
    if (!shape) return 0;
    const Cell cell = cell_of(*shape, corners);
    const uint32_t hash = hash_of(key, cell.x, cell.y);
    prefetch(&slots_[place_of(hash)]);
    return hash;
  }

  // Prefetches the first box of a cell that has been prefetched, and returns its cluster: a guess, 0 if there is none.
  uint32_t fetch_box(uint32_t hash) const {
    if (!is_filed_) return 0;
    const Slot& slot = slots_[place_of(hash)];
    if (slot.hash != hash || slot.head <= 1) return 0;
    prefetch(&boxes_[slot.head - 2]);
    prefetch(&filed_[slot.head - 2]);
    return slot.head - 2;
  }

  // The cluster whose fused box has the greatest IoU above the threshold with the box, ties to the earliest; or kNone.
  uint32_t find(const Corners<double>& corners) const {
    if (!corners.has_area()) return kNone;
    Query query{corners, corners.area(), kNone, threshold_};
    if (!is_filed_) {
      for (uint32_t cluster = 0; cluster < size_; ++cluster) compare(cluster, query);
      return query.best;
    }
    if (const Shape* const own = shape_at(key_of(corners))) {  // where most boxes find their cluster
      const Cell cell = cell_of(*own, corners);
      compare_cell(hash_of(own->key, cell.x, cell.y), query);
    }
    // An area near the least double is rounded coarsely, and so is its IoU (greedy/overlap_rule.hpp).
    const double rounded = query.area < 1e-280 ? query.iou / (3.0 + 2.0 * query.iou) : query.iou;
    const double least = rounded < 1e-20 ? 0.0 : rounded * kLess;
    const auto [w_first, w_last] = octaves_near(corners.x2 - corners.x1, 0, least);
    const auto [h_first, h_last] = octaves_near(corners.y2 - corners.y1, 1, least);
    if (static_cast<size_t>(w_last - w_first + 1) * static_cast<size_t>(h_last - h_first + 1) > shapes_.size()) {
      for (const Shape& shape : shapes_) search(shape, least, query);
      return query.best;
    }
    for (int w = w_first; w <= w_last; ++w) {
      for (int h = h_first; h <= h_last; ++h) {
        const Shape* const shape = shape_at(static_cast<uint32_t>(w * octaves_[1] + h));
        if (shape) search(*shape, least, query);
      }
    }
    return query.best;
  }

 private:
  static constexpr double kLess = 1.0 - 1e-9;  // allows for the rounding of an IoU and a threshold

  struct Box {
    Corners<double> corners;
    double area;
    uint32_t next;  // the next box in its cell
  };
  struct Cell {
    int64_t x, y;
    bool operator==(const Cell&) const = default;
  };
  struct Filed {
    uint32_t shape;  // kNone if it has no area
    uint32_t place;  // among the boxes of the shape
    Cell cell;
  };
  struct Shape {
    uint32_t key;
    double least[2], greatest[2];  // sizes: width and height
    double inverse_pitch[2];       // of cells
    std::vector<uint32_t> clusters;
  };
  struct Slot {
    uint32_t hash, head;  // head: 0 if free, 1 if the cell has become empty, otherwise the first cluster + 2
  };
  struct Query {
    const Corners<double>& corners;
    double area;
    uint32_t best;  // so far, or kNone
    double iou;     // of the best; initially the threshold
  };

  static int exponent_of(double size) { return static_cast<int>(std::bit_cast<uint64_t>(size) >> 52 & 0x7ff) - 1023; }

  // Cells are as large as the smallest box of their shape, or 2^finer times smaller: at high thresholds, only boxes
  // with near centres overlap enough.
  static int finer_for(double iou_threshold) {
    const double reach = (1.0 - iou_threshold) / (1.0 + iou_threshold);
    return std::clamp(-std::ilogb(std::max(reach, 0x1p-8)) - 2, 0, 6);
  }

  // The size of a fused box may be rounded to less than that of any box: it is filed in the first octave.
  int octave_of(double size, int axis) const {
    return std::clamp(exponent_of(size) - first_octave_[axis], 0, octaves_[axis] - 1);
  }

  uint32_t key_of(const Corners<double>& box) const {
    return static_cast<uint32_t>(octave_of(box.x2 - box.x1, 0) * octaves_[1] + octave_of(box.y2 - box.y1, 1));
  }

  const Shape* shape_at(uint32_t key) const {
    const uint32_t place = shape_places_[key];
    return place == 0 ? nullptr : &shapes_[place - 1];
  }

  // The octaves in use whose sizes are from `least` times this size to this size / `least`.
  std::pair<int, int> octaves_near(double size, int axis, double least) const {
    if (least == 0.0) return {first_used_[axis], last_used_[axis]};
    return {std::max(octave_of(size * least * kLess, axis), first_used_[axis]),
            std::min(octave_of(std::min(size / (least * kLess), 1e308), axis), last_used_[axis])};
  }

  static Cell cell_of(const Shape& shape, const Corners<double>& box) {
    return {cell_at(0.5 * box.x1 + 0.5 * box.x2, shape.inverse_pitch[0]),
            cell_at(0.5 * box.y1 + 0.5 * box.y2, shape.inverse_pitch[1])};
  }

  // Cells with the same hash share a chain. That is harmless, because the IoU of each pair is computed.
  uint32_t hash_of(uint32_t key, int64_t x, int64_t y) const {
    const uint64_t sum = key * seed_ + static_cast<uint64_t>(x) * seed_x_ + static_cast<uint64_t>(y) * seed_y_;
    const auto hash = static_cast<uint32_t>(sum >> 32);
    return (hash ^ (hash >> 15)) * 0x2c1b3c6du;
  }

  size_t place_of(uint32_t hash) const { return hash >> shift_; }
  size_t following(size_t place) const { return (place + 1) & (slots_.size() - 1); }

  void file_all() {
    is_filed_ = true;
    for (int axis = 0; axis < 2; ++axis) {
      first_used_[axis] = octaves_[axis];
      last_used_[axis] = -1;
    }
    new_table(10);
    for (uint32_t cluster = 0; cluster < size_; ++cluster) file(cluster);
  }

  void file(uint32_t cluster) {
    Box& box = boxes_[cluster];
    Filed& filed = filed_[cluster];
    filed.shape = kNone;
    if (!box.corners.has_area()) return;
    const uint32_t key = key_of(box.corners);
    if (shape_places_[key] == 0) add_shape(key);
    filed.shape = shape_places_[key] - 1;
    Shape& shape = shapes_[filed.shape];
    filed.place = static_cast<uint32_t>(shape.clusters.size());
    shape.clusters.push_back(cluster);
    filed.cell = cell_of(shape, box.corners);
    uint32_t& head = slot_at(hash_of(key, filed.cell.x, filed.cell.y)).head;
    box.next = head > 1 ? head - 2 : kNone;
    head = cluster + 2;
  }

  void remove(uint32_t cluster) {
    const Filed& filed = filed_[cluster];
    Shape& shape = shapes_[filed.shape];
    const uint32_t last = shape.clusters.back();
    shape.clusters[filed.place] = last;
    filed_[last].place = filed.place;
    shape.clusters.pop_back();
    uint32_t& head = slot_at(hash_of(shape.key, filed.cell.x, filed.cell.y)).head;
    const uint32_t next = boxes_[cluster].next;
    if (head == cluster + 2) {
      head = next == kNone ? 1 : next + 2;
      return;
    }
    uint32_t before = head - 2;
    while (boxes_[before].next != cluster) before = boxes_[before].next;
    boxes_[before].next = next;
  }

  void add_shape(uint32_t key) {
    Shape& shape = shapes_.emplace_back();
    shape_places_[key] = static_cast<uint32_t>(shapes_.size());
    shape.key = key;
    for (int axis = 0; axis < 2; ++axis) {
      const auto columns = static_cast<uint32_t>(octaves_[1]);
      const int octave = static_cast<int>(axis == 0 ? key / columns : key % columns);
      const int exponent = first_octave_[axis] + octave;
      shape.least[axis] = octave == 0 ? 0.0 : std::ldexp(1.0, exponent);
      shape.greatest[axis] = exponent >= 1023 ? std::numeric_limits<double>::max() : std::ldexp(1.0, exponent + 1);
      // Not finer than centres are rounded: a search would reach over many cells.
      const int finer = std::clamp(50 + exponent - std::ilogb(farthest_[axis]), 0, finer_);
      shape.inverse_pitch[axis] = std::ldexp(1.0, std::min(finer - exponent, 1022));
      first_used_[axis] = std::min(first_used_[axis], octave);
      last_used_[axis] = std::max(last_used_[axis], octave);
    }
  }

  // The slot of the hash; a new one if there is none.
  Slot& slot_at(uint32_t hash) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    size_t place = place_of(hash);
    while (slots_[place].head != 0 && slots_[place].hash != hash) place = following(place);
    Slot& slot = slots_[place];
    if (slot.head == 0) {
      slot = {hash, 1};
      note(hash);
    }
    return slot;
  }

  void note(uint32_t hash) {
    const uint32_t bit = hash >> filter_shift_;
    filter_[bit / 64] |= uint64_t(1) << bit % 64;
    ++used_;
  }

  void new_table(int log_size) {
    slots_ = LargeArray<Slot>(size_t(1) << log_size, Filled::with_zeros);
    shift_ = 32 - log_size;
    filter_shift_ = std::max(shift_ - 2, 0);
    filter_ = LargeArray<uint64_t>(size_t(1) << (32 - filter_shift_ - 6), Filled::with_zeros);
    used_ = 0;
  }

  // Cells that have become empty are dropped.
  void grow() {
    size_t occupied = 0;
    for (const Slot& slot : slots_) occupied += slot.head > 1;
    const LargeArray<Slot> old = std::exchange(slots_, LargeArray<Slot>(0));
    new_table(32 - shift_ + (4 * occupied > old.size()));
    for (const Slot& slot : old) {
      if (slot.head <= 1) continue;
      size_t place = place_of(slot.hash);
      while (slots_[place].head != 0) place = following(place);
      slots_[place] = slot;
      note(slot.hash);
    }
  }

  void compare(uint32_t cluster, Query& query) const {
    const Box& box = boxes_[cluster];
    const double found = iou(query.corners, query.area, box.corners, box.area);
    if (found > query.iou || (found == query.iou && query.best != kNone && cluster < query.best)) {
      query.iou = found;
      query.best = cluster;
    }
  }

  // Tries the boxes of a shape that can have an IoU of at least `least` with the box.
  void search(const Shape& shape, double least, Query& query) const {
    count_work();
    const Corners<double>& box = query.corners;
    const double sizes[2] = {box.x2 - box.x1, box.y2 - box.y1};
    const double greatest_area = shape.greatest[0] * shape.greatest[1];
    if (query.area * least * kLess > greatest_area || shape.least[0] * shape.least[1] * least * kLess > query.area) {
      return;
    }
    const double centers[2] = {0.5 * box.x1 + 0.5 * box.x2, 0.5 * box.y1 + 0.5 * box.y2};
    const double share = (1.0 - least) / (1.0 + least);
    int64_t first[2], last[2];
    double cells = 1;
    for (int axis = 0; axis < 2; ++axis) {
      if (sizes[axis] * least * kLess > shape.greatest[axis] || shape.least[axis] * least * kLess > sizes[axis]) return;
      // Both centres, and the distance added to one, have relative rounding errors of at most 2^-53.
      const double apart = (0.5 * sizes[axis] + 0.5 * shape.greatest[axis]) * share;
      const double reach = apart + (std::abs(centers[axis]) + apart) * 0x1p-50;
      first[axis] = cell_at(centers[axis] - reach, shape.inverse_pitch[axis]);
      last[axis] = cell_at(centers[axis] + reach, shape.inverse_pitch[axis]);
      cells *= static_cast<double>(last[axis] - first[axis]) + 1.0;
    }
    if (cells > static_cast<double>(shape.clusters.size())) {
      for (const uint32_t cluster : shape.clusters) compare(cluster, query);
      return;
    }
    for (int64_t y = first[1]; y <= last[1]; ++y) {
      for (int64_t x = first[0]; x <= last[0]; ++x) {
        compare_cell(hash_of(shape.key, x, y), query);
      }
    }
  }

  void compare_cell(uint32_t hash, Query& query) const {
    count_work();
    const uint32_t bit = hash >> filter_shift_;
    if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return;
    size_t place = place_of(hash);
    while (slots_[place].head != 0 && slots_[place].hash != hash) place = following(place);
    if (slots_[place].head <= 1) return;
    for (uint32_t cluster = slots_[place].head - 2; cluster != kNone; cluster = boxes_[cluster].next) {
      compare(cluster, query);
    }
  }

  double threshold_;
  int finer_;                                       // see finer_for()
  double farthest_[2];                              // the farthest centres from 0
  int first_octave_[2] = {}, octaves_[2] = {1, 1};  // of sizes
  size_t size_ = 0;
  LargeArray<Box> boxes_;
  bool is_filed_ = false;  // whether there are enough clusters to file them; otherwise all below is empty
  LargeArray<Filed> filed_;
  std::vector<Shape> shapes_;
  LargeArray<uint32_t> shape_places_{0};  // key -> 1 + index in shapes_, or 0
  int first_used_[2] = {}, last_used_[2] = {};
  LargeArray<Slot> slots_{0};
  LargeArray<uint64_t> filter_{0};  // a bit for each hash that has a slot: most searched cells have none
  int shift_ = 0, filter_shift_ = 0;
  size_t used_ = 0;
  uint64_t seed_ = seed(3), seed_x_ = seed(1), seed_y_ = seed(2);
};

}  // namespace hashnms
