// Gaussian Soft-NMS as the textbook has it, O(N^2): what soft_nms is measured against, and must equal in every bit.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

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
