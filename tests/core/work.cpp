// Prints how much work the functions of the core do on boxes of every exponent: lines of function, type of numbers,
// kind of boxes, count, steps. Steps are counted (support/work.hpp), not timed. Compiled with
// UndefinedBehaviorSanitizer, it also shows that no calculation with cells overflows. tests/test_growth.py compiles and
// runs it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "fusion.hpp"
#include "hnms.hpp"
#include "join.hpp"
#include "nms.hpp"
#include "partial_nms.hpp"
#include "soft_nms.hpp"

namespace {

using namespace hashnms;

// The same numbers everywhere, unlike the distributions of <random>.
class Random {
 public:
  double operator()() {  // from 0 to 1
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-53;
  }
  double between(double from, double to) { return from + (to - from) * (*this)(); }
  double power(double octaves) { return std::exp2(between(-octaves, octaves)); }

 private:
  uint64_t state_ = 1;
};

struct Box {
  double x, y, width, height;  // x and y: of the centre
};

struct Kind {
  const char* name;
  std::function<Box(Random&, size_t place, size_t count)> box;
};

double side_of(size_t count) { return std::sqrt(static_cast<double>(count)); }

Box ordinary(Random& random, size_t, size_t count) {
  const double side = 10.0 * side_of(count);
  return {random.between(0, side), random.between(0, side), random.between(20, 40), random.between(20, 40)};
}

Box in_lattice(size_t place, size_t count, double step, double size) {
  const auto side = static_cast<size_t>(std::ceil(side_of(count)));
  return {step * static_cast<double>(place % side), step * static_cast<double>(place / side), size, size};
}

template <class T>
std::vector<Kind> kinds() {
  constexpr bool is_float = sizeof(T) == 4;
  constexpr double kMost = is_float ? 126 : 1022;  // octaves of sizes
  std::vector<Kind> all{{"ordinary", ordinary}};
  const auto add = [&](const std::string& name, auto box) {
    static std::vector<std::unique_ptr<std::string>> names;
    names.push_back(std::make_unique<std::string>(name));
    all.push_back({names.back()->c_str(), box});
  };
  for (const double octaves : {10.0, 0.12 * kMost, 0.48 * kMost}) {
    const std::string of = " 2^" + std::to_string(static_cast<int>(octaves));
    add("concentric" + of,
        [=](Random& random, size_t, size_t) { return Box{0, 0, random.power(octaves), random.power(octaves)}; });
    add("scattered" + of, [=](Random& random, size_t, size_t count) {
      Box box = ordinary(random, 0, count);
      box.width = random.power(octaves), box.height = random.power(octaves);
      return box;
    });
    add("squares" + of, [=](Random& random, size_t, size_t count) {
      Box box = ordinary(random, 0, count);
      box.width = box.height = random.power(octaves);
      return box;
    });
    add("needles" + of, [=](Random& random, size_t, size_t count) {
      const double length = random.power(octaves), side = side_of(count);
      return Box{random.between(0, side), random.between(0, side), length, 1 / length};
    });
    add("self-similar" + of, [=](Random& random, size_t, size_t) {
      const double x = random.power(octaves), y = random.power(octaves);
      return Box{x, y, x * random.between(0.01, 0.2), y * random.between(0.01, 0.2)};
    });
    add("lattice among sizes" + of, [=](Random& random, size_t place, size_t count) {
      if (place % 64 == 0) return Box{0, 0, random.power(octaves), random.power(octaves)};
      return in_lattice(place, count, 1.1, 1);
    });
    add("small lattice among sizes" + of, [=](Random& random, size_t place, size_t count) {
      if (place % 64 == 0) return Box{0, 0, random.power(octaves), random.power(octaves)};
      return in_lattice(place, count, 1.1 * std::exp2(-0.4 * octaves), std::exp2(-0.4 * octaves));
    });
    add("giant" + of, [=](Random& random, size_t place, size_t count) {
      if (place == 5) return Box{0, 0, std::exp2(2 * octaves), 9};
      return ordinary(random, place, count);
    });
    add("square giant" + of, [=](Random& random, size_t place, size_t count) {
      if (place == 5) return Box{0, 0, std::exp2(2 * octaves), std::exp2(2 * octaves)};
      return ordinary(random, place, count);
    });
    add("dwarf" + of, [=](Random& random, size_t place, size_t count) {
      if (place == 5) return Box{0, 0, std::exp2(-2 * octaves), std::exp2(-octaves)};
      return ordinary(random, place, count);
    });
    add("all large" + of, [=](Random& random, size_t place, size_t count) {
      const Box box = ordinary(random, place, count);
      const double scale = std::exp2(2 * octaves - 14);
      return Box{box.x * scale, box.y * scale, box.width * scale, box.height * scale};
    });
    add("all small" + of, [=](Random& random, size_t place, size_t count) {
      const Box box = ordinary(random, place, count);
      const double scale = std::exp2(-2 * octaves);
      return Box{box.x * scale, box.y * scale, box.width * scale, box.height * scale};
    });
    add("apart" + of, [=](Random& random, size_t place, size_t count) {  // half the boxes are far away
      Box box = ordinary(random, place, count);
      if (place % 2) box.x += std::exp2(2 * octaves), box.width += std::exp2(2 * octaves - (is_float ? 22 : 50));
      return box;
    });
  }
  for (const double length : {30.0, 1000.0, 1e6}) {
    add("crossing needles " + std::to_string(static_cast<int>(length)), [=](Random& random, size_t place, size_t) {
      const double x = random.between(0, length), y = random.between(0, length);
      return place % 2 ? Box{x, y, length, 1} : Box{x, y, 1, length};
    });
  }
  const double far = is_float ? 0x1p23 : 0x1p52;  // where the next number is 1 greater
  add("of a few last places", [=](Random& random, size_t, size_t count) {
    const double side = 3 * side_of(count);
    return Box{far + std::floor(random.between(0, side)), far + std::floor(random.between(0, side)),
               std::floor(random.between(1, 5)) * 2, std::floor(random.between(1, 5)) * 2};
  });
  add("of one last place", [=](Random&, size_t place, size_t count) {
    Box box = in_lattice(place, count, 2, 1);
    box.x += far + 0.5, box.y += far + 0.5;
    return box;
  });
  add("half the largest area", [](Random& random, size_t, size_t) {
    const double root = std::sqrt(static_cast<double>(std::numeric_limits<T>::max()));
    return Box{random.between(0, root), random.between(0, root), root * random.between(0.8, 0.99),
               root * random.between(0.8, 0.99)};
  });
  add("no finite area", [](Random& random, size_t, size_t) {
    const double scale = static_cast<double>(std::numeric_limits<T>::max()) / 8;
    return Box{random.between(-scale, scale), random.between(-scale, scale), scale * random.between(0.5, 1),
               scale * random.between(0.5, 1)};
  });
  add("nearly equal", [](Random& random, size_t, size_t) {
    constexpr double kLast = std::numeric_limits<T>::epsilon();
    return Box{100 + 1000 * kLast * random(), 100 + 1000 * kLast * random(), 50, 50};
  });
  add("heap", [](Random& random, size_t, size_t) {
    return Box{random.between(0, 10), random.between(0, 10), random.between(40, 60), random.between(40, 60)};
  });
  add("grains in a giant", [](Random& random, size_t place, size_t count) {
    const double side = side_of(count);
    if (place % 100 == 0) return Box{side / 2, side / 2, side * random.between(1, 2), side * random.between(1, 2)};
    return Box{random.between(0, side), random.between(0, side), 0.5, 0.5};
  });
  add("in a row", [](Random& random, size_t place, size_t) {
    return Box{static_cast<double>(place), 0, random.between(1, 2), 1e-3};
  });
  return all;
}

template <class T>
struct Scene {
  std::vector<T> boxes, scores;
  std::unique_ptr<bool[]> open;

