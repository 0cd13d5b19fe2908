// Work split over threads. The work must not care how: results never depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace hashnms {

// A thread costs some 50 microseconds to start: each gets boxes worth several times that.
inline size_t threads_for(size_t boxes, size_t boxes_per_thread, size_t threads) {
  return std::clamp<size_t>(boxes / boxes_per_thread, 1, threads);
}

// Calls work(part) for part = 0 .. parts - 1, each on its own thread; the first exception is thrown here.
template <class Work>
void run_parts(size_t parts, const Work& work) {
  if (parts <= 1) return work(0);
  std::vector<std::exception_ptr> errors(parts);
  std::vector<std::thread> threads;
  const auto guarded = [&](size_t part) {
    try {
      work(part);
    } catch (...) {
      errors[part] = std::current_exception();
    }
  };
  for (size_t part = 1; part < parts; ++part) {
    try {
      threads.emplace_back(guarded, part);
    } catch (...) {  // no thread to be had: do it here
      guarded(part);
    }
  }
  guarded(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// The same for ranges [begin, end) that cover 0 .. count - 1.
template <class Work>
void run_ranges(size_t parts, size_t count, const Work& work) {
  run_parts(parts, [&](size_t part) { work(count * part / parts, count * (part + 1) / parts); });
}

}  // namespace hashnms
