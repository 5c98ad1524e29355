// The gates that turn a job into a verdict, cheap before dear; the first that is not passed ends
// it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/random.h"
#include "eval/artifacts.h"
#include "eval/bench.h"
#include "eval/clocks.h"
#include "eval/external_host.h"
#include "eval/gate.h"
#include "eval/job.h"
#include "eval/job_spec.h"
#include "eval/launcher.h"
#include "eval/noise.h"
#include "eval/outcome.h"
#include "eval/source_lines.h"
#include "eval/spread.h"
#include "eval/verdict.h"

namespace sculler::eval {

struct LintProblem {
  std::string where, message, advice;
  std::string status = "LINT_ERROR";  // or CHEAT
};

class Linter {
 public:
  virtual ~Linter() = default;
  // The first problem, where there is one.
  [[nodiscard]] virtual std::optional<LintProblem> lint(const Job& job, const task::Task& task,
                                                        const task::Profile* profile) = 0;
};

// What this machine offers.
struct Machine {
  std::string containment;           // level's name
  std::string containment_why;       // empty at full
  std::vector<std::string> dropins;  // the emulator's libraries, preload order
  std::vector<std::string> cuda_libraries;
  std::string cuda_arch;  // of the first GPU, "90a"; empty: none
  int gpus = 0;
  int nccl_version = 0;
  int n_threads = 1;                   // that a cpu candidate may use
  std::string expected_cache;          // folder
  uint64_t expected_bytes = 0;         // its bound, kept before every job; 0: none
  std::map<Target, double> spreads{};  // the margins of comparisons that are recorded (spread.h)
  ClockReader* clocks = nullptr;       // null: not recorded
  SourceLines* lines = nullptr;        // null: calls in host code have none
  bool weak_checker = false;           // jobs may ask for one (eval/weaken.h)
  ExternalHost* external = nullptr;    // null: adapters are not started
  int gpu_checks = 1;                  // checks that share the GPUs at once; timings never do
  std::string lock_folder{};           // where evaluators of the machine take turns; empty: not
};

class Cascade {
 public:
  Cascade(Files& files, Linter& linter, Compiler& compiler, const Toolchain& toolchain,
          std::string share, Launcher& launcher, const Machine& machine)
      : files_(files),
        linter_(linter),
        artifacts_(compiler, toolchain, std::move(share)),
        launcher_(launcher),
        machine_(machine),
        device_(machine.gpu_checks, lock_file(machine, "gpus")),
        cores_(kMostChecks, lock_file(machine, "cores")) {}

  // Never fails: what goes wrong is INTERNAL with a message. Thread-safe.
  [[nodiscard]] Verdict run(const Job& job);
  // Comparisons of the job's candidate with itself and with a planted slowdown; a report in parts
  // where something failed (problem says what). `progress` sees each comparison as it ends.
  using NoiseProgress = std::function<void(const NoiseCase&)>;
  [[nodiscard]] NoiseReport noise(const Job& job, const NoisePlan& plan,
                                  const NoiseProgress& progress);

 private:
  struct Context;
  bool load(Context& c);
  bool lint(Context& c);
  bool compile(Context& c);
  bool emulate(Context& c);
  bool run_and_verify(Context& c);
  bool stress(Context& c);
  bool stress_inside(Context& c, Random& random);
  std::optional<task::Problem> hidden_size(Context& c, uint64_t seed, int index, int n_ranks,
                                           bool small);
  bool bench(Context& c);
  bool confirm(Context& c);
  // The end of a confirmation: what is measured anew stands, and a tie is no elite.
  bool measured_again(Context& c, bool (Cascade::*measure)(Context&));
  // The same for the target external (cascade_external.cpp).
  bool external_load(Context& c);
  bool external_lint(Context& c);
  bool external_compile(Context& c);
  bool external_run(Context& c);
  bool external_stress(Context& c);
  bool external_bench(Context& c);
  bool external_confirm(Context& c);
  bool external_fill(Context& c, const task::Problem& problem, const std::string& family,
                     uint64_t seed, int set, int content);
  static bool external_verify(Context& c, int set);
  void rate_external(Context& c);
  static void external_profile(Context& c);

  // Builds, launches, reads; adds to the verdict's costs under `stage`.
  // `variant`: the artifact to run in place of the candidate's.
  [[nodiscard]] RunResult launch(Context& c, const RunPlan& plan, Stage stage,
                                 const std::string* variant = nullptr);
  [[nodiscard]] Result<GroupSpec> group_spec(Context& c, const RunPlan& plan,
                                             const std::string& artifact, int64_t& timeout_ms,
                                             const char* label);
  [[nodiscard]] RunPaths paths(Context& c, Target target, const std::string& artifact);
  // Writes a failed run into the verdict; true where it passed.
  bool take(Context& c, const RunResult& result, Stage stage);
  bool backends(Context& c, Target target);
  void rate(Context& c, const task::Problem& problem);
  static void rate_cpu(Context& c, const task::Work& work);
  static void report(Context& c, BenchOutcome& outcome, const BenchPlan& bench);

  Files& files_;
  Linter& linter_;
  Artifacts artifacts_;
  Launcher& launcher_;
  const Machine& machine_;
  // Checks on cores are bounded by how many jobs run at once.
  static constexpr int kMostChecks = 1 << 20;
  static std::string lock_file(const Machine& machine, const std::string& what);
  Gate& gate_of(Target target) { return target == Target::kCpu ? cores_ : device_; }
  Gate device_, cores_;
};

}  // namespace sculler::eval