  Scene(const Kind& kind, size_t count) : open(new bool[count]) {
    Random random;
    constexpr double kLargest = std::numeric_limits<T>::max();
    const auto number = [kLargest](double value) { return static_cast<T>(std::clamp(value, -kLargest, kLargest)); };
    for (size_t place = 0; place < count; ++place) {
      const Box box = kind.box(random, place, count);
      for (const double corner :
           {box.x - box.width / 2, box.y - box.height / 2, box.x + box.width / 2, box.y + box.height / 2}) {
        boxes.push_back(number(corner));
      }
      scores.push_back(static_cast<T>(random()));
      open[place] = random() < 0.5;
    }
  }
  Input<T, T> input() const { return {boxes.data(), BoxFormat::xyxy, scores.data(), nullptr, nullptr, scores.size()}; }
};

template <class T>
struct Function {
  std::string name;
  std::function<void(const Scene<T>&)> call;
};

template <class T>
std::vector<Function<T>> functions() {
  constexpr double kAll = -std::numeric_limits<double>::infinity();
  constexpr size_t kNoLimit = SIZE_MAX;
  constexpr std::pair<Metric, const char*> kMetrics[] = {
      {Metric::iou, "iou"}, {Metric::ios, "ios"}, {Metric::diou, "diou"}};
  std::vector<Function<T>> all;
  for (const double threshold : {0.0, 1e-7, 0.002, 0.05, 0.3, 0.5, 0.9, 0.9999, 1.0 - 1e-9}) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", threshold);
    for (const auto& [metric, metric_name] : kMetrics) {
      const std::string name = std::string(metric_name) + " " + text;
      const NmsOptions options{metric, threshold, false, kAll, kNoLimit, nullptr};
      all.push_back({"nms " + name, [=](const Scene<T>& scene) { nms(scene.input(), options, 1); }});
      all.push_back({"nms suppressor " + name, [=](const Scene<T>& scene) {
                       std::vector<int64_t> suppressor(scene.scores.size());
                       NmsOptions with = options;
                       with.suppressor = suppressor.data();
                       nms(scene.input(), with, 1);
                     }});
      all.push_back({"partial_nms half open " + name,
                     [=](const Scene<T>& scene) { partial_nms(scene.input(), options, scene.open.get(), nullptr); }});
      all.push_back({"partial_nms open " + name, [=](const Scene<T>& scene) {
                       const std::unique_ptr<bool[]> open(new bool[scene.scores.size()]);
                       std::fill_n(open.get(), scene.scores.size(), true);
                       partial_nms(scene.input(), options, open.get(), nullptr);
                     }});
      all.push_back({"join " + name, [=](const Scene<T>& scene) {
                       std::vector<int64_t> suppressor(scene.scores.size()), joined(scene.scores.size());
                       NmsOptions with = options;
                       with.suppressor = suppressor.data();
                       join(scene.input(), with, 1, joined.data());
                     }});
    }
    all.push_back({std::string("fuse ") + text, [=](const Scene<T>& scene) { fuse(scene.input(), threshold); }});
    all.push_back({std::string("soft_nms linear ") + text, [=](const Scene<T>& scene) {
                     soft_nms(scene.input(), {SoftMethod::linear, 0.5, threshold, 1e-3, kNoLimit}, 1);
                   }});
  }
  for (const double sigma : {1e-3, 0.5, 1e3}) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", sigma);
    all.push_back({std::string("soft_nms gaussian ") + text, [=](const Scene<T>& scene) {
                     soft_nms(scene.input(), {SoftMethod::gaussian, sigma, 0.3, 1e-3, kNoLimit}, 1);
                   }});
  }
  return all;
}

