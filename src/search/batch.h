// Job folders for GPUs that are reached in batches (docs/internals.md): while a run goes on with
// predicted times, its best programs are packed for another machine; the verdicts that come back
// from there are taken in when they come, in this life of the run or in a later one.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "search/candidate.h"
#include "search/evaluator.h"
#include "search/job.h"

namespace sculler::search {

struct BatchSettings {
  std::string folder;       // this run's; batches are folders 1, 2, … in it
  JobFrame frame;           // of the jobs that are measured
  int64_t every = 8;        // evaluated programs from one batch to the next
  int64_t programs = 4;     // in a batch
  int64_t most = 4;         // batches
  double wait_minutes = 0;  // at the run's end, for verdicts that are owed
};

class Batches {
 public:
  // Fills `folder` from job lines, run.sh included (sculler-eval --pack); called on another thread,
  // one call at a time.
  using Pack = std::function<Status(const std::string& folder, const std::string& lines)>;
  // `how`: on a thread of its own, or (tests) when it is looked for.
  Batches(Files& files, BatchSettings settings, Pack pack, std::launch how = std::launch::async);
  ~Batches();

  [[nodiscard]] const BatchSettings& settings() const { return settings_; }
  // What is measured beside each program, known when the baselines are.
  void compare_with(const std::string& baseline) { settings_.frame.compare = {baseline}; }
  // A program that passed, or passed anew with another score.
  void passed(int64_t program, const Candidate& candidate, double score);
  // It passes no more.
  void failed(int64_t program);
  void evaluated() { ++evaluated_; }
  // Every so many programs; the last batch is kept for the end.
  [[nodiscard]] bool due() const;
  [[nodiscard]] bool any_left() const { return batches_ < settings_.most; }

  struct Member {
    std::string job;
    int64_t program = 0;
    Candidate candidate;
    double predicted = 0;  // its score
  };
  // The best that were in no batch, best first; they count as given out from now on.
  [[nodiscard]] std::vector<Member> choose();
  // Packs them into the next folder, in the background, and awaits their verdicts. A replay only
  // awaits. Gives the folder.
  [[nodiscard]] std::string start(const std::vector<Member>& members, bool replaying);
  // Of an earlier life: given out, without a verdict here.
  void await(Member member);

  [[nodiscard]] bool waiting() const { return !owed_.empty(); }
  [[nodiscard]] std::size_t owed() const { return owed_.size(); }
  [[nodiscard]] bool owes(const std::string& job) const { return owed_.count(job) > 0; }
  // A verdict that has come back, each once.
  [[nodiscard]] std::optional<Answer> next();
  // The program a verdict was awaited for; it is awaited no more.
  [[nodiscard]] std::optional<Member> settle(const std::string& job);
  // A batch that could not be packed, each reason once.
  [[nodiscard]] std::optional<Error> trouble();

 private:
  struct Passed {
    Candidate candidate;
    double score = 0;
  };
  void packed();

  Files& files_;
  BatchSettings settings_;
  Pack pack_;
  std::launch how_;
  std::map<int64_t, Passed> passed_;
  std::set<int64_t> given_;
  std::map<std::string, Member> owed_;  // by job
  std::future<Status> packing_;
  std::string packing_folder_;
  std::optional<Error> trouble_;
  int64_t evaluated_ = 0, at_ = 0, batches_ = 0;
};

}  // namespace sculler::search
