#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "llm/text.h"
#include "llm/wire.h"

namespace sculler::llm {
namespace {

using nlohmann::json;

// A character of an answer is at most six bytes of JSON; an event carries at least one.
constexpr uint64_t kEscape = 6;
constexpr uint64_t kFrame = uint64_t{1} << 16;
// Of a stream as a whole: frames of events with little text, and thoughts that nobody keeps.
constexpr uint64_t kStreamBytes = uint64_t{64} << 20;
constexpr int64_t kMostTokens = 1'000'000'000;

int64_t tokens_of(const json& usage, std::string_view key) {
  return std::clamp<int64_t>(int_or(usage, key, -1), -1, kMostTokens);
}

const json* first_of(const json& object, std::string_view key) {
  const json* list = find_member(object, key);
  return list != nullptr && list->is_array() && !list->empty() ? &list->front() : nullptr;
}

// `content` of OpenAI: a string, or a list of parts with a text each.
std::string content_text(const json* content) {
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string out;
  if (content->is_array()) {
    for (const auto& part : *content) out += string_or(part, "text", "");
  }
  return out;
}

// Arguments of the one tool that is ever offered: the answer itself.
std::string tool_text(const json& message) {
  std::string out;
  const json* calls = find_member(message, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return out;
  for (const auto& call : *calls) {
    const json* function = find_member(call, "function");
    if (function != nullptr) out += string_or(*function, "arguments", "");
  }
  return out;
}

std::string error_text(const json& error) {
  if (error.is_string()) return error.get<std::string>();
  const std::string message = string_or(error, "message", "");
  const std::string type = string_or(error, "type", "");
  if (message.empty()) return type;
  return type.empty() ? message : fmt::format("{}: {}", type, message);
}

std::string one_line(std::string_view text) {
  std::string out(trim(text.substr(0, 4096)));
  if (!valid_utf8(out)) {
    for (char& c : out) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
  }
  return printable(shorten(out, 300));
}

}  // namespace

AnswerReader::AnswerReader(Protocol protocol, uint64_t max_answer_bytes)
    : protocol_(protocol),
      max_bytes_(max_answer_bytes),
      sse_(static_cast<std::size_t>(max_answer_bytes * kEscape + kFrame)) {}

bool AnswerReader::set_fault(Fault kind, std::string message) {
  if (failure_ == nullptr)
    failure_ = std::make_unique<Failure>(fault(kind, std::move(message)).value());
  return false;
}

bool AnswerReader::add_text(std::string_view text) {
  if (raw_.text.size() + text.size() > max_bytes_)
    return set_fault(Fault::kTooBig,
                     fmt::format("the answer is larger than {}", bytes_text(max_bytes_)));
  raw_.text += text;
  return true;
}

void AnswerReader::begin(std::string_view content_type) {
  stream_ = to_lower(content_type).starts_with("text/event-stream");
}

bool AnswerReader::feed(std::string_view piece) {
  if (failure_ != nullptr) return false;
  received_ += piece.size();
  if (!stream_) {
    if (body_.size() + piece.size() > max_bytes_ * kEscape + kFrame)
      return set_fault(Fault::kTooBig,
                       fmt::format("the answer is larger than {}", bytes_text(max_bytes_)));
    body_ += piece;
    return true;
  }
  if (received_ > std::max(kStreamBytes, max_bytes_ * 64))
    return set_fault(Fault::kTooBig, "a stream without end");
  const bool more = sse_.feed(
      piece, [this](std::string_view name, std::string_view data) { return event(name, data); });
  if (!more && sse_.too_big()) return set_fault(Fault::kTooBig, "an event without end");
  return more;
}

bool AnswerReader::event(std::string_view name, std::string_view data) {
  if (trim(data) == "[DONE]") {
    ended_ = true;
    return true;
  }
  if (!valid_utf8(data)) return set_fault(Fault::kEncoding, "the answer is not UTF-8");
  auto parsed = parse_json(data, "stream", std::size_t{64} << 20);
  if (!parsed) return set_fault(Fault::kMalformed, "an event that is " + parsed.error().message);
  const json& value = *parsed;
  if (!value.is_object()) return set_fault(Fault::kMalformed, "an event that is no object");
  if (const json* error = find_member(value, "error"); error != nullptr || name == "error")
    return set_fault(Fault::kServer,
                     "the server broke off: " + one_line(error == nullptr ? std::string("no reason")
                                                                          : error_text(*error)));
  if (protocol_ == Protocol::kOpenAi) {
    if (const json* usage = find_member(value, "usage"); usage != nullptr) {
      raw_.prompt_tokens = std::max(raw_.prompt_tokens, tokens_of(*usage, "prompt_tokens"));
      raw_.answer_tokens = std::max(raw_.answer_tokens, tokens_of(*usage, "completion_tokens"));
    }
    const json* choice = first_of(value, "choices");
    if (choice == nullptr) return true;
    if (const auto why = string_or(*choice, "finish_reason", ""); !why.empty()) {
      raw_.finish = shorten(printable(why), 40);
      ended_ = true;
    }
    const json* delta = find_member(*choice, "delta");
    if (delta == nullptr) return true;
    const std::string tool = tool_text(*delta);
    if (find_member(*delta, "tool_calls") != nullptr) tool_call_ = true;
    return add_text(content_text(find_member(*delta, "content"))) && add_text(tool);
  }
  const std::string type = string_or(value, "type", std::string(name));
  if (type == "message_start") {
    const json* message = find_member(value, "message");
    const json* usage = message == nullptr ? nullptr : find_member(*message, "usage");
    if (usage != nullptr) {
      raw_.prompt_tokens = tokens_of(*usage, "input_tokens");
      for (const char* cached : {"cache_creation_input_tokens", "cache_read_input_tokens"})
        raw_.prompt_tokens += std::max<int64_t>(0, tokens_of(*usage, cached));
      raw_.answer_tokens = tokens_of(*usage, "output_tokens");
    }
  } else if (type == "content_block_start") {
    const json* block = find_member(value, "content_block");
    if (block != nullptr && string_or(*block, "type", "") == "tool_use") tool_call_ = true;
    if (block != nullptr) return add_text(string_or(*block, "text", ""));
  } else if (type == "content_block_delta") {
    const json* delta = find_member(value, "delta");
    if (delta == nullptr) return true;
    return add_text(string_or(*delta, "text", "")) &&
           add_text(string_or(*delta, "partial_json", ""));
  } else if (type == "message_delta") {
    if (const json* usage = find_member(value, "usage"); usage != nullptr)
      raw_.answer_tokens = std::max(raw_.answer_tokens, tokens_of(*usage, "output_tokens"));
    const json* delta = find_member(value, "delta");
    if (delta != nullptr)
      raw_.finish = shorten(printable(string_or(*delta, "stop_reason", "")), 40);
  } else if (type == "message_stop") {
    ended_ = true;
  }
  return true;
}

void AnswerReader::whole_body() {
  if (!valid_utf8(body_)) {
    (void)set_fault(Fault::kEncoding, "the answer is not UTF-8");
    return;
  }
  auto parsed = parse_json(body_, "answer", std::size_t{512} << 20);
  if (!parsed) {
    (void)set_fault(Fault::kMalformed, "the answer is " + parsed.error().message);
    return;
  }
  const json& value = *parsed;
  if (const json* error = find_member(value, "error"); error != nullptr) {
    (void)set_fault(Fault::kServer, "the server says: " + one_line(error_text(*error)));
    return;
  }
  const json none = json::object();
  const json* usage = find_member(value, "usage");
  if (usage == nullptr) usage = &none;
  if (protocol_ == Protocol::kOpenAi) {
    raw_.prompt_tokens = tokens_of(*usage, "prompt_tokens");
    raw_.answer_tokens = tokens_of(*usage, "completion_tokens");
    const json* choice = first_of(value, "choices");
    const json* message = choice == nullptr ? nullptr : find_member(*choice, "message");
    if (message == nullptr) {
      (void)set_fault(Fault::kMalformed, "an answer without choices[0].message");
      return;
    }
    raw_.finish = shorten(printable(string_or(*choice, "finish_reason", "")), 40);
    tool_call_ = find_member(*message, "tool_calls") != nullptr;
    if (!add_text(content_text(find_member(*message, "content")))) return;
    if (!add_text(tool_text(*message))) return;
  } else {
    raw_.prompt_tokens = tokens_of(*usage, "input_tokens");
    for (const char* cached : {"cache_creation_input_tokens", "cache_read_input_tokens"})
      raw_.prompt_tokens += std::max<int64_t>(0, tokens_of(*usage, cached));
    raw_.answer_tokens = tokens_of(*usage, "output_tokens");
    raw_.finish = shorten(printable(string_or(value, "stop_reason", "")), 40);
    const json* content = find_member(value, "content");
    if (content == nullptr || !content->is_array()) {
      (void)set_fault(Fault::kMalformed, "an answer without content");
      return;
    }
    for (const auto& block : *content) {
      const json* input = find_member(block, "input");
      if (input != nullptr) tool_call_ = true;
      if (!add_text(string_or(block, "text", "")) ||
          (input != nullptr && !add_text(dump_json(*input)))) {
        return;
      }
    }
  }
  ended_ = true;
}

tl::expected<Raw, Failure> AnswerReader::finish(bool whole) {
  if (failure_ == nullptr && stream_) {
    const auto visit = [this](std::string_view name, std::string_view data) {
      return event(name, data);
    };
    if (whole) (void)sse_.finish(visit);
  } else if (failure_ == nullptr && whole) {
    whole_body();
  }
  if (failure_ != nullptr) return tl::unexpected(*failure_);
  if (!ended_) {
    return fault(Fault::kHalf, fmt::format("the answer ended in the middle, after {}",
                                           bytes_text(raw_.text.size())));
  }
  // Both protocols end a good answer with a reason; the text is what is asked for.
  if (trim(raw_.text).empty()) {
    return fault(Fault::kMalformed, tool_call_ ? "a call of a tool, and no text; none was offered"
                                               : "an answer without a text");
  }
  raw_.text = without_nul(std::move(raw_.text));
  if (raw_.finish.empty()) raw_.finish = "stop";
  if (raw_.finish == "end_turn" || raw_.finish == "tool_use" || raw_.finish == "tool_calls")
    raw_.finish = "stop";
  if (raw_.finish == "max_tokens") raw_.finish = "length";
  return raw_;
}

ErrorBody read_error_body(std::string_view body) {
  ErrorBody out;
  std::string text(body);
  if (auto parsed = parse_json(body, "error", std::size_t{1} << 20)) {
    const json* error = find_member(*parsed, "error");
    std::string code;
    if (error != nullptr && error->is_object()) code = string_or(*error, "code", "");
    const std::string said =
        error == nullptr ? string_or(*parsed, "message", "") : error_text(*error);
    if (!said.empty()) text = code.empty() ? said : fmt::format("{} ({})", said, code);
  }
  const std::string low = to_lower(text);
  const auto says = [&](std::string_view word) { return low.find(word) != std::string::npos; };
  out.context = says("context_length") || says("context length") || says("maximum context") ||
                says("prompt is too long") || says("exceed_context") || says("context size");
  out.quota = says("insufficient_quota") || says("credit balance") || says("billing");
  out.schema = says("response_format") || says("json_schema") || says("tool_choice") ||
               says("'tools'") || says("\"tools\"");
  out.text = one_line(text);
  return out;
}

}  // namespace sculler::llm
