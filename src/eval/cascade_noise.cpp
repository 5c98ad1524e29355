// sculler bench noise: the evaluator's own comparisons, of a program with itself and with a slower
// variant of itself.
#include <chrono>
#include <cmath>

#include "eval/cascade_context.h"
#include "eval/noise.h"
#include "eval/stopwatch.h"

namespace sculler::eval {
NoiseReport Cascade::noise(const Job& job, const NoisePlan& plan, const NoiseProgress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  NoiseReport report;
  Context c{.job = job};
  const auto refused = [&](const std::string& why) {
    report.problem = why;
    return report;
  };
  if (!load(c) || !compile(c) || !backends(c, job.target))
    return refused(c.v.status + ": " + c.v.message);
  if (job.target == Target::kEmu) return refused("the emulator predicts, it does not measure");
  std::string planted;
  if (plan.planted_n > 0) {
    const auto built =
        artifacts_.planted(job, c.task, plan.planted, c.arch, job.target == Target::kCuda);
    if (!built.ok) return refused("the planted variant: " + built.message);
    planted = built.artifact;
  }
  RunPlan run;
  run.target = job.target;
  run.bench = true;
  run.problem = *c.problem;
  run.n_sets = std::max(8, c.task.n_sets);
  BenchPlan bench;
  bench.stop = stop_rule(job.target);
  bench.cold_rounds = 0;
  bench.round_ms = static_cast<int64_t>(c.task.timeouts.run_s * 1000);
  const bool gpus = job.target == Target::kCuda;
  const auto clocks = [&] {
    return machine_.clocks != nullptr ? clocks_json(machine_.clocks->read(gpus)) : "{}";
  };
  const std::string before = clocks();
  Random seeds(job.seed, "noise");
  int pairs = 0;

  // `n` comparisons of `mine` with `other`, a fresh pair of groups every `per_pair`.
  const auto series = [&](const std::string& kind, const std::string& program,
                          const std::string& mine, const std::string& other, int n, int per_pair) {
    const Gate::Pass pass(gate_of(job.target), Gate::Kind::kTiming);
    for (int done = 0; done < n;) {
      LiveBench live(launcher_, bench);
      const auto start = std::chrono::steady_clock::now();
      for (const bool own : {true, false}) {
        run.seed = seeds.next();
        int64_t ready_ms = 0;
        auto spec = group_spec(c, run, own ? mine : other, ready_ms, "noise");
        if (!spec) return refuse(c.v, spec.error());
        if (live.start({own ? "candidate" : "other", std::move(*spec)})) continue;
        return refuse(c.v, "INTERNAL",
                      own ? live.candidate().status + ": " + live.candidate().message
                          : "the second group did not start");
      }
      report.pair_start_ms.push_back(ms_since(start));
      ++pairs;
      const int first = done;
      for (; done < n && done - first < per_pair; ++done) {
        if (plan.seconds > 0 && ms_since(begin) > plan.seconds * 1000) return true;
        const auto out = live.measure(seeds.next());
        const auto found = out.comparison.find("other");
        if (!out.candidate.passed() || found == out.comparison.end()) {
          std::string why = out.candidate.status + ": " + out.candidate.message;
          for (const auto& [name, failed] : out.failed) why += "; " + name + ": " + failed;
          return refuse(c.v, "INTERNAL", "a comparison failed: " + why);
        }
        const Comparison& one = found->second;
        report.cases.push_back(
            {kind, program, pairs, one.ratio, one.call, one.rounds, out.wall_ms, one.decided});
        if (progress) progress(report.cases.back());
      }
    }
    return true;
  };

  bool good = true;
  const auto known = machine_.spreads.find(job.target);
  report.margin = known != machine_.spreads.end() ? known->second : default_spread(job.target);
  report.margin_from = known != machine_.spreads.end() ? "recorded earlier" : "a default";
  if (plan.calibrate > 0) {
    // Several pairs: what two groups differ by stays with them as long as they live.
    good = series("calibrate", "candidate", c.candidate, c.candidate, plan.calibrate,
                  std::max(1, std::min(plan.per_pair, (plan.calibrate + 4) / 5)));
    std::map<int, std::vector<double>> ratios;
    for (const auto& one : report.cases) {
      if (one.decided) ratios[one.pair].push_back(std::log(one.ratio.median));
    }
    if (good && !ratios.empty()) {
      report.margin = spread_of(ratios, job.target);
      report.calibrated = true;
      report.margin_from = "measured by " + std::to_string(report.cases.size()) +
                           " A/A comparisons on " + std::to_string(pairs) + " pairs of groups";
    }
  }
  bench.stop.margin = report.margin;
  if (good && plan.aa > 0)
    good = series("aa", "candidate", c.candidate, c.candidate, plan.aa, plan.per_pair);
  if (good && plan.planted_n > 0)
    good = series("planted", "candidate", planted, c.candidate, plan.planted_n, plan.per_pair);
  if (good && plan.programs) {
    for (const auto& path : task::Task::fitting(c.task.baselines, c.v.target)) {
      const auto name = task::Task::stem(path);
      const auto built = artifacts_.baseline(job, c.task, name, c.arch, gpus);
      if (good && built.ok)
        good = series("calibrate", name, built.artifact, built.artifact, plan.calibrate,
                      std::max(1, plan.calibrate / 3));
    }
  }
  report.clocks = "{\"before\":" + before + ",\"after\":" + clocks() + "}";
  report.ms = ms_since(begin);
  if (!good && report.problem.empty()) report.problem = c.v.message;
  return report;
}

}  // namespace sculler::eval
