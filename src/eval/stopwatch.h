// How long something took.
#pragma once

#include <chrono>

namespace sculler::eval {

[[nodiscard]] inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace sculler::eval
