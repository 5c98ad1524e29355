// How long something took.
#pragma once

#include <chrono>
#include <cstdint>

namespace sculler::eval {

[[nodiscard]] inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Of the steady clock, for deadlines.
[[nodiscard]] inline int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace sculler::eval
