// Ctrl-C: long loops check now and then whether the caller has given up, and stop with an exception.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>

namespace hashnms {

struct Interrupted : std::exception {
  const char* what() const noexcept override { return "the caller has given up"; }
};

// While an Interrupt exists, check() uses it, on this thread and on the threads that it starts (threads.hpp).
class Interrupt {
 public:
  // `given_up` is called on this thread only, about twenty times a second.
  explicit Interrupt(bool (*given_up)()) : given_up_(given_up), outer_(std::exchange(current_, this)) {}
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt() { current_ = outer_; }

  // Throws Interrupted if the caller has given up. It takes about 30 nanoseconds: once in a few hundred boxes is
  // often enough.
  static void check() {
    if (current_) current_->check_now();
  }

  static Interrupt* current() { return current_; }
  static void join(Interrupt* interrupt) { current_ = interrupt; }  // for new threads

  static constexpr std::chrono::milliseconds kPause{50};

 private:
  void check_now() {
    if (stopped_.load(std::memory_order_relaxed)) throw Interrupted();
    if (std::this_thread::get_id() != caller_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - asked_ < kPause) return;
    asked_ = now;
    current_ = nullptr;  // what the caller does now is not part of the call
    const bool given_up = given_up_();
    current_ = this;
    if (!given_up) return;
    stopped_ = true;
    throw Interrupted();
  }

  bool (*given_up_)();
  Interrupt* outer_;
  std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
  std::atomic<bool> stopped_ = false;

  static inline thread_local Interrupt* current_ = nullptr;
};

// Calls use(begin, end) for consecutive pieces of 0 .. count - 1, with a check before each.
template <class Use>
void for_each_piece(size_t count, const Use& use) {
  constexpr size_t kPiece = size_t(1) << 14;
  for (size_t begin = 0; begin < count; begin += kPiece) {
    Interrupt::check();
    use(begin, begin + kPiece < count ? begin + kPiece : count);
  }
}

}  // namespace hashnms
