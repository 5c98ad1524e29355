// The two protocols on the wire: OpenAI's chat completions and Anthropic's messages. Requests are
// written, answers read piece by piece; whatever a server sends is bounded and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "llm/backend.h"
#include "llm/sse.h"

namespace sculler::llm {

enum class Protocol { kOpenAi, kAnthropic };

// The JSON of a request. Members of `model.body` are put over it; null there takes one away.
[[nodiscard]] Result<std::string> request_body(Protocol protocol, const Model& model,
                                               const Question& question);

class AnswerReader {
 public:
  AnswerReader(Protocol protocol, uint64_t max_answer_bytes);
  void begin(std::string_view content_type);
  // False: no more is wanted; finish() says why.
  [[nodiscard]] bool feed(std::string_view piece);
  // At the end of the transfer: the answer, or the first thing that was wrong with it. `whole`:
  // the transfer itself came to its end.
  [[nodiscard]] tl::expected<Raw, Failure> finish(bool whole);
  // What has come so far.
  [[nodiscard]] const Raw& so_far() const { return raw_; }
  [[nodiscard]] std::size_t held_bytes() const {
    return raw_.text.size() + body_.size() + sse_.held_bytes();
  }

 private:
  [[nodiscard]] bool event(std::string_view name, std::string_view data);
  void whole_body();
  bool set_fault(Fault kind, std::string message);
  [[nodiscard]] bool add_text(std::string_view text);

  Protocol protocol_;
  uint64_t max_bytes_, received_ = 0;
  bool stream_ = false, ended_ = false, tool_call_ = false;
  SseParser sse_;
  std::string body_;
  Raw raw_;
  std::unique_ptr<Failure> failure_;
};

// What an error body says, in one printable line of at most 300 columns; and what it means.
struct ErrorBody {
  std::string text{};
  bool context = false;  // the prompt is too long
  bool quota = false;    // no money or quota left: waiting does not help
  bool schema = false;   // response_format or tools are unknown there
};
[[nodiscard]] ErrorBody read_error_body(std::string_view body);

}  // namespace sculler::llm
