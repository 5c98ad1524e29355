// Time behind an interface, so that schedules, timeouts and records are tested without waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace sculler {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic nanoseconds since an arbitrary start.
  [[nodiscard]] virtual int64_t now_ns() const = 0;
  // Milliseconds since 1970 in UTC, for records that people read.
  [[nodiscard]] virtual int64_t wall_ms() const = 0;
  virtual void sleep_ns(int64_t ns) = 0;
};

[[nodiscard]] Clock& real_clock();

// Moves only when told to, or by sleeping.
class FakeClock final : public Clock {
 public:
  [[nodiscard]] int64_t now_ns() const override { return now_ns_; }
  [[nodiscard]] int64_t wall_ms() const override { return wall_ms_ + now_ns_ / 1'000'000; }
  void sleep_ns(int64_t ns) override { advance_ns(ns); }
  void advance_ns(int64_t ns) { now_ns_ += ns; }
  void set_wall_ms(int64_t ms) { wall_ms_ = ms; }

 private:
  std::atomic<int64_t> now_ns_{0};
  std::atomic<int64_t> wall_ms_{1'795'000'000'000};
};

// "2026-11-29" and "2026-11-29T19:05:24Z" of a wall time in UTC.
[[nodiscard]] std::string date_text(int64_t wall_ms);
[[nodiscard]] std::string timestamp_text(int64_t wall_ms);

}  // namespace sculler
