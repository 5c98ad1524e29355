// A job as it arrives: one JSON line, written by an orchestrator but holding text that a model
// wrote.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sculler::eval {

// The gates, in the order in which they are passed: cheap before dear.
enum class Stage : uint8_t { kLint, kCompile, kEmulate, kRun, kStress, kBench, kConfirm };
[[nodiscard]] std::string_view stage_name(Stage stage);
[[nodiscard]] Result<Stage> parse_stage(std::string_view name);

enum class Target : uint8_t { kCuda, kEmu, kCpu, kExternal };
[[nodiscard]] std::string_view target_name(Target target);
[[nodiscard]] Result<Target> parse_target(std::string_view name);

struct SourceFile {
  std::string name;  // [A-Za-z0-9_.-]+, no leading dot
  std::string text;
};

// Artifacts that came with a job folder; absolute paths, empty where none was carried.
struct Carried {
  std::string candidate, rank_backend, verify_backend, reference;
  std::string planted;   // the candidate with a planted slowdown (noise.h)
  std::string stressed;  // with waits at its synchronisation points (stress_ptx.h)
  std::map<std::string, std::string> baselines;  // name -> shared object
  int nccl_version = 0;                          // of the headers that they were built with
};

// emu: how every emulation of the job is scheduled; kind empty: the stages choose. More iterations
// leave more room for different orders.
struct JobSchedule {
  std::string kind;  // round_robin, random, priority, delay_rank
  int64_t seed = 1;
  int delayed_rank = 0;
  int iterations = 0;  // beside the warm-up; 0: the stages choose
};

struct Job {
  std::string id;       // 64 lower-case hex digits; an opaque name
  std::string task;     // folder
  std::string profile;  // file, may be empty
  std::string adapter;  // external: its adapter.toml
  Target target = Target::kEmu;
  int n_ranks = 1;
  int nodes = 1;                  // emu: the ranks lie on so many, the same number each
  std::vector<SourceFile> files;  // files[0] is the translation unit
  std::vector<std::pair<std::string, std::string>> defines;
  std::string directive = "{}";  // JSON object as text
  bool has_directive = false;
  std::string parent;  // source whose frozen text must be kept; empty: not checked
  std::string size;
  std::string predict_size;  // empty: no prediction
  std::string baseline_of;   // the candidate is this baseline of the task
  std::vector<std::string> compare;
  bool compare_all = true;  // `compare` was missing
  uint64_t seed = 1;
  std::vector<Stage> stages;  // sorted, each once
  JobSchedule schedule{};
  bool operations = false;  // emu: what each operation read and wrote goes into the verdict's trace
  int64_t limit_s = 0;      // of a run, below the task's own; 0: the task's
  std::string checker;      // empty: full; else a weakened one (eval/weaken.h), never in a real run
  Carried carried{};

  [[nodiscard]] bool wants(Stage stage) const;
  [[nodiscard]] bool is_cuda_source() const;  // files[0] ends in .cu
};

// Bounds everything: names, sizes, counts. `origin` names the sender in errors.
[[nodiscard]] Result<Job> parse_job(std::string_view text, std::string_view origin);
// The job line again (without carried artifacts).
[[nodiscard]] std::string print_job(const Job& job);
// 64 lower-case hex digits: the only ids that may become file names.
[[nodiscard]] bool is_job_id(std::string_view id);

}  // namespace sculler::eval
