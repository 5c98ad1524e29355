#include "base/clock.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <ctime>

namespace sculler {
namespace {

class RealClock final : public Clock {
 public:
  [[nodiscard]] int64_t now_ns() const override {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
  [[nodiscard]] int64_t wall_ms() const override {
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
  }
  void sleep_ns(int64_t ns) override {
    if (ns <= 0) return;
    timespec t{ns / 1'000'000'000, ns % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR) {}
  }
};

tm utc(int64_t wall_ms) {
  const time_t seconds = wall_ms / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  return parts;
}

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

std::string date_text(int64_t wall_ms) {
  const tm t = utc(wall_ms);
  return fmt::format("{:04}-{:02}-{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
}

std::string timestamp_text(int64_t wall_ms) {
  const tm t = utc(wall_ms);
  return fmt::format("{}T{:02}:{:02}:{:02}Z", date_text(wall_ms), t.tm_hour, t.tm_min, t.tm_sec);
}

}  // namespace sculler
