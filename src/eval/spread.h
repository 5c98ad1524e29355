// A machine's own A/A spread: how far comparisons of a program with itself have been off, recorded
// in the cache by `sculler bench noise`, used as the margin of FASTER and SLOWER.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "eval/job.h"
#include "eval/statistics.h"

namespace sculler::eval {

struct Spread {
  double fraction = 0;             // the margin: 0.01 is 1 %
  int comparisons = 0, pairs = 0;  // what it was found by: comparisons, fresh pairs of groups
  std::string task, size, date;
};

// Where nothing is recorded for a machine.
[[nodiscard]] double default_spread(Target target);
// How comparisons on a target are stopped, margin not set yet.
[[nodiscard]] StopRule stop_rule(Target target);

// From A/A comparisons, ln(ratio) by pair of groups: three times the median over pairs of a pair's
// median deviation (two standard deviations of what pairs differ by, whatever bursts hit some of
// them), at least a floor of the target's. Two groups of one program differ by what they got for
// memory and cores, and keep that difference as long as they live: no number of rounds averages it
// out. What single comparisons differ by is in their intervals already.
[[nodiscard]] double spread_of(const std::map<int, std::vector<double>>& log_ratios, Target target);

// CACHE/noise.json, one entry a machine and target. `machine` is machine_key().
[[nodiscard]] std::optional<Spread> load_spread(Files& files, const std::string& cache,
                                                const std::string& machine, Target target);
[[nodiscard]] Status save_spread(Files& files, const std::string& cache, const std::string& machine,
                                 Target target, const Spread& spread);
// "AMD EPYC, 2 cores" or "2 x NVIDIA H200, driver 550.1".
[[nodiscard]] std::string cpu_key(Files& files, int cores);

}  // namespace sculler::eval
