// How one kind of model is asked once: no retries, no budget, no choice. Those are the Chat's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "llm/provider.h"
#include "llm/settings.h"
#include "llm/stop.h"

namespace sculler::llm {

// How a JSON answer is asked for: by the protocol's own means, or in words alone.
enum class SchemaMode { kNone, kSchema, kObject, kTool, kPrompt };

struct Question {
  const Request* request = nullptr;  // its text redacted, a schema in words appended where needed
  std::string name{};                // Request::name(), ".repair" behind it
  int64_t max_tokens = 0;
  int64_t deadline_ns = 0;
  int attempt = 0;  // 0: the first
  SchemaMode schema = SchemaMode::kNone;
  uint64_t max_answer_bytes = 0;
};

struct Raw {
  std::string text{};
  std::string finish{};
  int64_t prompt_tokens = -1, answer_tokens = -1;  // negative: not said
};

struct RawFailure {
  Failure failure{};
  double retry_after_s = -1;
  bool billed = false;          // the server may have worked
  Raw partial{};                // what came before it failed
  bool schema_unknown = false;  // the server does not know this way to ask for JSON
};

using RawReply = tl::expected<Raw, RawFailure>;

class Backend {
 public:
  virtual ~Backend() = default;
  // From many threads at once; ends at once when `stop` fires.
  [[nodiscard]] virtual RawReply ask(const Question& question, const Stop& stop) = 0;
  [[nodiscard]] virtual SchemaMode schema_mode() const { return SchemaMode::kPrompt; }
};

[[nodiscard]] inline tl::unexpected<RawFailure> raw_fault(Fault kind, std::string message,
                                                          std::string cure = {},
                                                          bool billed = false) {
  RawFailure out;
  out.failure = fault(kind, std::move(message), std::move(cure)).value();
  out.billed = billed;
  return tl::unexpected(std::move(out));
}

}  // namespace sculler::llm
