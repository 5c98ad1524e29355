#include "llm/tape.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "llm/text.h"

namespace sculler::llm {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr uint64_t kFileBytes = uint64_t{4} << 30;
constexpr std::size_t kLineBytes = std::size_t{256} << 20;

const char* kind_word(Taken::Kind kind) {
  return kind == Taken::Kind::kAnswer ? "answer" : "verdict";
}

json reply_json(const Reply& reply) {
  if (!reply) {
    const Failure& failure = reply.error();
    return {{"fault", fault_name(failure.fault)}, {"error", failure.error.message}};
  }
  return {{"text", reply->text},
          {"model", reply->model},
          {"prompt_tokens", reply->prompt_tokens},
          {"answer_tokens", reply->answer_tokens},
          {"usd", reply->usd},
          {"latency_s", reply->latency_s},
          {"finish", reply->finish},
          {"attempts", reply->attempts},
          {"repaired", reply->repaired}};
}

Result<Reply> read_reply(const json& line, const std::string& origin) {
  const std::string word = string_or(line, "fault", "");
  if (!word.empty()) {
    for (std::size_t i = 0; i < kFaults; ++i) {
      const auto kind = static_cast<Fault>(i);
      if (fault_name(kind) == word) return Reply(fault(kind, string_or(line, "error", "")));
    }
    return fail(Error{ErrorCode::kBadInput,
                      fmt::format("\"{}\" is no fault", printable(word)),
                      origin,
                      "fault",
                      {}});
  }
  auto text = get_string(line, "text", origin);
  if (!text) return fail(text.error());
  Answer answer;
  answer.text = std::move(*text);
  answer.model = string_or(line, "model", "");
  answer.prompt_tokens = int_or(line, "prompt_tokens", 0);
  answer.answer_tokens = int_or(line, "answer_tokens", 0);
  answer.usd = number_or(line, "usd", 0);
  answer.latency_s = number_or(line, "latency_s", 0);
  answer.finish = string_or(line, "finish", "stop");
  answer.attempts = static_cast<int>(int_or(line, "attempts", 1));
  answer.repaired = bool_or(line, "repaired", false);
  answer.recorded = true;
  return Reply(std::move(answer));
}

bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool digit(char c) { return c >= '0' && c <= '9'; }

// Length of "2026-11-29", "2026-11-29T19:05:24Z" or "19:05:24" at `at`, else 0.
std::size_t date_length(std::string_view text, std::size_t at) {
  const auto shape = [&](std::size_t from, std::string_view form) {
    if (text.size() - from < form.size()) return false;
    for (std::size_t i = 0; i < form.size(); ++i) {
      const char c = text[from + i];
      if (form[i] == '0' ? !digit(c) : c != form[i]) return false;
    }
    return true;
  };
  std::size_t length = 0;
  if (shape(at, "0000-00-00")) {
    length = 10;
    if (at + length < text.size() && (text[at + length] == 'T' || text[at + length] == ' ') &&
        shape(at + length + 1, "00:00:00")) {
      length += 9;
    }
  } else if (shape(at, "00:00:00")) {
    length = 8;
  } else {
    return 0;
  }
  if (at + length < text.size() && text[at + length] == '.') {
    std::size_t more = length + 1;
    while (at + more < text.size() && digit(text[at + more])) ++more;
    if (more > length + 1) length = more;
  }
  if (at + length < text.size() && text[at + length] == 'Z') ++length;
  return length;
}

// Length of an absolute path of at least two parts at `at`, else 0.
std::size_t path_length(std::string_view text, std::size_t at) {
  std::size_t end = at, slashes = 0;
  const auto part = [](char c) {
    return word_char(c) || c == '.' || c == '-' || c == '+' || c == '@' || c == '~';
  };
  while (end < text.size() && (text[end] == '/' || part(text[end]))) {
    if (text[end] == '/') {
      if (end + 1 >= text.size() || !part(text[end + 1])) break;
      ++slashes;
    }
    ++end;
  }
  // A sentence's full stop is not the path's.
  while (end > at && text[end - 1] == '.') --end;
  return slashes >= 2 ? end - at : 0;
}

std::size_t hex_length(std::string_view text, std::size_t at) {
  std::size_t end = at;
  bool number = false;
  while (end < text.size() && (digit(text[end]) || (text[end] >= 'a' && text[end] <= 'f'))) {
    number = number || digit(text[end]);
    ++end;
  }
  const bool alone = end == text.size() || !word_char(text[end]);
  return alone && number && end - at >= 16 ? end - at : 0;
}

}  // namespace

