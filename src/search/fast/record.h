// The facts of a lowering by models in the run's store: what it starts from, and every iteration
// when it has ended. A run that goes on reads them; an iteration without an end is done again, and
// the answers that it has had are in the store as well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace sculler::search {

struct FastStep {
  std::string stage;   // "A", "B", "marks"
  int64_t number = 0;  // within the stage, from 1
  int64_t index = 0;   // within the run, from 0: that of its questions
  // "judged"; "unfinished": the stage's own work is missing; "refused": an answer that cannot be
  // used; "built-in": marks without a model; else llm::fault_name.
  std::string outcome;
  std::string failure;    // why there is no verdict
  int64_t program = 0;    // 0: none
  std::string job;        // of the verdict
  std::string status;     // of the verdict
  std::string line;       // verdict or failure in one line
  std::string diagnosis;  // that the model was given
  std::string judge;      // "": none was asked; "ok", "refused: why", or the fault
  std::string why;        // what the model says it did
  std::string model;
  double usd = 0;
  bool passed = false;
};

struct FastBegin {
  int64_t program = 0;  // in the store
  std::string name, path;
  std::string refusal;        // why the built-in lowering did not do
  bool stage_a_done = false;  // the program is what its stage A made
};

struct FastFacts {
  std::optional<FastBegin> begin;
  std::vector<FastStep> steps;
};

[[nodiscard]] Status add_begin(store::Store& store, const FastBegin& begin);
[[nodiscard]] Status add_step(store::Store& store, const FastStep& step);
// In order of writing.
[[nodiscard]] Result<FastFacts> read_facts(store::Store& store);
// "A 2  RACE at candidate.cu:84: …".
[[nodiscard]] std::string step_line(const FastStep& step);

}  // namespace sculler::search
