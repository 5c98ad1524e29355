// The bench and confirm stages: latency, ratios, rates and the floor.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "eval/cascade_context.h"
#include "eval/cpu_profile.h"

namespace sculler::eval {

// SOL, rates and the floor, for the latency in the verdict, at `problem`.
void Cascade::rate(Context& c, const task::Problem& problem) {
  Verdict& v = c.v;
  auto work = c.task.work(problem);
  if (!work || !v.latency || v.latency->us.median <= 0) return;
  const double us = v.latency->us.median;
  if (work->flops > 0) v.tflops = work->flops / us / 1e6;
  if (c.job.target == Target::kCpu) return rate_cpu(c, *work);
  if (work->link_bytes > 0) v.bus_gbps = work->link_bytes / us / 1e3;
  if (!c.profile) {
    add_note(v, "no hardware profile: no speed of light, no floor");
    return;
  }
  auto sol = task::speed_of_light(*c.profile, *work, c.task.precision_products);
  if (!sol) {
    add_note(v, "no speed of light: " + sol.error().text());
    return;
  }
  v.percent_sol = 100 * sol->us / us;
  if (auto contended = c.profile->number("contended_us." + c.task.name + "-" + problem.size)) {
    v.percent_contended_sol = 100 * *contended / us;
  }
  if (v.latency->kind == "predicted") return;
  // HBM counts only where caches cannot hold the data: twice the L2, and the timed runs are hot
  // otherwise.
  const double l2 = c.profile->number("nominal.l2_bytes")
                        .value_or(c.profile->number("limits.l2_bytes").value_or(64e6));
  const bool hbm_counts = work->hbm_bytes > 2 * l2;
  const double floor = std::max({sol->flops_us, sol->link_us, hbm_counts ? sol->hbm_us : 0.0});
  if (v.latency->us.high >= floor) return;
  refuse(v, "IMPLAUSIBLE",
         microseconds_text(us) + " is below the " + microseconds_text(floor) + " that " +
             sol->bound + " at nominal rates allows");
}

// Against what programs reach on this machine; there is no nominal rate of a cpu, so no floor.
void Cascade::rate_cpu(Context& c, const task::Work& work) {
  Verdict& v = c.v;
  CpuMeasurement m;
  m.us = v.latency->us.median;
  m.work = work;
  m.latency_bound = c.task.latency_bound;
  if (c.profile) m.ceiling = task::measured_ceiling(*c.profile, work);
  m.facts = v.facts;
  m.remarks = c.remarks;
  const CpuProfile profile = profile_cpu(m);
  v.percent_peak = profile.percent_peak;
  v.profile = profile.json();
  if (!m.ceiling)
    add_note(v, "no rates of this machine are known, so no % of peak: sculler bench ceilings");
  else if (profile.above)
    add_note(v,
             "above the measured peak: that says that the ceiling is too low, not that the "
             "program is wrong; measure it again with sculler bench ceilings");
  if (c.task.latency_bound)
    add_note(v, "bound by latency: the ceiling of bytes and operations cannot be reached");
}

bool Cascade::bench(Context& c) {
  if (c.job.target == Target::kEmu) {
    if (!c.predicted && c.predict) add_note(c.v, "no prediction: the emulator gave none");
    return true;
  }
  if (!backends(c, c.job.target)) return false;
  RunPlan plan;
  plan.target = c.job.target;
  plan.bench = true;
  plan.problem = *c.problem;
  plan.n_sets = std::max(8, c.task.n_sets);
  plan.seed = c.seed(c.v.stage);
  BenchPlan bench;
  bench.seed = plan.seed;
  bench.round_ms = static_cast<int64_t>(c.task.timeouts.run_s * 1000);
  bench.stop = stop_rule(c.job.target);
  if (c.job.target == Target::kCuda && c.task.kind == task::Kind::kKernel)
    bench.replay_below_us = 10;
  const auto spread = machine_.spreads.find(c.job.target);
  if (spread != machine_.spreads.end()) bench.stop.margin = spread->second;
  std::vector<Contestant> contestants;
  const auto add = [&](const std::string& name, const std::string& artifact) -> Status {
    auto spec = group_spec(c, plan, artifact, bench.ready_ms, "bench");
    if (!spec) return fail(spec.error());
    contestants.push_back({name, std::move(*spec)});
    return {};
  };
  if (auto done = add("candidate", c.candidate); !done) return refuse(c.v, done.error());
  std::vector<std::string> names = c.job.compare;
  if (c.job.compare_all && c.job.baseline_of.empty()) {
    for (const auto& path : task::Task::fitting(c.task.baselines, c.v.target))
      names.push_back(task::Task::stem(path));
  }
  for (const auto& name : names) {
    if (name == c.job.baseline_of) continue;
    const auto built =
        artifacts_.baseline(c.job, c.task, name, c.arch, c.job.target == Target::kCuda);
    if (!built.ok) {
      add_note(c.v, "baseline " + name + " was not compared: " + built.message);
      continue;
    }
    if (auto done = add(name, built.artifact); !done) return refuse(c.v, done.error());
  }
  if (contestants.size() > 1 && spread == machine_.spreads.end()) {
    add_note(c.v, "the margin is a default: sculler bench noise --target " + c.v.target +
                      " measures this machine's own");
  }
  BenchOutcome outcome;
  {
    const Gate::Pass pass(gate_of(c.job.target), Gate::Kind::kTiming);
    c.waited_ms += pass.waited_ms();
    const bool gpus = c.job.target == Target::kCuda;
    ClockReading before, after;
    if (machine_.clocks != nullptr) before = machine_.clocks->read(gpus);
    outcome = run_bench(launcher_, contestants, bench);
    if (outcome.our_failure) {
      add_note(c.v, "measured again: a trusted process ended by itself");
      outcome = run_bench(launcher_, contestants, bench);
    }
    if (machine_.clocks != nullptr) {
      after = machine_.clocks->read(gpus);
      c.v.clocks = "{\"before\":" + clocks_json(before) + ",\"after\":" + clocks_json(after) + "}";
      if (const auto why = slowdown_text(after); !why.empty())
        add_note(c.v, "the GPUs' clocks were held down after measuring: " + why);
    }
  }
  if (!take(c, outcome.candidate, Stage::kBench)) return false;
  report(c, outcome, bench);
  rate(c, *c.problem);
  return c.v.status == "PASSED";
}

// A measurement into the verdict.
void Cascade::report(Context& c, BenchOutcome& outcome, const BenchPlan& bench) {
  Verdict& v = c.v;
  for (const auto& [name, why] : outcome.failed)
    add_note(v, "baseline " + name + " failed: " + why);
  for (auto& note : outcome.notes) add_note(v, std::move(note));
  if (outcome.replayed)
    add_note(v, "short kernels: a latency is the mean of a graph of runs over rotating buffers");
  v.latency = Latency{median_interval(outcome.samples_us["candidate"], bench.seed), "measured",
                      c.problem->size};
  v.cold_us.reset();
  if (const auto cold = outcome.cold_us.find("candidate"); cold != outcome.cold_us.end())
    v.cold_us = median_interval(cold->second, bench.seed);
  std::vector<double> ranks(static_cast<std::size_t>(c.job.n_ranks));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::vector<double> times;
    for (const auto& sample : outcome.rank_us) {
      if (r < sample.size()) times.push_back(sample[r]);
    }
    ranks[r] = median(std::move(times));
  }
  v.per_rank_us = std::move(ranks);
  v.ratio.clear();
  v.comparison.clear();
  v.compare_call.clear();
  v.cold_ratio = std::move(outcome.cold_ratio);
  for (const auto& [name, comparison] : outcome.comparison) {
    v.ratio[name] = comparison.ratio;
    v.comparison[name] = comparison.call;
    if (comparison.call == "SLOWER" || v.compare_call.empty()) v.compare_call = comparison.call;
    else if (comparison.call != v.compare_call && v.compare_call != "SLOWER")
      v.compare_call = "AMBIGUOUS";
  }
  v.margin = bench.stop.margin;
  v.samples_us = std::move(outcome.samples_us);
}

bool Cascade::confirm(Context& c) {
  if (!backends(c, c.job.target)) return false;
  RunPlan plan;
  plan.target = c.job.target;
  plan.problem = *c.problem;
  plan.n_sets = c.task.n_sets;
  plan.seed = c.seed("confirm");
  plan.iterations = draw_iterations(plan.seed, plan.n_sets, 1, 4);
  if (!take(c, launch(c, plan, Stage::kConfirm), Stage::kConfirm)) return false;
  return c.job.target == Target::kEmu || measured_again(c, &Cascade::bench);
}

bool Cascade::measured_again(Context& c, bool (Cascade::*measure)(Context&)) {
  if (!c.job.wants(Stage::kBench)) return true;
  const auto first = c.v.latency;
  if (!(this->*measure)(c)) return false;  // fresh seeds and processes: this measurement stands
  if (first) add_note(c.v, "before confirmation: " + microseconds_text(first->us.median));
  // The last stage: what cannot be told from its best rival is right, but no elite.
  if (c.v.compare_call != "AMBIGUOUS") return true;
  return refuse(c.v, "AMBIGUOUS",
                "right, and not to be told from the baselines: the interval of the ratio does not "
                "leave 1 by more than the margin");
}

}  // namespace sculler::eval