// What is wanted: the most steps a box, the counts of boxes, and the names of functions, or none for all.
struct Wanted {
  uint64_t most;
  std::vector<size_t> counts;
  std::vector<std::string> names;

  bool has(const std::string& name) const {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }
};

template <class T>
void run(const char* type, const Wanted& wanted) {
  const auto all = functions<T>();
  for (const Kind& kind : kinds<T>()) {
    for (const size_t count : wanted.counts) {
      const Scene<T> scene(kind, count);
      for (const Function<T>& function : all) {
        if (!wanted.has(function.name)) continue;
        work_done = 0, work_limit = wanted.most * count;
        try {
          function.call(scene);
        } catch (const TooMuchWork&) {
        }
        std::printf("%s\t%s\t%s\t%zu\t%llu\n", function.name.c_str(), type, kind.name, count,
                    static_cast<unsigned long long>(work_done));
      }
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return std::fprintf(stderr, "need: most_steps_per_box count[,count] [function ...]\n"), 2;
  Wanted wanted{std::strtoull(arguments[1], nullptr, 10), {}, {}};
  for (const char* at = arguments[2]; *at != 0;) {
    char* end = nullptr;
    wanted.counts.push_back(std::strtoull(at, &end, 10));
    at = end + (*end == ',');
  }
  for (int k = 3; k < count; ++k) wanted.names.emplace_back(arguments[k]);
  run<float>("float32", wanted);
  run<double>("float64", wanted);
}
