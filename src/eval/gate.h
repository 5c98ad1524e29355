// Work on a machine's GPUs or cores, first come first served: timings alone, checks several at
// once; other processes of the machine take part by a file.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "eval/machine_lock.h"
#include "eval/stopwatch.h"

namespace sculler::eval {

class Gate {
 public:
  enum class Kind { kCheck, kTiming };

  // `checks`: how many checks run at once; a timing always runs alone.
  // `file`: of the machine's lock (machine_lock.h); empty: this process is alone.
  explicit Gate(int checks, std::string file = {})
      : checks_(checks < 1 ? 1 : checks), file_(std::move(file)) {}

  class Pass {
   public:
    Pass(Gate& gate, Kind kind) : gate_(gate), kind_(kind) {
      const auto asked = std::chrono::steady_clock::now();
      gate_.enter(kind_);
      const auto lock_kind =
          kind_ == Kind::kTiming ? MachineLock::Kind::kAlone : MachineLock::Kind::kShared;
      lock_ = MachineLock::take(gate_.file_, lock_kind, kMostMs);
      waited_ms_ = ms_since(asked);
    }
    ~Pass() {
      lock_ = {};
      gate_.leave(kind_);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    [[nodiscard]] double waited_ms() const { return waited_ms_; }

   private:
    Gate& gate_;
    Kind kind_;
    MachineLock lock_;
    double waited_ms_ = 0;
  };

 private:
  // Another process that holds on for longer is stopped, or lost: work goes on beside it.
  static constexpr int64_t kMostMs = 3'600'000;

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
  std::string file_;
  bool timing_ = false;
};

}  // namespace sculler::eval
