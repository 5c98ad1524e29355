// One orchestrator a run folder; the kernel lets go when the process ends, however it ends.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace sculler::cli {

class RunLock {
 public:
  // kUsage where another process holds it.
  [[nodiscard]] static Result<RunLock> take(const std::string& folder);
  RunLock() = default;
  RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  int fd_ = -1;
};

}  // namespace sculler::cli
