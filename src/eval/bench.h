// Timing by turns: candidate and baselines live at once, a few iterations each a round, order
// reversed every other round, until every comparison is decided (docs/measuring.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "eval/launcher.h"
#include "eval/outcome.h"
#include "eval/statistics.h"

namespace sculler::eval {

struct BenchPlan {
  int iterations = 5;   // a group and turn
  int warm_up = 5;      // iterations before the first round, not kept
  int rounds = 12;      // where there is nothing to compare with
  int cold_rounds = 4;  // after the others, caches flushed before each iteration; 0: none
  StopRule stop{};
  // Runs shorter than this by their events are timed as graphs of several; 0: never.
  double replay_below_us = 0;
  int64_t ready_ms = 120'000;
  int64_t round_ms = 60'000;  // a turn
  int64_t most_ms = 60'000;   // rounds end here, decided or not
  uint64_t seed = 1;
};

struct Contestant {
  std::string name;  // "candidate" first, then baselines
  GroupSpec spec;
};

struct BenchOutcome {
  RunResult candidate;  // PASSED, or why the candidate failed
  // By name, µs, in order of measurement; where most were disturbed, the disturbed ones too, as the
  // checker corrected them.
  std::map<std::string, std::vector<double>> samples_us{}, cold_us{};
  std::map<std::string, std::vector<double>> disturbed_us{};
  std::map<std::string, std::vector<double>> rounds_us{};  // median of each hot round
  bool replayed = false;                                   // hot rounds were graphs of several runs
  std::map<std::string, Comparison> comparison{};          // baseline -> against the candidate
  std::map<std::string, Interval> cold_ratio{};            // baseline / candidate
  std::vector<std::vector<double>> rank_us{};              // of the candidate
  std::map<std::string, std::string> failed{};             // baselines that did not run, and why
  std::vector<std::string> notes{};  // drift, warming, disagreement of the clocks
  bool our_failure = false;  // a trusted process went away: nothing is known, worth another try
  double wall_ms = 0;        // of the rounds
};

// Contestants that stay alive between measurements: one pair of groups serves many comparisons.
class LiveBench {
 public:
  LiveBench(Launcher& launcher, BenchPlan plan, Clock& clock = real_clock())
      : launcher_(launcher), plan_(std::move(plan)), clock_(clock) {}
  ~LiveBench();
  LiveBench(const LiveBench&) = delete;
  LiveBench& operator=(const LiveBench&) = delete;

  // Starts a contestant and warms it up; the first is the candidate. False: failure() or failed().
  bool start(const Contestant& contestant);
  // Rounds until everything is decided. A candidate that fails ends it: outcome.candidate says why.
  [[nodiscard]] BenchOutcome measure(uint64_t seed);
  // Asks all groups to end and gives them a moment.
  void finish();
  [[nodiscard]] const RunResult& candidate() const { return candidate_; }

 private:
  struct Runner {
    std::string name;
    std::unique_ptr<Group> group;
    GroupSpec spec;  // to start it anew
  };
  // All end and start again. False where the candidate did not.
  bool renew();
  // What one contestant did in one round.
  struct Turn {
    bool good = false;
    double us = 0, region_us = 0;  // medians; region_us 0: not known
    int disagreeing = 0;           // iterations whose clocks do not agree
    bool replayed = false;
  };
  Turn turn(Runner& runner, const std::string& order, int64_t timeout_ms, BenchOutcome* keep,
            bool cold);
  bool play_round(BenchOutcome& out, bool cold);
  // Rounds until the comparisons that are not settled are decided, or the time is over.
  bool play_part(BenchOutcome& out, uint64_t seed);
  [[nodiscard]] double measured_ms() const;
  [[nodiscard]] bool settled() const;
  // The rounds since the last part as one more part of each comparison that is not settled.
  void judge_part(BenchOutcome& out, uint64_t seed);
  void judge(BenchOutcome& out, uint64_t seed) const;

  Launcher& launcher_;
  BenchPlan plan_;
  Clock& clock_;
  std::vector<Runner> runners_;
  RunResult candidate_{};
  std::map<std::string, std::string> failed_;
  std::string candidate_name_;
  bool reversed_ = false, replay_ = false;
  // Of the part that runs: by baseline, ln(baseline / candidate) of each round.
  std::map<std::string, std::vector<double>> log_ratios_, region_ratios_, cold_ratios_;
  std::map<std::string, std::vector<Comparison>> parts_;  // of the measurement that runs
  int64_t begin_ns_ = 0;                                  // of that measurement
  int disagreeing_ = 0;
  bool our_failure_ = false;
};

[[nodiscard]] BenchOutcome run_bench(Launcher& launcher, const std::vector<Contestant>& contestants,
                                     const BenchPlan& plan);

}  // namespace sculler::eval