std::string canonical_prompt(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\r') {
      out += '\n';
      i += text.substr(i).starts_with("\r\n") ? 2 : 1;
      continue;
    }
    const bool start = i == 0 || !word_char(text[i - 1]);
    if (start && c == '/' &&
        (i == 0 ||
         (text[i - 1] != '/' && text[i - 1] != ':' && text[i - 1] != '.' && text[i - 1] != '<'))) {
      if (const auto length = path_length(text, i); length > 0) {
        out += "<path>";
        i += length;
        continue;
      }
    }
    if (start && digit(c)) {
      if (const auto length = date_length(text, i); length > 0) {
        out += "<date>";
        i += length;
        continue;
      }
    }
    if (start && word_char(c)) {
      // runs/2026-11-29-gemm_allgather-1, with whatever stands below it.
      if (text.substr(i).starts_with("runs/") && date_length(text, i + 5) > 0) {
        std::size_t end = i + 5;
        while (end < text.size() && (word_char(text[end]) || text[end] == '-')) ++end;
        out += "<run>";
        i = end;
        continue;
      }
      if (const auto length = hex_length(text, i); length > 0) {
        out += "<id>";
        i += length;
        continue;
      }
    }
    out += c;
    ++i;
  }
  // Blanks at line ends and at the end of the text say nothing.
  std::string tidy;
  tidy.reserve(out.size());
  for (const auto line : split(out, '\n')) {
    const auto last = line.find_last_not_of(" \t");
    tidy += line.substr(0, last == std::string_view::npos ? 0 : last + 1);
    tidy += '\n';
  }
  while (tidy.ends_with("\n\n")) tidy.pop_back();
  return tidy;
}

std::string prompt_text(const Request& request) {
  std::string out;
  for (const auto& message : request.messages) {
    out += fmt::format("# {}\n\n{}", message.role, message.text);
    if (!out.ends_with('\n')) out += '\n';
    out += '\n';
  }
  if (!request.schema.empty())
    out += fmt::format("# form of the answer\n\nOne JSON value that fits this JSON schema:\n\n{}\n",
                       request.schema);
  return out;
}

Result<std::unique_ptr<Tape>> Tape::record(Files& files, const std::string& path) {
  auto tape = std::unique_ptr<Tape>(new Tape(files, path, false));
  if (files.exists(path)) {
    if (auto ok = tape->cut_torn_line(); !ok) return fail(ok.error());
    if (auto ok = tape->load(); !ok) return fail(ok.error());
  } else if (auto ok = tape->write(dump_json({{"cassette", kVersion}})); !ok) {
    return fail(ok.error());
  }
  return tape;
}

Result<std::unique_ptr<Tape>> Tape::replay(Files& files, const std::string& path) {
  auto tape = std::unique_ptr<Tape>(new Tape(files, path, true));
  if (auto ok = tape->load(); !ok) return fail(ok.error());
  return tape;
}

Status Tape::write(const std::string& line) { return files_.append(path_, line + "\n"); }

// Whoever recorded before may have been killed within a line.
Status Tape::cut_torn_line() {
  auto text = files_.read(path_, kFileBytes);
  if (!text) return fail(text.error());
  if (text->empty() || text->back() == '\n') return {};
  text->resize(text->rfind('\n') + 1);  // npos + 1 is 0
  return files_.write_atomic(path_, *text);
}

