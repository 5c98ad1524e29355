// Strategy `beam` (AccelOpt, arXiv 2511.15915): in each round the programs that go on get plans,
// each plan gets programs, the best of each plan compete, and what pairs of programs teach is kept
// for the planners of later rounds. A round begins when all of the one before it is known, so that
// it is a function of the run's seed, the models' answers and the verdicts; their order counts only
// where two programs are equal or a budget ends in mid-round.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "search/asking.h"
#include "search/beam/facts.h"
#include "search/beam/memory.h"
#include "search/beam/selection.h"
#include "search/beam/writer.h"
#include "search/pool.h"
#include "search/strategy.h"
#include "store/shared_memory.h"

namespace sculler::search::beam {

struct BeamRun : AskingRun {
  std::string task{}, target{};           // names, for the memory
  store::SharedMemory* shared = nullptr;  // null: nothing is taken over or handed on
  std::string name{};                     // of the run, for it
};

class Beam final : public Strategy {
 public:
  Beam(std::vector<std::shared_ptr<const Source>> seeds, BeamSettings settings, BeamRun run,
       llm::Provider& provider, Brief brief, store::Store& store);
  ~Beam() override;

  // Reads what the store knows of this run; before anything else. kBadInput where a prompt is
  // wrong.
  [[nodiscard]] Status restore();

  [[nodiscard]] std::vector<Candidate> propose(std::size_t limit) override;
  void told(const Outcome& outcome) override;
  [[nodiscard]] bool exhausted() const override;
  [[nodiscard]] Status advance() override;
  [[nodiscard]] bool waiting() const override { return asked_ > 0; }
  [[nodiscard]] bool settling() const override {
    return phase_ == Phase::kLessons || (phase_ == Phase::kRound && room() == 0);
  }
  [[nodiscard]] Result<bool> take(int64_t timeout_ms, std::string_view name) override;
  [[nodiscard]] int wake_fd() const override { return pool_->wake_fd(); }
  [[nodiscard]] double usd() const override { return provider_.usage().usd; }
  [[nodiscard]] std::string why() const override { return why_; }
  void finish() override;
  [[nodiscard]] std::optional<Error> stopped_by() const override { return stopped_by_; }

  [[nodiscard]] const std::vector<MemoryItem>& memory() const { return memory_.items(); }
  // Programs that go on, fastest first.
  [[nodiscard]] const std::vector<Sample>& candidates() const { return beam_; }
  // Ended ones.
  [[nodiscard]] int64_t rounds() const { return round_; }

 private:
  enum class Phase { kSeeds, kTiming, kRound, kLessons, kEnd };

  // One of K programs of a plan, with its repairs.
  struct Attempt {
    int64_t index = 0, fix = 0;
    bool over = false, timed_out = false;
    std::string model;  // that wrote its program in this life
    std::optional<Sample> right;
  };
  struct Planned {
    int64_t index = 0;
    std::shared_ptr<const Kernel> candidate;
    bool answered = false;
    std::string plan;
    std::vector<std::string> uses;  // keys of items
    std::vector<Attempt> attempts;

    [[nodiscard]] bool over() const;
  };

  // beam.cpp
  [[nodiscard]] Status issue();
  [[nodiscard]] Status answer_known(const Task& task, bool& known);
  [[nodiscard]] Status accept(Done done);
  [[nodiscard]] Status accept_plan(PlanFact fact);
  [[nodiscard]] Status accept_kernel(const KernelFact& fact,
                                     const std::shared_ptr<const Source>& source);
  void settle(Attempt& attempt, const std::shared_ptr<const Kernel>& kernel);
  void reward(const Attempt& attempt, const Kernel& kernel);
  void unusable(const std::string& what);
  void stop(const llm::Failure& failure);
  void end(std::string why);
  void note(const std::string& text) const;
  // Candidates that the budget takes beside those that are asked for; without a bound as many as
  // can be counted.
  [[nodiscard]] int64_t room() const;
  [[nodiscard]] Attempt& attempt(int64_t index);
  [[nodiscard]] Planned& planned(int64_t index);
  [[nodiscard]] Planned& planned_of(const Attempt& attempt);
  [[nodiscard]] std::shared_ptr<const Kernel> kernel_of(const Outcome& outcome) const;
  [[nodiscard]] std::string who(const Task& task, const std::string& model) const;

  // rounds.cpp
  [[nodiscard]] Status begin_search();
  void begin_timing();
  [[nodiscard]] Status end_timing();
  [[nodiscard]] Status begin_round();
  [[nodiscard]] std::vector<std::shared_ptr<const Kernel>> slots(RoundFact& fact);
  void begin_attempts(Planned& planned);
  void close_round();
  void begin_lessons(const std::vector<Group>& groups);
  [[nodiscard]] Status accept_lesson(const Done& done);
  void end_lessons();
  [[nodiscard]] Status take_over();
  void share(const Status& ok);
  [[nodiscard]] std::vector<Group> groups() const;
  [[nodiscard]] Sample sample_of(const Kernel& kernel) const;
  [[nodiscard]] std::string names(const std::vector<Sample>& samples) const;

  BeamSettings settings_;
  BeamRun run_;
  llm::Provider& provider_;
  store::Store& store_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Pool<Task, Done>> pool_;
  Facts facts_;  // of earlier lives
  Memory memory_;

  std::vector<std::shared_ptr<const Source>> seeds_;
  std::set<std::string> seed_hashes_, hashes_;  // of texts; the second of all of them
  std::size_t seeds_proposed_ = 0, seeds_told_ = 0;

  Phase phase_ = Phase::kSeeds;
  int64_t round_ = 0;
  std::vector<Sample> beam_, first_;  // the second: what the search began with
  RoundFact fact_;                    // of the current round
  std::vector<Planned> plans_;        // of the current round
  struct Lesson {
    Pair pair;
    std::optional<MemoryItem> item;
    bool over = false;
  };
  std::vector<Lesson> lessons_;  // of the current round
  std::size_t owed_ = 0;         // timings

  std::map<int64_t, std::shared_ptr<const Kernel>> kernels_;  // with a verdict, by program
  std::map<int64_t, std::vector<int64_t>> owners_;            // program → attempts that wait for it
  std::map<int64_t, std::vector<std::string>> tried_;         // program → plans, newest last
  std::deque<std::shared_ptr<const Task>> tasks_;             // to be asked
  std::deque<Candidate> ready_;
  int64_t next_plan_ = 0, next_kernel_ = 0;
  int64_t candidates_ = 0;  // that came of attempts
  int64_t writing_ = 0;     // programs that are being asked for
  // Programs of earlier lives whose turn has not come in this one: they have their part of the
  // budget, so that a question of this life does not take it.
  std::set<int64_t> known_;
  int64_t unusable_ = 0;   // answers one after another
  std::size_t asked_ = 0;  // not taken yet
  std::string why_ = "rounds";
  std::optional<Error> stopped_by_;
  bool stopping_ = false;
};

}  // namespace sculler::search::beam
