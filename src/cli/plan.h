// From settings and machine to what a run does: target, profile, ranks, sizes, baselines, seeds; or
// why it cannot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/machine.h"
#include "cli/settings.h"
#include "search/job.h"
#include "task/profile.h"
#include "task/task.h"

namespace sculler::cli {

struct Plan {
  task::Task task;
  std::optional<task::Profile> profile;
  std::string target;      // "emu", "cuda", "cpu"
  std::string why_target;  // a sentence for people
  int n_ranks = 1;
  search::JobFrame frame;  // search stages
  directive::Topology topology;
  int parallel = 1;
  std::string replayed{};  // the cassette; empty: the run asks and evaluates
};

// Fills `settings` where they said "auto" or 0.
[[nodiscard]] Result<Plan> make_plan(const App& app, const Home& home, const Machine& machine,
                                     Settings& settings);
// With the user's folders and what this machine has.
[[nodiscard]] Result<Plan> make_plan(const App& app, Settings& settings);

// "target emu: no GPU here; times are predicted for h200x2 at size default, not measured"
[[nodiscard]] std::string target_line(const Plan& plan);
// "task gemm_allgather, 2 ranks, bf16; verified at size emu (S 512 K 256 N 512), tolerance 4.1e-3"
[[nodiscard]] std::string task_line(const Plan& plan);

// "replayed from run.jsonl: answers and verdicts are recorded, nothing is asked or evaluated";
// empty where it is none.
[[nodiscard]] std::string replay_line(const Plan& plan);

}  // namespace sculler::cli
