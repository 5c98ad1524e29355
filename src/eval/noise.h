// How far this machine's comparisons of a program with itself are off, and how often a planted
// slowdown is called: the statistics judged by what they are for (docs/measuring.md).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "eval/bench.h"
#include "eval/job.h"
#include "eval/statistics.h"

namespace sculler::eval {

// "noise" of a job line; docs/internals.md.
struct NoisePlan {
  int calibrate = 30;  // A/A comparisons that give the recorded spread; 0: the recorded one is used
  int aa = 0;          // A/A comparisons that are judged by it
  double planted = 0;  // extra fraction of the candidate's time
  int planted_n = 0;   // comparisons of the candidate with that variant
  int per_pair = 25;   // comparisons that one pair of runner groups serves
  double seconds = 0;  // no comparison is begun after this; 0: no bound
  bool programs = false;  // the baselines against themselves too, each recorded by name
};
[[nodiscard]] Result<NoisePlan> parse_noise(std::string_view job_text, std::string_view origin);
[[nodiscard]] std::string print_noise(const NoisePlan& plan);

struct NoiseCase {
  std::string kind;  // "calibrate", "aa", "planted"
  std::string program;
  int pair = 0;
  Interval ratio{};
  std::string call;
  int rounds = 0;
  double ms = 0;
  bool decided = true;  // false: ended by time, or too much of it was disturbed
};

struct NoiseReport {
  std::string problem;  // why it did not run; empty: it did
  std::vector<NoiseCase> cases;
  std::vector<double> pair_start_ms;  // what each pair of groups took to start
  double margin = 0;                  // that "aa" and "planted" were judged by
  bool calibrated = false;            // the margin was measured here
  std::string margin_from;
  std::string clocks = "{}";
  double ms = 0;
};

// Called FASTER or SLOWER among the cases of a kind; for "planted" only SLOWER counts.
struct CallRate {
  int called = 0, wrong_way = 0, n = 0;
  Interval rate{};  // Wilson
};
[[nodiscard]] CallRate call_rate(const NoiseReport& report, std::string_view kind);
// For people, several lines.
[[nodiscard]] std::string noise_text(const NoiseReport& report, const NoisePlan& plan,
                                     std::string_view target, std::string_view task,
                                     std::string_view size);
[[nodiscard]] std::string noise_json(const NoiseReport& report, const NoisePlan& plan);

// The candidate's source with `fraction` of its own time spent once more after each run: on cpu by
// the clock of the call, on cuda by a kernel that waits as long on the candidate's stream.
[[nodiscard]] std::string planted_source(std::string_view text, double fraction, bool cuda);

}  // namespace sculler::eval
