// Answers by a rule file: what tests of the engine need, every fault included.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/random.h"
#include "base/strings.h"
#include "base/toml.h"
#include "llm/backends.h"
#include "llm/text.h"

namespace sculler::llm {
namespace {

struct Rule {
  std::string role, fault, text, question;
  int64_t from = 0, to = INT64_MAX, every = 1, times = 0, delay_ms = 0, bytes = 0, tokens_in = -1,
          tokens_out = -1;
  double chance = 1, retry_after_s = -1;
};

constexpr std::string_view kFaultWords[] = {"timeout",  "rate_limited", "server",   "unreachable",
                                            "refused",  "rejected",     "too_long", "half",
                                            "encoding", "malformed"};

Result<Rule> read_rule(const TomlReader& table) {
  if (auto ok =
          table.only({"role", "fault", "text", "question", "from", "to", "every", "times",
                      "delay_ms", "bytes", "tokens_in", "tokens_out", "chance", "retry_after"});
      !ok) {
    return fail(ok.error());
  }
  Rule rule;
  for (const auto& [key, into] :
       {std::pair{"role", &rule.role}, std::pair{"fault", &rule.fault},
        std::pair{"text", &rule.text}, std::pair{"question", &rule.question}}) {
    auto value = table.string_or(key, "");
    if (!value) return fail(value.error());
    *into = *value;
  }
  for (const auto& [key, into] :
       {std::pair{"from", &rule.from}, std::pair{"to", &rule.to}, std::pair{"every", &rule.every},
        std::pair{"times", &rule.times}, std::pair{"delay_ms", &rule.delay_ms},
        std::pair{"bytes", &rule.bytes}, std::pair{"tokens_in", &rule.tokens_in},
        std::pair{"tokens_out", &rule.tokens_out}}) {
    auto value = table.integer_or(key, *into);
    if (!value) return fail(value.error());
    *into = *value;
  }
  for (const auto& [key, into] :
       {std::pair{"chance", &rule.chance}, std::pair{"retry_after", &rule.retry_after_s}}) {
    auto value = table.number_or(key, *into);
    if (!value) return fail(value.error());
    *into = *value;
  }
  if (rule.every < 1) return fail(table.error("every", "is less than 1"));
  if (!rule.fault.empty() && std::find(std::begin(kFaultWords), std::end(kFaultWords),
                                       rule.fault) == std::end(kFaultWords)) {
    return fail(table.error("fault", fmt::format("\"{}\" is no fault", rule.fault),
                            fmt::format("one of {}", fmt::join(kFaultWords, ", "))));
  }
  return rule;
}

class ScriptBackend final : public Backend {
 public:
  ScriptBackend(Clock& clock, int64_t seed, std::string path, std::vector<Rule> rules)
      : clock_(clock),
        seed_(static_cast<uint64_t>(seed)),
        path_(std::move(path)),
        rules_(std::move(rules)) {}

  RawReply ask(const Question& question, const Stop& stop) override {
    const Rule* rule = nullptr;
    for (const auto& one : rules_) {
      if (fits(one, question)) {
        rule = &one;
        break;
      }
    }
    if (rule == nullptr)
      return raw_fault(Fault::kRejected, fmt::format("{}: no rule for {}", path_, question.name),
                       "end the file with a rule without conditions");
    if (rule->delay_ms > 0) {
      const int64_t left = question.deadline_ns - clock_.now_ns();
      const int64_t delay = rule->delay_ms * 1'000'000;
      if (!stop.sleep(clock_, std::min(left, delay)))
        return raw_fault(Fault::kCancelled, "the run was stopped");
      if (delay >= left) return raw_fault(Fault::kTimeout, "scripted: slow", {}, true);
    }
    return rule->fault.empty() ? answer(*rule, question) : fail_as(*rule, question, stop);
  }

