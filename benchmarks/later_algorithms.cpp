// Faster or softer variants of NMS from later papers, each in its simplest form, for comparison. One label at a time.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <vector>

namespace {

struct Box {
  float x1, y1, x2, y2;
  float area() const { return (x2 - x1) * (y2 - y1); }
  float x() const { return 0.5f * (x1 + x2); }
  float y() const { return 0.5f * (y1 + y2); }
};

float iou(const Box& a, const Box& b) {
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (width <= 0 || height <= 0) return 0;
  const float overlap = width * height;
  return overlap / (a.area() + b.area() - overlap);
}

// The boxes by decreasing score, and their rows.
struct Ranked {
  std::vector<int64_t> rows;
  std::vector<Box> boxes;

  Ranked(const float* numbers, const float* scores, size_t count) : rows(count) {
    std::iota(rows.begin(), rows.end(), 0);
    std::stable_sort(rows.begin(), rows.end(), [=](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    const Box* unranked = reinterpret_cast<const Box*>(numbers);
    for (const int64_t row : rows) boxes.push_back(unranked[row]);
  }
  size_t size() const { return rows.size(); }

  size_t write(const std::vector<char>& kept, int64_t* out) const {
    size_t written = 0;
    for (size_t k = 0; k < size(); ++k) {
      if (kept[k]) out[written++] = rows[k];
    }
    return written;
  }
};

}  // namespace

// Fast NMS (Bolya et al., YOLACT, 2019): a box is suppressed by any better one that overlaps it, kept or not.
extern "C" size_t fast_nms(const float* boxes, const float* scores, size_t count, double threshold, int64_t* out) {
  const Ranked ranked(boxes, scores, count);
  std::vector<char> kept(count, true);
  for (size_t k = 0; k < count; ++k) {
    for (size_t better = 0; better < k && kept[k]; ++better) {
      kept[k] = iou(ranked.boxes[better], ranked.boxes[k]) <= threshold;
    }
  }
  return ranked.write(kept, out);
}

// Cluster-NMS (Zheng et al., 2021): repeat Fast NMS, each time with only the remaining boxes suppressing, until nothing
// changes. The result is that of NMS.
extern "C" size_t cluster_nms(const float* boxes, const float* scores, size_t count, double threshold, int64_t* out) {
  const Ranked ranked(boxes, scores, count);
  std::vector<char> kept(count, true), before;
  do {
    before = kept;
    for (size_t k = 0; k < count; ++k) {
      kept[k] = true;
      for (size_t better = 0; better < k && kept[k]; ++better) {
        kept[k] = !before[better] || iou(ranked.boxes[better], ranked.boxes[k]) <= threshold;
      }
    }
  } while (kept != before);
  return ranked.write(kept, out);
}

// Matrix NMS (Wang et al., SOLOv2, 2020), gaussian: a score is lowered once, by the better box that lowers it most,
// relative to how much that box itself can be lowered. Writes all rows by the old scores, and the new scores.
extern "C" size_t matrix_nms(const float* boxes, const float* scores, size_t count, double sigma, int64_t* out,
                             float* lowered) {
  const Ranked ranked(boxes, scores, count);
  std::vector<float> greatest(count, 0);  // greatest IoU with a better box
  for (size_t k = 0; k < count; ++k) {
    double decay = 1;
    for (size_t better = 0; better < k; ++better) {
      const float overlap = iou(ranked.boxes[better], ranked.boxes[k]);
      if (overlap == 0) continue;
      greatest[k] = std::max(greatest[k], overlap);
      decay = std::min(decay, std::exp(-sigma * (overlap * overlap - greatest[better] * greatest[better])));
    }
    lowered[k] = static_cast<float>(scores[ranked.rows[k]] * decay);
  }
  std::copy(ranked.rows.begin(), ranked.rows.end(), out);
  return count;
}

// BOE-NMS (Si et al., 2024): above IoU 0.5 the centre of a suppressed box lies in the suppressing one, so a kept box is
// compared only with boxes whose centres lie between its sides.
extern "C" size_t boe_nms(const float* boxes, const float* scores, size_t count, double threshold, int64_t* out) {
  const Ranked ranked(boxes, scores, count);
  std::vector<std::pair<float, uint32_t>> centers;
  for (size_t k = 0; k < count; ++k) centers.emplace_back(ranked.boxes[k].x(), k);
  std::sort(centers.begin(), centers.end());
  std::vector<char> kept(count, true);
  for (size_t k = 0; k < count; ++k) {
    if (!kept[k]) continue;
    const Box& box = ranked.boxes[k];
    auto other = std::lower_bound(centers.begin(), centers.end(), std::pair(box.x1, uint32_t(0)));
    for (; other != centers.end() && other->first <= box.x2; ++other) {
      if (other->second > k && kept[other->second] && iou(box, ranked.boxes[other->second]) > threshold) {
        kept[other->second] = false;
      }
    }
  }
  return ranked.write(kept, out);
}

// eQSI-NMS (Si et al., 2024): in the order of centres, a box is compared only with the next better box on each side.
extern "C" size_t eqsi_nms(const float* boxes, const float* scores, size_t count, double threshold, int64_t* out) {
  const Ranked ranked(boxes, scores, count);
  std::vector<uint32_t> order(count), waiting;
  std::iota(order.begin(), order.end(), 0);
  const auto center = [&](uint32_t k) { return std::pair(ranked.boxes[k].x(), ranked.boxes[k].y()); };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return center(a) < center(b); });
  std::vector<char> kept(count, true);
  for (int direction = 0; direction < 2; ++direction) {
    waiting.clear();
    for (const uint32_t k : order) {
      for (; !waiting.empty() && waiting.back() > k; waiting.pop_back()) {  // worse boxes have greater ranks
        if (iou(ranked.boxes[k], ranked.boxes[waiting.back()]) > threshold) kept[waiting.back()] = false;
      }
      waiting.push_back(k);
    }
    std::reverse(order.begin(), order.end());
  }
  return ranked.write(kept, out);
}

