// One job of the target external: what the evaluator asks of an adapter and what it makes of the
// answers (docs/external.md).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "eval/bench.h"
#include "eval/external_host.h"
#include "eval/external_message.h"
#include "eval/job.h"
#include "eval/outcome.h"
#include "task/adapter.h"
#include "task/task.h"

namespace sculler::eval {

// What went wrong, as a verdict says it.
struct ExternalFault {
  std::string status, message, advice, where;
};

// An adapter that is running, restarted once where it dies, with the trusted checkers beside it.
class ExternalSession {
 public:
  ExternalSession(ExternalHost& host, const task::Adapter& adapter, const Job& job,
                  const task::Task& task, std::string containment, Clock& clock = real_clock());
  ~ExternalSession();
  ExternalSession(const ExternalSession&) = delete;
  ExternalSession& operator=(const ExternalSession&) = delete;

  // Each: true where it was done, else fault() says why.
  bool open();
  bool compile(const std::string& program, const std::vector<SourceFile>& files,
               const std::vector<std::pair<std::string, std::string>>& defines,
               std::map<std::string, int64_t>& facts);
  // Inputs of `content` into set `set`; `job_json` tells the checker the problem.
  bool load(int set, const task::Problem& problem, const std::string& job_json, int content);
  // One run, outputs compared with the reference.
  bool verify(const std::string& program, int set);
  // Timed runs over the sets of `order`, µs each; `wall_us`: the request by the evaluator's clock.
  bool benchmark(const std::string& program, const std::vector<int>& order, bool cold,
                 std::vector<double>& us, double& wall_us);
  // What the last run left in `set`, compared with the reference.
  bool check_outputs(const std::string& program, int set);
  bool profile(const std::string& program, int set, AdapterAnswer& answer);
  void close();

  [[nodiscard]] const AdapterAnswer& hello() const { return hello_; }
  [[nodiscard]] const ExternalFault& fault() const { return fault_; }
  // Of the last comparison.
  [[nodiscard]] double relative_l2() const { return relative_l2_; }
  [[nodiscard]] double max_abs() const { return max_abs_; }

 private:
  struct Loaded {
    std::string checker;  // key of checkers_
    int content = 0;
  };
  bool failed(std::string status, std::string message, std::string advice = {},
              std::string where = {});
  bool ask(Operation operation, int64_t id, const std::string& line, double timeout_s,
           AdapterAnswer& answer, std::size_t expected = 0);
  bool ask_checker(const std::string& checker, const std::string& request);
  bool compare(int set, const std::string& folder);
  bool handed(Operation operation, const std::string& program, int set);

  ExternalHost& host_;
  const task::Adapter& adapter_;
  const Job& job_;
  const task::Task& task_;
  std::string containment_;
  Clock& clock_;
  std::optional<ExternalFolders> folders_;
  std::unique_ptr<LineProcess> process_;
  std::map<std::string, std::unique_ptr<LineProcess>> checkers_;  // by job.json
  std::map<int, Loaded> sets_;
  AdapterAnswer hello_;
  ExternalFault fault_;
  int64_t id_ = 0;
  int folder_ = 0;
  double relative_l2_ = 0, max_abs_ = 0;
};

// Turns of programs against each other until the comparisons are decided; the first is the
// candidate.
struct ExternalBench {
  BenchOutcome outcome;
  bool good = false;  // else fault: of the candidate, or of the adapter
  ExternalFault fault{};
  double own_clock_us = 0;  // an iteration by the evaluator's clock, an upper bound; median turn
};
struct ExternalContest {
  std::vector<std::string> programs;
  int n_sets = 2;
  bool cold = false;
  // Fresh inputs into all sets before each part; false where the session failed.
  std::function<bool(int part)> refresh;
};
[[nodiscard]] ExternalBench bench_external(ExternalSession& session, const ExternalContest& contest,
                                           const BenchPlan& plan, Clock& clock = real_clock());

// What no evaluator can hold an adapter to; one sentence a rule.
[[nodiscard]] std::vector<std::string> external_limits();

}  // namespace sculler::eval