 private:
  [[nodiscard]] bool fits(const Rule& rule, const Question& question) const {
    const Request& request = *question.request;
    if (!rule.role.empty() && rule.role != request.role) return false;
    if (!rule.question.empty() && rule.question != question.name) return false;
    if (request.index < rule.from || request.index > rule.to) return false;
    if ((request.index - rule.from) % rule.every != 0) return false;
    if (rule.times > 0 && question.attempt >= rule.times) return false;
    const auto number = static_cast<std::size_t>(&rule - rules_.data());
    return rule.chance >= 1 ||
           Random(seed_, fmt::format("{}/{}", number, question.name)).unit() < rule.chance;
  }

  static RawReply answer(const Rule& rule, const Question& question) {
    std::string text = rule.text;
    const std::string number = std::to_string(question.request->index);
    for (std::size_t at = text.find("{index}"); at != std::string::npos; at = text.find("{index}"))
      text.replace(at, 7, number);
    // Repeated up to the size that is asked for, as a model that does not stop.
    if (rule.bytes > 0) {
      const auto size = static_cast<std::size_t>(rule.bytes);
      const std::string unit = text.empty() ? std::string("x") : text;
      if (size > question.max_answer_bytes) {
        auto out = raw_fault(
            Fault::kTooBig,
            fmt::format("the answer is larger than {}", bytes_text(question.max_answer_bytes)), {},
            true);
        out.value().partial.text.assign(question.max_answer_bytes, unit.front());
        return out;
      }
      text.clear();
      while (text.size() < size) text += unit;
      text.resize(size);
    }
    if (trim(text).empty())
      return raw_fault(Fault::kMalformed, "an answer without a text", {}, true);
    if (text.size() > question.max_answer_bytes)
      return raw_fault(Fault::kTooBig, "the answer is larger than allowed", {}, true);
    Raw raw;
    raw.text = std::move(text);
    raw.finish = "stop";
    raw.prompt_tokens = rule.tokens_in;
    raw.answer_tokens = rule.tokens_out;
    return raw;
  }

  RawReply fail_as(const Rule& rule, const Question& question, const Stop& stop) const {
    if (rule.fault == "timeout") {
      const int64_t left = question.deadline_ns - clock_.now_ns();
      if (!stop.sleep(clock_, left)) return raw_fault(Fault::kCancelled, "the run was stopped");
      return raw_fault(Fault::kTimeout, "scripted: no answer in time", {}, true);
    }
    for (std::size_t i = 0; i < kFaults; ++i) {
      const auto kind = static_cast<Fault>(i);
      if (fault_name(kind) != rule.fault) continue;
      const bool billed =
          kind == Fault::kHalf || kind == Fault::kEncoding || kind == Fault::kMalformed;
      auto out = raw_fault(kind, fmt::format("scripted: {}", rule.fault), {}, billed);
      out.value().retry_after_s = rule.retry_after_s;
      if (kind == Fault::kHalf)
        out.value().partial.text = rule.text.substr(0, rule.text.size() / 2);
      return out;
    }
    return raw_fault(Fault::kMalformed, "scripted");
  }

  Clock& clock_;
  uint64_t seed_;
  std::string path_;
  std::vector<Rule> rules_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_script_backend(Files& files, Clock& clock, int64_t seed,
                                                     const std::string& path) {
  auto text = files.read(path, 16 << 20);
  if (!text) return fail(text.error());
  auto tree = parse_toml(*text, path);
  if (!tree) return fail(tree.error());
  const TomlReader root(*tree, path);
  if (auto ok = root.only({"rule"}); !ok) return fail(ok.error());
  auto tables = root.tables("rule");
  if (!tables) return fail(tables.error());
  std::vector<Rule> rules;
  for (const auto& table : *tables) {
    auto rule = read_rule(table);
    if (!rule) return fail(rule.error());
    rules.push_back(std::move(*rule));
  }
  return std::unique_ptr<Backend>(
      std::make_unique<ScriptBackend>(clock, seed, path, std::move(rules)));
}

}  // namespace sculler::llm