namespace {

using Window = std::array<int64_t, 4>;  // size, aspect ratio, column and row

struct HashOfWindow {
  size_t operator()(const Window& window) const {
    size_t hash = 0;
    for (const int64_t part : window) hash = (hash ^ static_cast<size_t>(part)) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
  }
};

}  // namespace

// After MaxpoolNMS (Cai et al., 2019; Zhang et al., 2021): boxes are divided into maps by size and aspect ratio, and
// only the best box of each pooling window is left; then the same with windows shifted by half their size.
extern "C" size_t maxpool_nms(const float* boxes, const float* scores, size_t count, double window, int64_t* out) {
  const Ranked ranked(boxes, scores, count);
  std::unordered_map<Window, uint32_t, HashOfWindow> best;
  best.reserve(count);
  std::vector<char> kept(count, true);
  for (const double shift : {0.0, 0.5}) {
    best.clear();
    for (size_t k = 0; k < count; ++k) {
      if (!kept[k]) continue;
      const Box& box = ranked.boxes[k];
      const double width = std::max(box.x2 - box.x1, 1e-6f), height = std::max(box.y2 - box.y1, 1e-6f);
      const int size = int(std::lround(std::log2(width * height) / 2)),
                ratio = int(std::lround(std::log2(height / width)));
      const double pitch_x = window * std::exp2(size - 0.5 * ratio), pitch_y = window * std::exp2(size + 0.5 * ratio);
      const auto column = static_cast<int64_t>(std::floor(box.x() / pitch_x + shift));
      const auto row = static_cast<int64_t>(std::floor(box.y() / pitch_y + shift));
      kept[k] = best.emplace(Window{size, ratio, column, row}, k).second;
    }
  }
  return ranked.write(kept, out);
}
