// The stress stage: odd inputs, hidden sizes, other numbers of ranks, shifted buffers, one input
// twice, and ranks that are late (docs/measuring.md).
#include <limits>

#include "eval/cascade_context.h"
#include "eval/stress_ptx.h"

namespace sculler::eval {
namespace {

constexpr uint64_t kDelay = 200'000;       // ns, bound of each rank's draw
constexpr uint64_t kLateRank = 2'000'000;  // ns, of the one rank that is late

// A warm-up, then one content on two sets (fresh addresses: the runs must agree), then `more`
// others.
std::vector<Iteration> repeating_iterations(Random& random, int n_sets, int more) {
  std::vector<int> sets, contents;
  for (int i = 0; i < n_sets; ++i) {
    sets.push_back(i);
    contents.push_back(i);
  }
  for (auto* list : {&sets, &contents}) {
    for (std::size_t i = list->size(); i > 1; --i)
      std::swap((*list)[i - 1], (*list)[random.below(i)]);
  }
  const auto at = [&](int i) { return static_cast<std::size_t>(i % n_sets); };
  std::vector<Iteration> out;
  out.push_back({.set = sets[at(0)], .warm_up = true, .content = contents[at(0)]});
  out.push_back({.set = sets[at(1)], .content = contents[at(1)]});
  if (n_sets > 2) out.push_back({.set = sets[at(2)], .content = contents[at(1)]});
  for (int i = 0; i < more; ++i)
    out.push_back({.set = sets[at(3 + i)], .content = contents[at(2 + i)]});
  return out;
}

// Another number of ranks that the task supports, as near to `n` as there is; 0: none. `most`: what
// this machine can run. Each of `nodes` has the same number.
int other_ranks(const task::Task& task, int n, int nodes, int most) {
  int best = 0;
  for (const int ranks : task.supported_ranks) {
    if (ranks == n || ranks > most || ranks % nodes != 0) continue;
    if (best == 0 || std::abs(ranks - n) < std::abs(best - n)) best = ranks;
  }
  return best;
}

std::string describe(const task::Task& task, const RunPlan& plan) {
  std::string out = "inputs " + plan.family;
  for (std::size_t d = 0; d < plan.problem.dims.size(); ++d)
    out += ", " + task.dims[d] + " " + std::to_string(plan.problem.dims[d]);
  out += ", " + std::to_string(plan.problem.n_ranks) + " ranks";
  if (plan.shift != 0) out += ", buffers shifted by " + std::to_string(plan.shift) + " bytes";
  return out;
}

}  // namespace

// A size that no file lists; of a few draws the one with the least work, where it must be small.
std::optional<task::Problem> Cascade::hidden_size(Context& c, uint64_t seed, int index, int n_ranks,
                                                  bool small) {
  std::optional<task::Problem> best;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < (small ? 4 : 1); ++i) {
    auto drawn = c.task.draw_hidden(seed, index + i, n_ranks);
    if (!drawn) return best;
    auto work = c.task.work(*drawn);
    const double cost = work ? work->flops + work->hbm_bytes : 0;
    if (best && cost >= least) continue;
    least = cost;
    best = std::move(*drawn);
  }
  return best;
}

bool Cascade::stress(Context& c) {
  if (!backends(c, c.job.target)) return false;
  if (c.job.target == Target::kEmu && machine_.dropins.empty()) return true;
  std::vector<std::string> families = c.task.families;
  if (families.empty())
    families = {"large_late", "constant_rows", "negative", "denormal", "integers", "uniform"};
  const bool emu = c.job.target == Target::kEmu;
  const int other =
      c.task.kind == task::Kind::kWorkload
          ? other_ranks(c.task, c.job.n_ranks, c.job.nodes, emu ? 4 : std::max(1, machine_.gpus))
          : 0;
  Random random(c.job.seed, "stress");
  const auto first_family = random.below(families.size());
  const auto first_late = random.below(static_cast<uint64_t>(c.job.n_ranks));
  constexpr int kRuns = 4;
  const char* const schedules[kRuns] = {"delay_rank", "priority", "random", "delay_rank"};
  for (int i = 0; i < kRuns; ++i) {
    RunPlan plan;
    plan.target = c.job.target;
    plan.problem = *c.problem;
    plan.seed = random.next();
    plan.family = families[(first_family + static_cast<std::size_t>(i)) % families.size()];
    // What breaks most shortcuts is never left out.
    if (i == 0 && std::find(families.begin(), families.end(), "large_late") != families.end())
      plan.family = "large_late";
    const bool others = i == 2 && other > 0;
    if (i > 0) {
      if (auto hidden = hidden_size(c, plan.seed, i, others ? other : c.job.n_ranks, others))
        plan.problem = std::move(*hidden);
    }
    plan.n_sets = std::max(2, std::min(c.task.n_sets, 4));
    if (i % 2 == 1) plan.shift = 256 * (1 + random.below(16));
    plan.iterations = repeating_iterations(random, plan.n_sets, emu ? 0 : 1);
    plan.schedule = schedules[i];
    // The last run delays another rank than the first.
    plan.delayed_rank = static_cast<int>((first_late + static_cast<uint64_t>(i == 3 ? 1 : 0)) %
                                         static_cast<uint64_t>(plan.problem.n_ranks));
    if (!emu) {
      const bool one_late = i == 0 || i == 3;
      for (auto& it : plan.iterations) {
        it.delay_before_ns = it.delay_inside_ns = one_late ? kLateRank : kDelay;
        if (one_late) it.delayed_rank = plan.delayed_rank;
      }
    }
    const auto result = launch(c, plan, Stage::kStress);
    if (take(c, result, Stage::kStress)) continue;
    c.v.message += " (stress: " + describe(c.task, plan) + ")";
    return false;
  }
  return stress_inside(c, random);
}

// Sleeps inside of the candidate's kernels, at their synchronisation points, on one rank.
bool Cascade::stress_inside(Context& c, Random& random) {
  if (c.job.target != Target::kCuda || !c.job.is_cuda_source()) return true;
  const auto built = artifacts_.stressed(c.job, c.task, c.arch, true, c.v.artifact_sha256);
  if (!built.ok) {
    add_note(c.v, "not stressed inside its kernels: " + built.message);
    return true;
  }
  if (const auto points = built.facts.find("stress_points"); points != built.facts.end())
    c.v.facts["stress_points"] = points->second;
  for (int late = 0; late < std::min(2, c.job.n_ranks); ++late) {
    RunPlan plan;
    plan.target = c.job.target;
    plan.problem = *c.problem;
    plan.seed = random.next();
    if (auto hidden = hidden_size(c, plan.seed, 4 + late, c.job.n_ranks, true))
      plan.problem = std::move(*hidden);
    plan.n_sets = std::max(2, std::min(c.task.n_sets, 4));
    plan.iterations = repeating_iterations(random, plan.n_sets, 1);
    plan.env = {{kStressRank, std::to_string(late)}};
    const auto result = launch(c, plan, Stage::kStress, &built.artifact);
    if (take(c, result, Stage::kStress)) continue;
    c.v.message += " (stress: rank " + std::to_string(late) +
                   " sleeps at its kernels' synchronisation points, " + describe(c.task, plan) +
                   ")";
    return false;
  }
  return true;
}

}  // namespace sculler::eval
