#include "eval/cascade.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <span>

#include "base/strings.h"
#include "eval/cache.h"
#include "eval/cascade_context.h"
#include "eval/stopwatch.h"

namespace sculler::eval {
namespace {

// What a stage took, less what it waited for others.
class Stopwatch {
 public:
  Stopwatch(Verdict& verdict, Stage stage, const double& waited_ms)
      : verdict_(verdict), stage_(stage), waited_ms_(waited_ms), waited_before_(waited_ms) {}
  ~Stopwatch() {
    verdict_.cost_ms[std::string(stage_name(stage_))] +=
        ms_since(start_) - (waited_ms_ - waited_before_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Verdict& verdict_;
  Stage stage_;
  const double& waited_ms_;
  double waited_before_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// "sm_90a" or "90a" → "90a".
std::string arch_number(std::string_view arch) {
  return std::string(arch.starts_with("sm_") ? arch.substr(3) : arch);
}

}  // namespace

std::string Cascade::lock_file(const Machine& machine, const std::string& what) {
  return machine.lock_folder.empty() ? "" : machine.lock_folder + "/sculler-" + what + ".lock";
}

Verdict Cascade::run(const Job& job) {
  Context c{.job = job};
  Verdict& v = c.v;
  v.job = job.id;
  v.target = target_name(job.target);
  v.size = job.size;
  v.seed = job.seed;
  v.source_sha256 = source_hash(job);
  v.containment = machine_.containment;
  if (!machine_.containment_why.empty()) add_note(v, "containment: " + machine_.containment_why);

  if (machine_.expected_bytes != 0) trim_files(machine_.expected_cache, machine_.expected_bytes);

  using Step = bool (Cascade::*)(Context&);
  struct Entry {
    Stage stage;
    Step step;
    bool always;
  };
  // Nothing runs without an artifact, so compiling is not optional; stages before it may be left
  // out.
  const std::array<Entry, 7> steps{{{Stage::kLint, &Cascade::lint, false},
                                    {Stage::kCompile, &Cascade::compile, true},
                                    {Stage::kEmulate, &Cascade::emulate, false},
                                    {Stage::kRun, &Cascade::run_and_verify, false},
                                    {Stage::kStress, &Cascade::stress, false},
                                    {Stage::kBench, &Cascade::bench, false},
                                    {Stage::kConfirm, &Cascade::confirm, false}}};
  const std::array<Entry, 6> external{{{Stage::kLint, &Cascade::external_lint, false},
                                       {Stage::kCompile, &Cascade::external_compile, true},
                                       {Stage::kRun, &Cascade::external_run, false},
                                       {Stage::kStress, &Cascade::external_stress, false},
                                       {Stage::kBench, &Cascade::external_bench, false},
                                       {Stage::kConfirm, &Cascade::external_confirm, false}}};
  v.stage = stage_name(job.stages.empty() ? Stage::kLint : job.stages.front());
  if (!load(c)) return std::move(c.v);
  v.status = "PASSED";
  const Stage last = job.stages.empty() ? Stage::kCompile : job.stages.back();
  for (const auto& [stage, step, always] : job.target == Target::kExternal
                                               ? std::span<const Entry>(external)
                                               : std::span<const Entry>(steps)) {
    if (stage > last || (!always && !job.wants(stage))) continue;
    v.stage = stage_name(stage);
    const Stopwatch watch(v, stage, c.waited_ms);
    if (!(this->*step)(c)) break;
  }
  return std::move(c.v);
}

bool Cascade::load(Context& c) {
  if (!c.job.checker.empty()) {
    if (!machine_.weak_checker)
      return refuse(c.v, "INTERNAL", "the job asks for the weakened checker " + c.job.checker,
                    "Start sculler-eval with --weak-checker, or leave the key out.");
    add_note(c.v, "weakened checker: " + c.job.checker + "; this says nothing about the candidate");
  }
  auto loaded = task::load_task(files_, c.job.task);
  if (!loaded) return refuse(c.v, loaded.error());
  c.task = std::move(*loaded);
  if (!c.job.profile.empty()) {
    auto profile = task::load_profile(files_, c.job.profile);
    if (!profile) return refuse(c.v, profile.error());
    c.profile = std::move(*profile);
    if (!c.profile->arch.empty()) c.arch = arch_number(c.profile->arch);
  }
  if (c.job.target == Target::kCuda && !machine_.cuda_arch.empty()) c.arch = machine_.cuda_arch;
  auto problem = c.task.problem(c.job.size, c.job.n_ranks);
  if (!problem) return refuse(c.v, problem.error());
  c.problem = std::move(*problem);
  if (!c.job.predict_size.empty()) {
    auto predict = c.task.problem(c.job.predict_size, c.job.n_ranks);
    if (!predict) return refuse(c.v, predict.error());
    c.predict = std::move(*predict);
  }
  if (c.job.target == Target::kCuda && machine_.gpus < c.job.n_ranks) {
    return refuse(
        c.v, "INTERNAL",
        std::to_string(c.job.n_ranks) + " GPUs are asked for and " + std::to_string(machine_.gpus) +
            " are here",
        "Use --ranks " + std::to_string(std::max(1, machine_.gpus)) + " or the target emu.");
  }
  return c.job.target != Target::kExternal || external_load(c);
}

bool Cascade::lint(Context& c) {
  auto problem = linter_.lint(c.job, c.task, c.profile ? &*c.profile : nullptr);
  if (!problem) return true;
  c.v.where = problem->where;
  return refuse(c.v, problem->status, problem->message, problem->advice);
}

bool Cascade::compile(Context& c) {
  const bool cubin = c.job.target == Target::kCuda;
  const auto built = artifacts_.candidate(c.job, c.task, c.arch, cubin);
  if (!built.ok) {
    c.v.where = built.where;
    return refuse(c.v, built.status, built.message, built.advice);
  }
  c.candidate = built.artifact;
  c.v.artifact_sha256 = built.sha256;
  c.v.facts = built.facts;
  c.remarks = built.remarks;
  if (built.cached) c.v.facts["compile_cached"] = 1;
  return true;
}

bool Cascade::backends(Context& c, Target target) {
  const auto need = [&](std::string& slot, const char* what, auto&& build) {
    if (!slot.empty()) return true;
    const CompileOutcome built = build();
    if (built.ok) {
      slot = built.artifact;
      return true;
    }
    return refuse(c.v, "INTERNAL",
                  std::string(what) + " could not be built: " +
                      (built.where.empty() ? "" : built.where + ": ") + built.message,
                  built.advice);
  };
  if (!need(c.reference, "the task's reference",
            [&] { return artifacts_.reference(c.job, c.task); }))
    return false;
  if (target == Target::kCpu) return true;
  const bool cubin = c.job.target == Target::kCuda;
  if (!need(c.rank_backend, "rank_backend.so",
            [&] { return artifacts_.rank_backend(c.job, c.arch, cubin); })) {
    return false;
  }
  if (target == Target::kEmu) return true;
  return need(c.verify_backend, "verify_backend.so",
              [&] { return artifacts_.verify_backend(c.job, c.task, c.arch); });
}

RunPaths Cascade::paths(Context& c, Target target, const std::string& artifact) {
  RunPaths p;
  p.candidate = artifact;
  p.rank_backend = c.rank_backend;
  p.reference = c.reference;
  p.expected_cache = machine_.expected_cache;
  p.profile = c.profile ? c.profile->path : "";
  if (target == Target::kEmu) p.libraries = machine_.dropins;
  if (target == Target::kCuda) {
    p.libraries = machine_.cuda_libraries;
    p.verify_backend = c.verify_backend;
  }
  return p;
}

Result<GroupSpec> Cascade::group_spec(Context& c, const RunPlan& plan, const std::string& artifact,
                                      int64_t& timeout_ms, const char* label) {
  const auto where = paths(c, plan.target, artifact);
  const bool multicast = c.profile && c.profile->multicast;
  const int nccl =
      c.job.carried.nccl_version != 0 ? c.job.carried.nccl_version : machine_.nccl_version;
  auto specs = build_specs(c.job, c.task, plan, where, nccl, multicast, machine_.n_threads);
  if (!specs) return fail(specs.error());
  timeout_ms = specs->timeout_ms;
  GroupSpec g;
  g.target = plan.target;
  g.n_ranks = plan.problem.n_ranks;
  g.job_json = std::move(specs->job_json);
  g.rank_json = std::move(specs->rank_json);
  g.label = label;
  g.env = rank_environment(c.profile ? c.profile->env : Environment{}, multicast);
  if (plan.target == Target::kCuda) {
    // The GPUs that a batch system gave this evaluator are all that its ranks may use.
    if (std::string own = env_value("CUDA_VISIBLE_DEVICES"); !own.empty())
      g.env.emplace_back("CUDA_VISIBLE_DEVICES", std::move(own));
    g.trusted_env = g.env;
  }
  g.env.insert(g.env.end(), plan.env.begin(), plan.env.end());
  g.binds.push_back({.source = artifact});
  if (plan.target != Target::kCpu) g.binds.push_back({.source = where.rank_backend});
  // Folders, since libraries find their neighbours by themselves.
  std::set<std::string> folders;
  for (const auto& library : where.libraries) folders.insert(parent_path(library));
  for (const auto& folder : folders) g.binds.push_back({.source = folder});
  return g;
}

RunResult Cascade::launch(Context& c, const RunPlan& plan, Stage stage,
                          const std::string* variant) {
  RunResult result;
  int64_t timeout_ms = 0;
  auto spec = group_spec(c, plan, variant != nullptr ? *variant : c.candidate, timeout_ms,
                         stage_name(stage).data());
  if (!spec) {
    result.message = spec.error().text();
    return result;
  }
  const bool cuda = plan.target == Target::kCuda;
  std::optional<Gate::Pass> pass;
  if (plan.target != Target::kEmu) {
    pass.emplace(gate_of(plan.target), Gate::Kind::kCheck);
    c.waited_ms += pass->waited_ms();
  }
  auto outcome = run_group(launcher_, *spec, timeout_ms, cuda ? 3000 : 1000);
  if (outcome && is_our_failure(*outcome)) {
    add_note(c.v, "run again: the trusted process ended with " + outcome->trusted.text());
    outcome = run_group(launcher_, *spec, timeout_ms, cuda ? 3000 : 1000);
  }
  if (!outcome) {
    result.message = outcome.error().text();
    return result;
  }
  c.v.cost_ms["cpu"] += outcome->cpu_ms;
  result = result_of(*outcome);
  if (plan.target == Target::kEmu) {
    std::vector<std::string> sources{"candidate.cu"};  // what the compiler calls the first file
    for (std::size_t i = 1; i < c.job.files.size(); ++i) sources.push_back(c.job.files[i].name);
    name_host_calls(result, machine_.lines, variant != nullptr ? *variant : c.candidate, sources);
  }
  return result;
}

bool Cascade::take(Context& c, const RunResult& r, Stage stage) {
  Verdict& v = c.v;
  if (r.relative_l2) v.relative_l2 = std::max(v.relative_l2.value_or(0), *r.relative_l2);
  if (r.max_abs) v.max_abs = std::max(v.max_abs.value_or(0), *r.max_abs);
  if (!r.sync_hash.empty()) v.sync_hash = r.sync_hash;
  if (!r.schedule.empty()) v.schedule = r.schedule;
  for (const auto& note : r.notes) add_note(v, note);
  if (stage == Stage::kEmulate) {
    v.counters = r.counters;
    v.trace = r.trace;
  }
  if (r.passed()) return true;
  v.findings = r.findings;
  v.rank = r.rank;
  v.where = r.where;
  return refuse(v, r.status, r.message, r.advice);
}

bool Cascade::emulate(Context& c) {
  if (c.job.target == Target::kCpu) return true;
  if (!c.job.is_cuda_source()) {
    return refuse(c.v, "UNSUPPORTED",
                  "a candidate for " + c.v.target + " is a .cu file, not " + c.job.files[0].name);
  }
  const bool cuda = c.job.target == Target::kCuda;
  if (machine_.dropins.empty()) {
    if (cuda) {
      add_note(c.v, "not emulated: the emulator's libraries are not beside this program");
      return true;
    }
    return refuse(c.v, "INTERNAL", "the emulator's libraries are not beside this program",
                  "Build or install libcuda.so.1 and its neighbours into ../lib.");
  }
  if (!backends(c, Target::kEmu)) return false;
  RunPlan plan;
  plan.target = Target::kEmu;
  plan.problem = *c.problem;
  if (cuda) {
    auto small = c.task.problem("emu", c.job.n_ranks);
    if (!small) {
      add_note(c.v, "not emulated: " + small.error().text());
      return true;
    }
    plan.problem = std::move(*small);
  }
  plan.n_sets = c.task.n_sets;
  plan.seed = c.seed("emulate");
  plan.iterations = draw_iterations(plan.seed, plan.n_sets, 1, 2);
  plan.predict = c.predict ? &*c.predict : nullptr;
  const auto result = launch(c, plan, Stage::kEmulate);
  if (cuda && result.status == "UNSUPPORTED") {
    add_note(c.v, "not emulated: " + result.message);
    return true;
  }
  if (!take(c, result, Stage::kEmulate)) return false;
  c.predicted = result.predicted;
  if (c.predicted) {
    const double us = c.predicted->latency_us;
    c.v.latency = Latency{{us, us, us}, "predicted", c.predicted->size};
    c.v.per_rank_us = c.predicted->per_rank_us;
    if (c.predict) rate(c, *c.predict);
  }
  return true;
}

bool Cascade::run_and_verify(Context& c) {
  // On emu the emulation is the run.
  if (c.job.target == Target::kEmu) return c.job.wants(Stage::kEmulate) || emulate(c);
  if (!backends(c, c.job.target)) return false;
  RunPlan plan;
  plan.target = c.job.target;
  plan.problem = *c.problem;
  plan.n_sets = c.task.n_sets;
  plan.seed = c.seed("run");
  plan.iterations = draw_iterations(plan.seed, plan.n_sets, 1, 4);
  return take(c, launch(c, plan, Stage::kRun), Stage::kRun);
}

}  // namespace sculler::eval
