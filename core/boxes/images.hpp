// Several images in one call: boxes of different images are never compared, and limits count per image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "boxes/input.hpp"
#include "boxes/labels.hpp"
#include "boxes/scan.hpp"
#include "support/large_array.hpp"

namespace hashnms {

// A number for each pair of image and label, so that code for labels also handles images.
class PairLabels {
 public:
  template <class T, class Score>
  explicit PairLabels(const Input<T, Score>& input) : pairs_(0), labels_(input.labels) {
    if (!input.images || input.count == 0) return;
    labels_ = input.images;
    if (input.labels) join(input.images, input.labels, input.count);
  }

  // The input with these numbers as its labels.
  template <class T, class Score>
  Input<T, Score> of(Input<T, Score> input) const {
    input.labels = labels_;
    return input;
  }

 private:
  void join(const int64_t* images, const int64_t* labels, size_t count) {
    const LabelRange image_range = range_of_labels(images, count), label_range = range_of_labels(labels, count);
    pairs_ = LargeArray<int64_t>(count);
    labels_ = pairs_.data();
    // Both are counted from their least value. If the ranges are too large for that, they are numbered.
    if (image_range.span() < kRoom && label_range.span() < kRoom) {
      const auto labels_of_image = static_cast<int64_t>(label_range.span()) + 1;
      for (size_t row = 0; row < count; ++row) {
        pairs_[row] = (images[row] - image_range.least) * labels_of_image + (labels[row] - label_range.least);
      }
      return;
    }
    const NumberedLabels image_numbers(images, count), label_numbers(labels, count);
    for (size_t row = 0; row < count; ++row) {
      pairs_[row] = image_numbers.numbers[row] * label_numbers.count + label_numbers.numbers[row];
    }
  }

  static constexpr uint64_t kRoom = uint64_t(1) << 31;
  LargeArray<int64_t> pairs_;
  const int64_t* labels_;
};

// Counts the boxes of each image up to a limit.
class ImageCounter {
 public:
  ImageCounter(const int64_t* images, size_t count, size_t most) : images_(images), numbered_(0), most_(most) {
    if (!images || count == 0) {
      counts_.resize(1);
      return;
    }
    const LabelRange range = range_of_labels(images, count);
    least_ = range.least;
    if (range.span() > 2 * count) {
      NumberedLabels numbers(images, count);
      counts_.resize(static_cast<size_t>(numbers.count));
      numbered_ = std::move(numbers.numbers);
      images_ = numbered_.data();
      least_ = 0;
    } else {
      counts_.resize(static_cast<size_t>(range.span()) + 1);
    }
  }

  // Whether the image of this row may have one more box.
  bool takes(size_t row) {
    size_t& count = counts_[images_ ? static_cast<size_t>(images_[row] - least_) : 0];
    return count < most_ && ++count;
  }

 private:
  const int64_t* images_;
  int64_t least_ = 0;
  LargeArray<int64_t> numbered_;
  size_t most_;
  std::vector<size_t> counts_;
};

// Keeps the first items of each image, up to the limit; row_of gives the row of an item.
template <class Item, class RowOf>
void keep_first_of_images(LargeArray<Item>& items, const int64_t* images, size_t count, size_t most,
                          const RowOf& row_of) {
  if (items.size() <= most) return;
  ImageCounter counter(images, count, most);
  size_t kept = 0;
  for (size_t k = 0; k < items.size(); ++k) {
    if (counter.takes(row_of(items[k]))) items[kept++] = items[k];
  }
  items.shrink(kept);
}

}  // namespace hashnms
