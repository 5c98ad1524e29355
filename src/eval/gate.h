// GPU work of one machine, first come first served: timings alone, checks several at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "eval/stopwatch.h"

namespace sculler::eval {

class Gate {
 public:
  enum class Kind { kCheck, kTiming };

  // `checks`: how many checks run at once; a timing always runs alone.
  explicit Gate(int checks) : checks_(checks < 1 ? 1 : checks) {}

  class Pass {
   public:
    Pass(Gate& gate, Kind kind) : gate_(gate), kind_(kind) {
      const auto asked = std::chrono::steady_clock::now();
      gate_.enter(kind_);
      waited_ms_ = ms_since(asked);
    }
    ~Pass() { gate_.leave(kind_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    [[nodiscard]] double waited_ms() const { return waited_ms_; }

   private:
    Gate& gate_;
    Kind kind_;
    double waited_ms_ = 0;
  };

 private:
  // Whoever came first waits at the head of the queue, so that a stream of checks cannot keep a
  // timing out.
  void enter(Kind kind) {
    std::unique_lock lock(mutex_);
    const uint64_t ticket = next_++;
    changed_.wait(lock, [&] {
      if (serving_ != ticket || timing_) return false;
      return kind == Kind::kTiming ? running_ == 0 : running_ < checks_;
    });
    ++serving_;
    if (kind == Kind::kTiming) timing_ = true;
    else ++running_;
    lock.unlock();
    changed_.notify_all();
  }
  void leave(Kind kind) {
    {
      const std::lock_guard lock(mutex_);
      if (kind == Kind::kTiming) timing_ = false;
      else --running_;
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, serving_ = 0;
  int checks_, running_ = 0;
  bool timing_ = false;
};

}  // namespace sculler::eval
