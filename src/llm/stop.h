// One stop for every wait of a provider: a flag, and a descriptor that poll() sees.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace sculler::llm {

class Stop {
 public:
  Stop();
  ~Stop();
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  void fire();
  [[nodiscard]] bool fired() const { return fired_; }
  // Readable from fire() on.
  [[nodiscard]] int fd() const { return fd_; }
  // True where the time passed, false at once where it was stopped. A clock that is not the real
  // one is only told that it slept.
  [[nodiscard]] bool sleep(Clock& clock, int64_t ns) const;

 private:
  std::atomic<bool> fired_{false};
  int fd_;
};

}  // namespace sculler::llm
