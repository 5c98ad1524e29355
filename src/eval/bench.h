// Timing by turns: candidate and baselines live at once, a few iterations each a round, order
// reversed every other round.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "eval/launcher.h"
#include "eval/outcome.h"
#include "eval/statistics.h"

namespace sculler::eval {

struct BenchPlan {
  int rounds = 10;
  int iterations = 4;  // a group and round
  int warm_up = 5;     // iterations before the first round, not kept
  int64_t ready_ms = 120'000;
  int64_t round_ms = 60'000;
  uint64_t seed = 1;
};

struct Contestant {
  std::string name;  // "candidate" first, then baselines
  GroupSpec spec;
};

struct BenchOutcome {
  RunResult candidate;                                    // PASSED, or why the candidate failed
  std::map<std::string, std::vector<double>> samples_us;  // by name, in order of measurement
  std::vector<std::vector<double>> rank_us;               // of the candidate
  std::map<std::string, std::string> failed;              // baselines that did not run, and why
  bool our_failure = false;  // a trusted process went away: nothing is known, worth another try
};

[[nodiscard]] BenchOutcome run_bench(Launcher& launcher, const std::vector<Contestant>& contestants,
                                     const BenchPlan& plan);

}  // namespace sculler::eval
