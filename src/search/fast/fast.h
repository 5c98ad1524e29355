// The fast path's model loop, for programs that the built-in lowering refuses: rewrite → compile →
// emulate → run → judge, stage by stage within a budget, then the marks of what a search may
// change. Nothing that a model says is believed: a stage is done when the evaluator says PASSED,
// marks are marks when taking them out restores the text byte for byte.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "search/fast/record.h"
#include "search/fast/trial.h"
#include "search/fast/writer.h"

namespace sculler::search {

struct FastSettings {
  bool stage_b = true;  // false: windows and device communicator alone
  int64_t iterations_a = 5, iterations_b = 10;
  int64_t annotations = 3;  // answers of the annotator before marks are made without one; 0: none
  bool judge = true;
  double minutes = 0;         // of this life of the run; 0: no bound
  double call_seconds = 600;  // that a call may take at most
};

struct FastStart {
  std::string name, path, text;
  std::string refusal;        // why the built-in lowering did not do
  bool stage_a_done = false;  // `text` is what its stage A made
};

struct FastOutcome {
  std::string refusal;  // of the built-in lowering
  std::vector<FastStep> steps;
  std::string stage;                       // the last stage that passed: "", "A", "B"
  std::shared_ptr<const Source> verified;  // its program, without marks
  std::shared_ptr<const Source> marked;    // the end: null before
  std::string verdict;                     // of `marked`
  std::string marked_by;                   // "annotator" or "built-in"
  double usd = 0;                          // of the whole run
};

class FastPath {
 public:
  // Marks without a model.
  using Marker = std::function<Result<std::string>(std::string_view text, std::string_view origin)>;
  // Gets a line about each iteration.
  using Note = std::function<void(const FastStep&)>;

  FastPath(store::Store& store, Clock& clock, llm::Provider& provider, Trial& trial,
           FastSettings settings, Brief brief, Marker marker, Note note);

  // `start` is null where the store knows it. kNothingPassed where a budget of iterations is used
  // up or the program itself is not right, kUnsupported where there is nothing to lower, kTimeout,
  // kModel and kModelBudget as the provider says; what was done is kept in each case, and run()
  // goes on from there in another life.
  [[nodiscard]] Status run(const FastStart* start);
  [[nodiscard]] const FastOutcome& outcome() const { return outcome_; }

 private:
  struct Last {
    std::string text;      // evidence, or why the answer was of no use
    bool verdict = false;  // of the evaluator: a judge can say something about it
  };
  [[nodiscard]] Status restore(const FastStart* start);
  [[nodiscard]] Status remember(const FastStep& step);
  [[nodiscard]] Status stage(const std::string& name, int64_t budget);
  [[nodiscard]] FastStep next_step(const std::string& stage, int64_t number) const;
  [[nodiscard]] Status no_answer(const llm::Failure& fault, FastStep& step) const;
  // By the evaluator; what came of it is in `step`.
  [[nodiscard]] Result<Verdict> judge(const Candidate& candidate, FastStep& step);
  [[nodiscard]] Result<FastStep> iterate(const std::string& stage, int64_t number);
  [[nodiscard]] Status diagnose(FastView& view, FastStep& step);
  [[nodiscard]] Status marks();
  [[nodiscard]] Status mark_without_model();
  [[nodiscard]] Status judge_marked(std::shared_ptr<const Source> source, FastStep& step);
  [[nodiscard]] Status record(FastStep step);
  [[nodiscard]] Status stopped() const;
  [[nodiscard]] llm::Reply ask(llm::Request request);
  [[nodiscard]] Result<std::shared_ptr<const Source>> source_of(int64_t program);
  [[nodiscard]] int64_t count(const std::string& stage) const;
  [[nodiscard]] std::string history(const std::string& stage) const;
  // What the stage asks for and the text does not show; empty: nothing.
  [[nodiscard]] static std::string missing(const std::string& stage, const Source& source);

  store::Store& store_;
  Clock& clock_;
  llm::Provider& provider_;
  Trial& trial_;
  FastSettings settings_;
  FastWriter writer_;
  Marker marker_;
  Note note_;
  FastOutcome outcome_;
  std::string path_;
  std::shared_ptr<const Source> current_;
  Last last_;
};

}  // namespace sculler::search
