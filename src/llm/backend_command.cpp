// A program as the model.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "llm/backends.h"
#include "llm/tape.h"
#include "llm/text.h"

namespace sculler::llm {
namespace {

class CommandBackend final : public Backend {
 public:
  CommandBackend(Processes& processes, Clock& clock, Model model)
      : processes_(processes), clock_(clock), model_(std::move(model)) {}

  RawReply ask(const Question& question, const Stop& stop) override {
    const Request& request = *question.request;
    SpawnOptions options;
    options.argv = model_.argv;
    std::vector<std::string> names = {"PATH",          "HOME",           "USER",
                                      "LANG",          "LC_ALL",         "TERM",
                                      "TMPDIR",        "http_proxy",     "https_proxy",
                                      "all_proxy",     "no_proxy",       "HTTP_PROXY",
                                      "HTTPS_PROXY",   "ALL_PROXY",      "NO_PROXY",
                                      "SSL_CERT_FILE", "SSL_CERT_DIR",   "XDG_CONFIG_HOME",
                                      "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"};
    names.insert(names.end(), model_.env.begin(), model_.env.end());
    options.env = env_subset(names);
    options.env.emplace_back("SCULLER_QUESTION", question.name);
    options.env.emplace_back("SCULLER_ROLE", request.role);
    options.env.emplace_back("SCULLER_MAX_TOKENS", std::to_string(question.max_tokens));
    if (!request.schema.empty()) options.env.emplace_back("SCULLER_SCHEMA", request.schema);
    const int64_t left_ms = (question.deadline_ns - clock_.now_ns()) / 1'000'000;
    if (left_ms <= 0) return raw_fault(Fault::kTimeout, "no time left");
    RunBounds bounds;
    bounds.cancel_fd = stop.fd();
    bounds.end_when_full = true;
    auto result = run_command(processes_, options, prompt_text(request), left_ms,
                              question.max_answer_bytes + 1, bounds);
    const std::string& program = model_.argv.front();
    if (!result) {
      return raw_fault(
          result.error().code == ErrorCode::kNotFound ? Fault::kSetup : Fault::kUnreachable,
          result.error().text(), "check argv of the model");
    }
    if (stop.fired()) return raw_fault(Fault::kCancelled, "the run was stopped");
    if (result->truncated || result->out.size() > question.max_answer_bytes)
      return raw_fault(Fault::kTooBig, fmt::format("{} wrote more than {}", program,
                                                   bytes_text(question.max_answer_bytes)));
    if (result->status.timed_out)
      return raw_fault(Fault::kTimeout, fmt::format("{} did not end in time", program));
    if (!result->status.ok()) {
      const auto last = trim(result->err);
      return raw_fault(Fault::kServer,
                       fmt::format("{}: {}: {}", program, result->status.text(),
                                   printable(shorten(last.substr(last.rfind('\n') + 1), 200))));
    }
    if (!valid_utf8(result->out))
      return raw_fault(Fault::kEncoding, program + " wrote what is not UTF-8");
    if (trim(result->out).empty()) return raw_fault(Fault::kMalformed, program + " wrote nothing");
    Raw raw;
    raw.text = without_nul(std::move(result->out));
    raw.finish = "stop";
    return raw;
  }

 private:
  Processes& processes_;
  Clock& clock_;
  Model model_;
};

}  // namespace

std::unique_ptr<Backend> make_command_backend(Processes& processes, Clock& clock,
                                              const Model& model) {
  return std::make_unique<CommandBackend>(processes, clock, model);
}

}  // namespace sculler::llm
