// Divides work over threads. Results must never depend on the division or the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "support/interrupt.hpp"

namespace hashnms {

// Starting a thread costs about 50 microseconds: each gets work worth several times that.
inline size_t threads_for(size_t boxes, size_t boxes_per_thread, size_t threads) {
  return std::clamp<size_t>(boxes / boxes_per_thread, 1, threads);
}

// Calls work(part) for part = 0 .. parts - 1, each on its own thread, part 0 on this one. Returns when all have ended;
// the first exception is rethrown here.
template <class Work>
void run_parts(size_t parts, const Work& work) {
  if (parts <= 1) return work(0);
  std::vector<std::exception_ptr> errors(parts);
  const auto guarded = [&](size_t part, const auto& some_work) {
    try {
      some_work();
    } catch (...) {
      errors[part] = std::current_exception();
    }
  };
  std::mutex mutex;
  std::condition_variable one_ended;
  size_t running = 0;
  std::vector<std::thread> threads;
  for (size_t part = 1; part < parts; ++part) {
    const auto run_there = [&, part, interrupt = Interrupt::current()] {
      Interrupt::join(interrupt);
      guarded(part, [&] { work(part); });
      const std::lock_guard lock(mutex);
      --running;
      one_ended.notify_one();
    };
    try {
      const std::lock_guard lock(mutex);
      threads.emplace_back(run_there);
      ++running;
    } catch (...) {  // no thread available: do it here
      guarded(part, [&] { work(part); });
    }
  }
  guarded(0, [&] { work(0); });
  std::unique_lock lock(mutex);
  while (running > 0) {  // threads count it down
    one_ended.wait_for(lock, Interrupt::kPause);
    lock.unlock();  // the check may need a lock of the caller
    guarded(0, [] { Interrupt::check(); });
    lock.lock();
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// Calls work on ranges [begin, end) that cover 0 .. count - 1, in parallel.
template <class Work>
void run_ranges(size_t parts, size_t count, const Work& work) {
  run_parts(parts, [&](size_t part) { work(count * part / parts, count * (part + 1) / parts); });
}

// Calls work(item, part) for item = 0 .. count - 1: an idle part takes the next item.
template <class Work>
void run_queue(size_t parts, size_t count, const Work& work) {
  std::atomic<size_t> next = 0;
  run_parts(std::min(parts, std::max<size_t>(count, 1)), [&](size_t part) {
    for (size_t item = next++; item < count; item = next++) {
      Interrupt::check();
      work(item, part);
    }
  });
}

}  // namespace hashnms