Status Tape::load() {
  auto text = files_.read(path_, kFileBytes);
  if (!text) return fail(text.error());
  const auto lines = split(*text, '\n');
  bool versioned = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (trim(lines[i]).empty()) continue;
    const std::string origin = fmt::format("{}:{}", path_, i + 1);
    auto parsed = parse_json(lines[i], origin, kLineBytes);
    if (!parsed) return fail(parsed.error());
    const json& line = *parsed;
    if (!versioned) {
      if (int_or(line, "cassette", 0) != kVersion) {
        return fail(Error{ErrorCode::kVersion, fmt::format("is no cassette of format {}", kVersion),
                          origin, "cassette", "record it again"});
      }
      versioned = true;
      continue;
    }
    const std::string kind = string_or(line, "kind", "");
    if (kind == "reply") {
      auto question = get_string(line, "question", origin);
      auto prompt = get_string(line, "prompt", origin);
      if (!question) return fail(question.error());
      if (!prompt) return fail(prompt.error());
      auto reply = read_reply(line, origin);
      if (!reply) return fail(reply.error());
      replies_.insert_or_assign(*question, Kept{std::move(*prompt), std::move(*reply)});
    } else if (kind == "verdict") {
      auto job = get_string(line, "job", origin);
      auto verdict = get_string(line, "verdict", origin);
      if (!job) return fail(job.error());
      if (!verdict) return fail(verdict.error());
      verdicts_.insert_or_assign(*job, std::move(*verdict));
    } else if (kind == "took") {
      auto key = get_string(line, "key", origin);
      if (!key) return fail(key.error());
      order_.push_back(
          {string_or(line, "what", "") == "verdict" ? Taken::Kind::kVerdict : Taken::Kind::kAnswer,
           *key});
    } else {
      return fail(Error{ErrorCode::kBadInput, "a line of an unknown kind", origin, "kind", {}});
    }
  }
  if (!versioned)
    return fail(Error{ErrorCode::kBadInput, "is empty", path_, {}, "record it again"});
  return {};
}

Status Tape::keep(const Request& request, const Reply& reply) {
  json line = reply_json(reply);
  line["kind"] = "reply";
  line["question"] = request.name();
  line["prompt"] = canonical_prompt(prompt_text(request));
  const std::lock_guard lock(mutex_);
  return write(dump_json(line));
}

Reply Tape::reply(const Request& request) {
  const std::string name = request.name();
  const std::lock_guard lock(mutex_);
  const auto found = replies_.find(name);
  if (found == replies_.end()) {
    return fault(Fault::kMismatch,
                 fmt::format("{}: the cassette holds no question {}", path_, name),
                 "the run has taken another way than the recorded one: record it again");
  }
  if (any_prompt_) return found->second.reply;
  const std::string prompt = canonical_prompt(prompt_text(request));
  const auto difference = first_difference(found->second.prompt, prompt);
  if (difference.line > 0) {
    return fault(
        Fault::kMismatch,
        fmt::format("{}: question {} is another one from line {} on: recorded \"{}\", now \"{}\"",
                    path_, name, difference.line, printable(shorten(difference.a, 120)),
                    printable(shorten(difference.b, 120))),
        "prompts, settings or seeds have changed: record it again");
  }
  return found->second.reply;
}

Status Tape::keep_verdict(std::string_view job, std::string_view verdict) {
  const std::lock_guard lock(mutex_);
  return write(dump_json({{"kind", "verdict"}, {"job", job}, {"verdict", verdict}}));
}

Result<std::string> Tape::verdict(std::string_view job) {
  const std::lock_guard lock(mutex_);
  const auto found = verdicts_.find(job);
  if (found == verdicts_.end()) {
    return fail(Error{ErrorCode::kNotFound,
                      fmt::format("the cassette holds no verdict of job {}", job.substr(0, 12)),
                      path_,
                      {},
                      "sources, task or size have changed: record it again"});
  }
  return found->second;
}

Status Tape::took(const Taken& taken) {
  const std::lock_guard lock(mutex_);
  return write(dump_json({{"kind", "took"}, {"what", kind_word(taken.kind)}, {"key", taken.key}}));
}

std::optional<Taken> Tape::next() {
  const std::lock_guard lock(mutex_);
  if (at_ >= order_.size()) return std::nullopt;
  return order_[at_++];
}

std::optional<Taken> Tape::peek() const {
  const std::lock_guard lock(mutex_);
  if (at_ >= order_.size()) return std::nullopt;
  return order_[at_];
}

}  // namespace sculler::llm
