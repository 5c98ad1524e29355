// The loop of a run: proposes, writes attempts before it sends them, takes verdicts, keeps the
// best, confirms it. A run that was killed goes on by the same loop: what the store already knows
// is told without being evaluated again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "llm/tape.h"
#include "search/batch.h"
#include "search/correction.h"
#include "search/evaluator.h"
#include "search/job.h"
#include "search/strategy.h"
#include "search/table.h"
#include "search/verdict.h"
#include "store/store.h"

namespace sculler::search {

struct RunSettings {
  JobFrame frame;           // stages and seed of the search
  int64_t budget = 40;      // candidates, baselines and confirmations not counted; 0: no bound
  double minutes = 0;       // 0: no bound
  int64_t patience = 0;     // candidates without a better one (by 0.5 %); 0: no bound
  double target_ratio = 0;  // over the best baseline; 0: none
  double stop_at_percent_sol = 95;
  int in_flight = 2;
  int confirm = 3;             // elites to try to confirm at the end, 0: none
  std::string spool;           // folder
  bool show_all = true;        // every row, else only improvements and failures of seeds
  bool show_proposer = false;  // a column for who proposed it
};

struct Elite {
  int64_t program = 0;
  Candidate candidate;
  Verdict verdict;
  std::string verdict_text;
  double predicted = 0;                 // the score by the run's own verdict
  double score = 0;                     // measured, or predicted and corrected by what was measured
  std::map<std::string, double> ratio;  // over each baseline
  bool confirmed = false;
  std::optional<Verdict> measured{};  // on GPUs, in a batch
  std::string measured_text{};

  // ", confirmed on fresh seeds", where its speed was not decided there too; ", not confirmed".
  [[nodiscard]] std::string confirmation() const;
};

struct Summary {
  std::optional<Elite> best;
  std::map<std::string, double> baseline_us;
  std::string best_baseline;
  Tally tally;
  std::string why;  // why it ended: "budget", "time", "patience", "target", "speed of light",
                    // "space used up", "interrupted"
  int64_t from_store = 0;  // verdicts that were there already
};

class Run {
 public:
  Run(store::Store& store, Files& files, Clock& clock, Evaluator& evaluator, Strategy& strategy,
      Progress& progress, Log& log, RunSettings settings);

  [[nodiscard]] Result<Summary> execute(const std::vector<Candidate>& baselines);
  // Recorded or replayed: the order in which answers and verdicts are taken in, and the verdicts.
  llm::Tape* tape = nullptr;
  // Programs measured elsewhere while the run predicts; null: none.
  Batches* batches = nullptr;
  // From a signal handler: ends after the verdicts that are awaited were left behind.
  std::atomic<bool>* interrupted = nullptr;

 private:
  struct Flight {
    Candidate candidate;
    int64_t program = 0;
    bool confirmation = false;
  };

  [[nodiscard]] Status start(Candidate candidate, const JobFrame& frame, bool confirmation);
  [[nodiscard]] Status wait_for_one();
  [[nodiscard]] Status advance();
  [[nodiscard]] Status replay_one();
  [[nodiscard]] JobFrame confirm_frame() const;
  [[nodiscard]] JobFrame frame_of(const Candidate& candidate) const;
  [[nodiscard]] Status keep(const std::string& job, const store::Evaluation& evaluation);
  [[nodiscard]] Status finish(const std::string& job, std::string text, bool known);
  [[nodiscard]] Status drain();
  [[nodiscard]] Status confirm_best();
  // run_batches.cpp
  [[nodiscard]] Status start_batch();
  [[nodiscard]] Status known_measurement(int64_t program, const Candidate& candidate,
                                         double predicted);
  [[nodiscard]] Result<bool> take_measurement();
  [[nodiscard]] Status measured(const std::string& job, const std::string& text, bool known);
  [[nodiscard]] Status await_batches();
  void rank_again();
  [[nodiscard]] Status keep_measured();
  void confirmed(const Elite& elite, const std::string& text);
  void place(Elite elite);
  void timed_again(Elite elite, const std::string& text);
  [[nodiscard]] Status consider(const Flight& flight, const Verdict& verdict,
                                const std::string& text);
  void show(const Flight& flight, const Verdict& verdict, const std::optional<double>& ratio);
  [[nodiscard]] bool is_stopped();
  [[nodiscard]] double seconds() const;
  [[nodiscard]] std::map<std::string, double> ratios(const Verdict& verdict) const;
  void live();

  store::Store& store_;
  Files& files_;
  Clock& clock_;
  Evaluator& evaluator_;
  Strategy& strategy_;
  Progress& progress_;
  Log& log_;
  RunSettings settings_;
  std::unordered_map<std::string, Flight> flights_;
  std::vector<Elite> elites_;  // best first, at most a few
  Correction correction_;
  struct Measured {
    Verdict verdict;
    std::string text;
    Batches::Member member;
  };
  std::map<int64_t, Measured> measured_;  // by program
  std::optional<std::pair<Elite, bool>> last_confirmation_;
  Summary summary_;
  std::map<std::string, std::pair<Flight, Verdict>>
      baseline_rows_;  // shown together, when all are there
  int64_t start_ns_ = 0, since_better_ = 0;
  std::string reference_baseline_;
};

}  // namespace sculler::search
