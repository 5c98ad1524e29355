// What is asked of a model in a round, frozen when it was decided, and what came of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/lesson.h"
#include "agent/plan.h"
#include "agent/prompt.h"
#include "llm/provider.h"
#include "search/candidate.h"

namespace sculler::search::beam {

// A program with its last verdict.
struct Kernel {
  int64_t program = 0;
  Candidate candidate;
  bool right = false;
  double speed = 0;                            // higher is better
  std::shared_ptr<const std::string> verdict;  // the evaluator's line
  std::string line;                            // the verdict in one line
  std::string measured{};                      // on GPUs, where the run's own times are predicted
};

struct Task {
  enum class Kind { kPlan, kKernel, kFix, kLesson };
  Kind kind = Kind::kPlan;
  int64_t index = 0;  // plans and lessons: of the plan; programs: of the attempt, over the run
  int64_t fix = 0;    // the n-th repair, from 1
  int64_t step = 0;   // of its first question among those of its role and index
  std::shared_ptr<const Kernel> program;  // that is changed; of a lesson the slower one
  std::shared_ptr<const Kernel> other;    // repair: the last that was right; lesson: the faster one
  std::string profile;                    // what was measured of it, as it is shown
  std::string plan;                       // empty: none
  std::string tried;                      // plan: what was tried on the program before
  // Plan: what was learnt, and how many items that are.
  std::shared_ptr<const std::vector<agent::Item>> memory;
  bool positive = true;   // lesson: the faster one is the new one
  std::string speedup{};  // lesson: what it is told; may be empty

  // By this an answer is known: that of the first question about it.
  [[nodiscard]] std::string name() const;
};

struct Done {
  std::shared_ptr<const Task> task;
  std::optional<agent::Plan> plan;
  std::shared_ptr<const Source> source;
  std::optional<agent::Lesson> lesson;
  std::string why;                     // what the model says it did
  std::string failure;                 // empty where something came of it
  std::string outcome;                 // "ok", "refused", "too_long", or llm::fault_name
  std::optional<llm::Failure> stop{};  // asking again cannot help
  std::string model;                   // of the last answer; empty: none came
  double usd = 0;

  [[nodiscard]] std::string name() const { return task->name(); }
};

}  // namespace sculler::search::beam
