#include "base/log.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sculler {

void Log::write(LogLevel level, std::string_view event, const nlohmann::json& fields) {
  if (level < least_) return;
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  nlohmann::json record = fields.is_object() ? fields : nlohmann::json::object();
  record["t"] = timestamp_text(clock_.wall_ms());
  record["level"] = kNames[static_cast<int>(level)];
  record["event"] = event;
  const std::lock_guard lock(mutex_);
  if (!files_.append(path_, dump_json(record) + "\n")) ++dropped_;
}

void Log::write(LogLevel level, std::string_view event) {
  write(level, event, nlohmann::json::object());
}

}  // namespace sculler
