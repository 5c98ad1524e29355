#include "search/beam/facts.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "search/kept.h"

namespace sculler::search::beam {
namespace {

constexpr std::string_view kRound = "beam_round", kPlan = "beam_plan", kKernel = "beam_kernel",
                           kLesson = "beam_lesson", kShared = "beam_shared";
constexpr std::string_view kPositive = "slow_fast", kNegative = "fast_slow", kTaken = "shared";
constexpr std::size_t kFailure = 600;

std::string short_failure(const std::string& text) { return printable(shorten(text, kFailure)); }

void read_fact(const std::string& kind, const nlohmann::json& fact, Facts& out) {
  const int64_t index = int_or(fact, "index", -1);
  if (kind == kRound) {
    RoundFact round{index,
                    int_or(fact, "plans", 0),
                    int_or(fact, "kernels", 0),
                    int_or(fact, "first_plan", 0),
                    int_or(fact, "first_kernel", 0),
                    ints_of(fact, "candidates")};
    out.rounds[index] = std::move(round);
  } else if (kind == kPlan) {
    out.plans[index] = {index,
                        string_or(fact, "outcome", ""),
                        string_or(fact, "failure", ""),
                        string_or(fact, "model", ""),
                        string_or(fact, "plan", ""),
                        strings_of(fact, "uses")};
  } else if (kind == kKernel) {
    const int64_t fix = int_or(fact, "fix", 0);
    out.kernels[{index, fix}] = {index,
                                 fix,
                                 string_or(fact, "outcome", ""),
                                 string_or(fact, "failure", ""),
                                 string_or(fact, "model", ""),
                                 string_or(fact, "why", ""),
                                 int_or(fact, "program", 0),
                                 int_or(fact, "parent", 0)};
  } else if (kind == kLesson) {
    out.lessons[{index, int_or(fact, "slow", 0), int_or(fact, "fast", 0)}];
  } else if (kind == kShared) {
    if (!out.shared) out.shared.emplace();
  }
}

}  // namespace

Status add_round(store::Store& store, const RoundFact& f) {
  return store.add_event(kRound, dump_json({{"index", f.round},
                                            {"plans", f.plans},
                                            {"kernels", f.kernels},
                                            {"first_plan", f.first_plan},
                                            {"first_kernel", f.first_kernel},
                                            {"candidates", f.candidates}}));
}

Status add_plan(store::Store& store, const PlanFact& f, double usd) {
  nlohmann::json fact{{"index", f.index}, {"outcome", f.outcome}, {"usd", usd}};
  if (!f.model.empty()) fact["model"] = f.model;
  if (!f.failure.empty()) fact["failure"] = short_failure(f.failure);
  if (!f.plan.empty()) fact["plan"] = f.plan;
  if (!f.uses.empty()) fact["uses"] = f.uses;
  return store.add_event(kPlan, dump_json(fact));
}

Status add_kernel(store::Store& store, KernelFact& f, const Done& done) {
  auto transaction = store.begin();
  if (!transaction) return fail(transaction.error());
  if (done.source) {
    Candidate candidate = usual(done.source, "model");
    candidate.parent = f.parent;
    candidate.why = f.why;
    auto id = store.add_program(program_of(candidate), done.source->text);
    if (!id) return fail(id.error());
    f.program = *id;
  }
  nlohmann::json fact{
      {"index", f.index}, {"outcome", f.outcome}, {"usd", done.usd}, {"parent", f.parent}};
  if (f.fix > 0) fact["fix"] = f.fix;
  if (f.program > 0) fact["program"] = f.program;
  if (!f.model.empty()) fact["model"] = f.model;
  if (!f.why.empty()) fact["why"] = f.why;
  if (!f.failure.empty()) fact["failure"] = short_failure(f.failure);
  if (auto ok = store.add_event(kKernel, dump_json(fact)); !ok) return ok;
  return transaction->commit();
}

Status add_lesson(store::Store& store, const Done& done, const std::optional<MemoryItem>& item) {
  const int64_t slow = done.task->program->program, fast = done.task->other->program;
  nlohmann::json fact{{"index", done.task->index},
                      {"slow", slow},
                      {"fast", fast},
                      {"outcome", done.outcome},
                      {"usd", done.usd}};
  if (!done.model.empty()) fact["model"] = done.model;
  if (!done.failure.empty()) fact["failure"] = short_failure(done.failure);
  auto transaction = store.begin();
  if (!transaction) return fail(transaction.error());
  if (item) {
    if (auto ok =
            store.add_memory_item(item->positive ? kPositive : kNegative, slow, fast, print(*item));
        !ok)
      return ok;
  }
  if (auto ok = store.add_event(kLesson, dump_json(fact)); !ok) return ok;
  return transaction->commit();
}

Status add_shared(store::Store& store, const std::vector<MemoryItem>& items) {
  auto transaction = store.begin();
  if (!transaction) return fail(transaction.error());
  for (const auto& item : items)
    if (auto ok = store.add_memory_item(kTaken, 0, 0, print(item)); !ok) return ok;
  if (auto ok = store.add_event(kShared, dump_json({{"items", items.size()}})); !ok) return ok;
  return transaction->commit();
}

Result<Facts> read_facts(store::Store& store) {
  Facts out;
  Status inner;
  auto ok = store.each_event([&](const std::string& kind, const std::string& text) {
    if (!inner || !kind.starts_with("beam_")) return;
    auto fact = parse_json(text, "event " + kind);
    if (fact) read_fact(kind, *fact, out);
    else inner = fail(fact.error());
  });
  if (!ok) return fail(ok.error());
  if (!inner) return fail(inner.error());
  ok = store.each_memory_item(
      [&](const std::string& kind, int64_t slow, int64_t fast, const std::string& text) {
        auto item = parse_item(text);
        if (!item) {
          if (inner) inner = fail(item.error());
          return;
        }
        if (kind != kTaken) out.lessons[{item->plan, slow, fast}] = std::move(*item);
        else if (out.shared) out.shared->push_back(std::move(*item));
      });
  if (!ok) return fail(ok.error());
  if (!inner) return fail(inner.error());
  return out;
}

}  // namespace sculler::search::beam
