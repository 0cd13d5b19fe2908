// NMS, gaussian Soft-NMS and HNMS as in their papers: ours are compared with these, and must equal them in every bit.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <vector>

// Greedy NMS: writes the kept rows by decreasing score and returns how many. Labels may be null.
extern "C" size_t plain_nms(const float* boxes, const float* scores, const int64_t* labels, size_t count,
                            double iou_threshold, int64_t* kept) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [=](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  std::vector<float> area(count);
  for (size_t k = 0; k < count; ++k) {
    area[k] = (boxes[4 * k + 2] - boxes[4 * k]) * (boxes[4 * k + 3] - boxes[4 * k + 1]);
  }
  std::vector<bool> removed(count);
  size_t num_kept = 0;
  for (size_t k = 0; k < count; ++k) {
    const int64_t a = order[k];
    if (removed[a]) continue;
    kept[num_kept++] = a;
    for (size_t l = k + 1; l < count; ++l) {
      const int64_t b = order[l];
      if (removed[b] || (labels && labels[a] != labels[b])) continue;
      const float width =
          std::max(0.0f, std::min(boxes[4 * a + 2], boxes[4 * b + 2]) - std::max(boxes[4 * a], boxes[4 * b]));
      const float height =
          std::max(0.0f, std::min(boxes[4 * a + 3], boxes[4 * b + 3]) - std::max(boxes[4 * a + 1], boxes[4 * b + 1]));
      const float overlap = width * height;
      if (static_cast<double>(overlap / (area[a] + area[b] - overlap)) > iou_threshold) removed[b] = true;
    }
  }
  return num_kept;
}

// Selects up to max_output boxes into rows and decayed, and returns how many.
extern "C" size_t plain_soft_nms(const float* boxes, const float* scores, size_t count, double sigma, float min_score,
                                 size_t max_output, int64_t* rows, float* decayed) {
  std::vector<float> x1, y1, x2, y2, score;
  std::vector<uint32_t> row;
  for (size_t k = 0; k < count; ++k) {
    if (scores[k] < min_score) continue;
    x1.push_back(boxes[4 * k]), y1.push_back(boxes[4 * k + 1]);
    x2.push_back(boxes[4 * k + 2]), y2.push_back(boxes[4 * k + 3]);
    score.push_back(scores[k]), row.push_back(static_cast<uint32_t>(k));
  }
  size_t left = score.size(), selected = 0;
  const auto remove = [&](size_t k) {
    --left;
    x1[k] = x1[left], y1[k] = y1[left], x2[k] = x2[left], y2[k] = y2[left], score[k] = score[left], row[k] = row[left];
  };
  while (left > 0 && selected < max_output) {
    size_t best = 0;
    for (size_t k = 1; k < left; ++k) {
      if (score[k] > score[best] || (score[k] == score[best] && row[k] < row[best])) best = k;
    }
    rows[selected] = row[best], decayed[selected] = score[best];
    ++selected;
    const float left_edge = x1[best], top = y1[best], right = x2[best], bottom = y2[best];
    const float area = (right - left_edge) * (bottom - top);
    remove(best);
    for (size_t k = 0; k < left;) {
      const float width = std::min(right, x2[k]) - std::max(left_edge, x1[k]);
      const float height = std::min(bottom, y2[k]) - std::max(top, y1[k]);
      if (width > 0 && height > 0) {
        const float overlap = width * height;
        const double iou = overlap / (area + (x2[k] - x1[k]) * (y2[k] - y1[k]) - overlap);
        score[k] *= static_cast<float>(std::exp(-(iou * iou) / sigma));
        if (score[k] < min_score) {
          remove(k);
          continue;
        }
      }
      ++k;
    }
  }
  return selected;
}

namespace {

using Code = std::array<int64_t, 4>;  // i, j, m, n

struct HashOfCode {
  size_t operator()(const Code& code) const {
    size_t hash = 0;
    for (const int64_t part : code) hash = (hash ^ static_cast<size_t>(part)) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
  }
};

// Half of a code, Eqns. 2 to 7, with a logarithm and a power for each box.
std::array<int64_t, 2> half_code(double size, double center, double alpha, double log_alpha) {
  const double index = std::floor(-std::log(size) / log_alpha + 0.5);
  const double delta = std::pow(alpha, -index) * (1 - alpha) / (1 + alpha);
  return {static_cast<int64_t>(index), static_cast<int64_t>(std::floor(center / delta + 0.5))};
}

}  // namespace

// HNMS with one hash, Alg. 2: the best box of each cell, by decreasing score, into kept; returns how many. All boxes
// must have area.
extern "C" size_t plain_hnms(const float* boxes, const float* scores, size_t count, double alpha, int64_t* kept) {
  const double log_alpha = std::log(alpha);
  std::unordered_map<Code, int64_t, HashOfCode> best;
  best.reserve(count);
  for (size_t row = 0; row < count; ++row) {
    const double x1 = boxes[4 * row], y1 = boxes[4 * row + 1], x2 = boxes[4 * row + 2], y2 = boxes[4 * row + 3];
    const auto [i, m] = half_code(x2 - x1, 0.5 * (x1 + x2), alpha, log_alpha);
    const auto [j, n] = half_code(y2 - y1, 0.5 * (y1 + y2), alpha, log_alpha);
    const auto [cell, is_new] = best.try_emplace(Code{i, j, m, n}, row);
    if (!is_new && scores[cell->second] < scores[row]) cell->second = static_cast<int64_t>(row);
  }
  size_t num_kept = 0;
  for (const auto& [code, row] : best) kept[num_kept++] = row;
  std::sort(kept, kept + num_kept,
            [=](int64_t a, int64_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  return num_kept;
}
