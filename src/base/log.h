// The log of a run: one JSON object a line, {"t":"2026-…Z","level":"info","event":"…",…}.
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/files.h"

namespace sculler {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Thread-safe. A log that cannot be written never stops a run: dropped() counts.
class Log {
 public:
  Log(Files& files, Clock& clock, std::string path, LogLevel least = LogLevel::kInfo)
      : files_(files), clock_(clock), path_(std::move(path)), least_(least) {}
  void write(LogLevel level, std::string_view event, const nlohmann::json& fields);
  void write(LogLevel level, std::string_view event);
  [[nodiscard]] uint64_t dropped() const { return dropped_; }

 private:
  Files& files_;
  Clock& clock_;
  std::string path_;
  LogLevel least_;
  std::mutex mutex_;
  uint64_t dropped_ = 0;
};

}  // namespace sculler
