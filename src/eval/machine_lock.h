// Evaluators of one machine take turns, across processes: a timing runs alone, checks run side by
// side.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace sculler::eval {

// Held until it goes out of scope; the kernel lets go when the process ends, however it ends.
class MachineLock {
 public:
  enum class Kind { kShared, kAlone };

  // Waits in turn, at most `most_ms`; without a lock where `file` is empty, cannot be opened, or
  // is not let go in that time (held() says so).
  [[nodiscard]] static MachineLock take(const std::string& file, Kind kind, int64_t most_ms);
  MachineLock() = default;
  MachineLock(MachineLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MachineLock& operator=(MachineLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~MachineLock();
  [[nodiscard]] bool held() const { return fd_ >= 0; }

  // Where such files lie on this machine: a folder that all users share, or the environment's
  // SCULLER_LOCK_FOLDER; empty: nobody takes turns.
  [[nodiscard]] static std::string folder();

 private:
  int fd_ = -1;
};

}  // namespace sculler::eval
