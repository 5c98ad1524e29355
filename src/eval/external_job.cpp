#include "eval/external_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/strings.h"

namespace sculler::eval {
namespace {

constexpr int64_t kReferenceMs = 1'800'000;  // a float64 reference of a large size takes minutes

}  // namespace

ExternalSession::ExternalSession(ExternalHost& host, const task::Adapter& adapter, const Job& job,
                                 const task::Task& task, std::string containment, Clock& clock)
    : host_(host),
      adapter_(adapter),
      job_(job),
      task_(task),
      containment_(std::move(containment)),
      clock_(clock) {}

ExternalSession::~ExternalSession() { close(); }

void ExternalSession::close() {
  if (process_ != nullptr && fault_.status.empty()) {
    (void)process_->ask(bye_request(++id_), 2000);
    (void)process_->end(1000);
  }
  process_.reset();
  checkers_.clear();
  if (folders_) host_.remove_folders(*folders_);
  folders_.reset();
}

bool ExternalSession::failed(std::string status, std::string message, std::string advice,
                             std::string where) {
  fault_ = {std::move(status), std::move(message), std::move(advice), std::move(where)};
  return false;
}

bool ExternalSession::ask(Operation operation, int64_t id, const std::string& line,
                          double timeout_s, AdapterAnswer& answer, std::size_t expected) {
  const std::string name = "the adapter " + adapter_.name;
  const std::string what(operation_name(operation));
  if (process_ == nullptr) return failed("INTERNAL", name + " is not running");
  auto said = process_->ask(line, static_cast<int64_t>(timeout_s * 1000));
  if (!said) {
    const std::string how = process_->end(200);
    process_.reset();
    // Before a program is there, only the adapter can have failed.
    const bool ours = operation == Operation::kHello || operation == Operation::kLoad;
    switch (said.error().code) {
      case ErrorCode::kTimeout:
        return failed(ours ? "INTERNAL" : "TIMEOUT",
                      name + " gave no answer to " + what + " within " +
                          std::to_string(static_cast<int64_t>(timeout_s)) + " s",
                      ours ? "Look at timeouts_s in " + adapter_.path + "."
                           : "Do less work an iteration, or look for a loop that does not end.");
      case ErrorCode::kChildFailed:
        return failed(ours ? "INTERNAL" : "CRASH", name + " ended during " + what + ": " + how,
                      ours ? "Run its command by hand: it speaks on stdin and stdout."
                           : "The program runs in the adapter's process: look for what ends it.");
      default:
        return failed("INTERNAL", name + ", " + what + ": " + said.error().message,
                      "See docs/external.md.");
    }
  }
  auto parsed = parse_answer(*said, operation, id, expected);
  if (!parsed) {
    process_.reset();
    return failed("INTERNAL",
                  name + " broke the protocol: " + parsed.error().message +
                      (parsed.error().key.empty() ? "" : " (" + parsed.error().key + ")"),
                  "Correct the adapter (docs/external.md); a program that prints into its channel "
                  "does this too.");
  }
  answer = std::move(*parsed);
  if (answer.ok) return true;
  return failed(answer.status, answer.message, answer.advice, answer.where);
}

bool ExternalSession::open() {
  auto folders = host_.make_folders();
  if (!folders) return failed("INTERNAL", folders.error().text(), folders.error().cure);
  folders_ = *folders;
  auto process = host_.start_adapter(adapter_, *folders_);
  if (!process) {
    Error plain = process.error();
    plain.cure.clear();
    return failed("INTERNAL", plain.text(), process.error().cure);
  }
  process_ = std::move(*process);
  const int64_t id = ++id_;
  if (!ask(Operation::kHello, id, hello_request(id, task_.name, containment_),
           adapter_.timeouts.start, hello_))
    return false;
  return true;
}

bool ExternalSession::compile(const std::string& program, const std::vector<SourceFile>& files,
                              const std::vector<std::pair<std::string, std::string>>& defines,
                              std::map<std::string, int64_t>& facts) {
  const std::string folder = "programs/" + program;
  const std::string full = folders_->root + "/" + folder;
  if (auto done = real_files().mkdirs(full); !done)
    return failed("INTERNAL", done.error().text(), done.error().cure);
  std::vector<std::string> names;
  for (const auto& file : files) {
    if (auto done = real_files().write_atomic(full + "/" + file.name, file.text); !done)
      return failed("INTERNAL", done.error().text(), done.error().cure);
    names.push_back(file.name);
  }
  AdapterAnswer answer;
  const int64_t id = ++id_;
  if (!ask(Operation::kCompile, id,
           compile_request(id, program, folder, names, defines, task_.name),
           adapter_.timeouts.compile, answer))
    return false;
  facts = answer.facts;
  return true;
}

bool ExternalSession::ask_checker(const std::string& checker, const std::string& request) {
  const auto said = checkers_.at(checker)->ask(request, kReferenceMs);
  if (!said) {
    const std::string how = checkers_.at(checker)->end(200);
    checkers_.erase(checker);
    return failed("INTERNAL", "the trusted process: " + said.error().message + "; " + how);
  }
  const RunResult result = parse_result(*said);
  relative_l2_ = result.relative_l2.value_or(0);
  max_abs_ = result.max_abs.value_or(0);
  return result.passed() || failed(result.status, result.message, result.advice, result.where);
}

bool ExternalSession::load(int set, const task::Problem& problem, const std::string& job_json,
                           int content) {
  auto buffers = task_.buffers(problem);
  if (!buffers) return failed("INTERNAL", buffers.error().text());
  if (!checkers_.contains(job_json)) {
    checkers_.clear();  // one problem at a time: expected outputs are large
    sets_.clear();
    auto checker = host_.start_checker(job_json, *folders_);
    if (!checker) return failed("INTERNAL", checker.error().text(), checker.error().cure);
    checkers_[job_json] = std::move(*checker);
  }
  const std::string folder = "in/" + std::to_string(++folder_);
  const std::string full = folders_->root + "/" + folder;
  if (auto done = real_files().mkdirs(full); !done)
    return failed("INTERNAL", done.error().text(), done.error().cure);
  if (!ask_checker(job_json, dump_json(nlohmann::json{
                                 {"do", "fill"}, {"content", content}, {"folder", full}})))
    return false;
  AdapterAnswer answer;
  const int64_t id = ++id_;
  const bool done =
      ask(Operation::kLoad, id, load_request(id, set, folder, task_.dims, problem, *buffers),
          adapter_.timeouts.verify, answer);
  (void)real_files().remove_all(full);
  sets_[set] = {job_json, content};
  return done;
}

// Asks for outputs in a fresh folder and compares them.
bool ExternalSession::handed(Operation operation, const std::string& program, int set) {
  const std::string name = std::to_string(++folder_);
  auto folder = host_.make_output(*folders_, name);
  if (!folder) return failed("INTERNAL", folder.error().text(), folder.error().cure);
  AdapterAnswer answer;
  const int64_t id = ++id_;
  const bool done = ask(operation, id, run_request(operation, id, program, set, "out/" + name),
                        adapter_.timeouts.verify, answer) &&
                    compare(set, *folder);
  (void)real_files().remove_all(*folder);
  return done;
}

bool ExternalSession::compare(int set, const std::string& folder) {
  const Loaded& loaded = sets_.at(set);
  return ask_checker(loaded.checker,
                     dump_json(nlohmann::json{
                         {"do", "compare"}, {"content", loaded.content}, {"folder", folder}}));
}

bool ExternalSession::verify(const std::string& program, int set) {
  return handed(Operation::kVerify, program, set);
}

bool ExternalSession::check_outputs(const std::string& program, int set) {
  return handed(Operation::kOutputs, program, set);
}

bool ExternalSession::benchmark(const std::string& program, const std::vector<int>& order,
                                bool cold, std::vector<double>& us, double& wall_us) {
  AdapterAnswer answer;
  const int64_t id = ++id_;
  const int64_t begin = clock_.now_ns();
  if (!ask(Operation::kBenchmark, id, benchmark_request(id, program, order, cold),
           adapter_.timeouts.benchmark, answer, order.size()))
    return false;
  wall_us = static_cast<double>(clock_.now_ns() - begin) / 1e3;
  us = std::move(answer.us);
  double sum = 0;
  for (const double time : us) sum += time;
  if (sum > wall_us) {
    return failed("IMPLAUSIBLE",
                  "the adapter says that " + std::to_string(us.size()) + " iterations of " +
                      program + " took " + microseconds_text(sum) + ", and its answer came after " +
                      microseconds_text(wall_us),
                  "The adapter's clock is wrong, or the program changed it.");
  }
  return true;
}

bool ExternalSession::profile(const std::string& program, int set, AdapterAnswer& answer) {
  const int64_t id = ++id_;
  return ask(Operation::kProfile, id, run_request(Operation::kProfile, id, program, set, ""),
             adapter_.timeouts.profile, answer);
}

std::vector<std::string> external_limits() {
  return {
      "times come from the adapter's clock; the evaluator's own bounds them from above and must "
      "agree which program is faster",
      "the candidate runs in the adapter's process and can reach its clock and its channel",
      "inputs, addresses and poisoned outputs of timed iterations are the adapter's to keep; "
      "outputs of the last run of a turn are compared, others are not",
      "inputs that a candidate changes are seen by the adapter alone",
      "no delays are injected, and nothing looks for races",
  };
}

}  // namespace sculler::eval
