// The facts of a beam search in the run's store, each written when it became true: rounds when they
// are decided, answers when they were read. A run that goes on takes the same way by them, and asks
// what was not answered under the same name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "search/beam/memory.h"
#include "search/beam/task.h"
#include "store/store.h"

namespace sculler::search::beam {

struct RoundFact {
  int64_t round = 0;
  int64_t plans = 0;                         // in all, dealt to the candidates in turn
  int64_t kernels = 0;                       // a plan
  int64_t first_plan = 0, first_kernel = 0;  // indices
  std::vector<int64_t> candidates;           // programs
};

struct PlanFact {
  int64_t index = 0;
  std::string outcome, failure, model;
  std::string plan;               // as the executor sees it
  std::vector<std::string> uses;  // keys of items
};

struct KernelFact {
  int64_t index = 0, fix = 0;
  std::string outcome, failure, model, why;
  int64_t program = 0;  // 0: none came of it
  int64_t parent = 0;
};

struct Facts {
  std::map<int64_t, RoundFact> rounds;
  std::map<int64_t, PlanFact> plans;
  std::map<std::pair<int64_t, int64_t>, KernelFact> kernels;  // by index and repair
  // By plan, slow and fast program; empty where no item came of it.
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::optional<MemoryItem>> lessons;
  std::optional<std::vector<MemoryItem>> shared;  // taken over when the run began
};

[[nodiscard]] Status add_round(store::Store& store, const RoundFact& fact);
[[nodiscard]] Status add_plan(store::Store& store, const PlanFact& fact, double usd);
// The program of `done` is written with it; its id goes into `fact`.
[[nodiscard]] Status add_kernel(store::Store& store, KernelFact& fact, const Done& done);
[[nodiscard]] Status add_lesson(store::Store& store, const Done& done,
                                const std::optional<MemoryItem>& item);
[[nodiscard]] Status add_shared(store::Store& store, const std::vector<MemoryItem>& items);
[[nodiscard]] Result<Facts> read_facts(store::Store& store);

}  // namespace sculler::search::beam
