// The stages of the target external: an adapter compiles and runs, the evaluator makes inputs,
// keeps the reference and judges (docs/external.md).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "eval/cascade_context.h"
#include "source/lint_python.h"

namespace sculler::eval {
namespace {

constexpr const char* kCandidate = "candidate";
constexpr int kSets = 3;

bool refuse(Verdict& v, const ExternalFault& fault) {
  v.where = fault.where;
  return refuse(v, fault.status, fault.message, fault.advice);
}

}  // namespace

bool Cascade::external_load(Context& c) {
  auto adapter = task::load_adapter(files_, c.job.adapter);
  if (!adapter) return refuse(c.v, adapter.error());
  c.adapter = std::move(*adapter);
  if (c.task.kind != task::Kind::kKernel || c.job.n_ranks != 1)
    return refuse(c.v, "UNSUPPORTED", "the target external is for kernels of one device",
                  "Use the target cuda or emu for programs of several ranks.");
  if (machine_.external == nullptr)
    return refuse(c.v, "INTERNAL", "this evaluator starts no adapters");
  return true;
}

bool Cascade::external_lint(Context& c) {
  for (const auto& file : c.job.files) {
    const bool unit = &file == &c.job.files.front();
    source::PythonRules rules;
    rules.origin = file.name;
    rules.parent = unit ? std::string_view(c.job.parent) : std::string_view();
    rules.baseline = !c.job.baseline_of.empty() || !unit;
    rules.imports = c.adapter->imports;
    for (const auto& other : c.job.files) {
      if (&other != &file && other.name.ends_with(".py"))
        rules.imports.push_back(other.name.substr(0, other.name.size() - 3));
    }
    if (unit) {
      rules.entry = c.adapter->entry;
      rules.defines = c.job.defines;
    }
    const auto findings = source::lint_python(file.text, rules);
    if (findings.empty()) continue;
    const auto& first = findings.front();
    c.v.where = file.name + (first.line > 0 ? ":" + std::to_string(first.line) : "");
    return refuse(
        c.v, "LINT_ERROR",
        first.rule + ": " + first.message +
            (findings.size() > 1 ? " (and " + std::to_string(findings.size() - 1) + " more)" : ""),
        first.cure);
  }
  return true;
}

bool Cascade::external_compile(Context& c) {
  Verdict& v = c.v;
  if (!c.job.files[0].name.ends_with(".py"))
    return refuse(v, "UNSUPPORTED",
                  "a candidate of the adapter " + c.adapter->name + " is a .py file, not " +
                      c.job.files[0].name);
  if (!backends(c, Target::kCpu)) return false;  // the reference
  c.session = std::make_unique<ExternalSession>(*machine_.external, *c.adapter, c.job, c.task,
                                                machine_.containment);
  if (!c.session->open()) return refuse(v, c.session->fault());
  const auto& hello = c.session->hello();
  if (hello.name != c.adapter->name)
    add_note(v, "the adapter calls itself " + hello.name + ", its file " + c.adapter->name);
  nlohmann::json external{{"adapter", hello.name},      {"version", hello.version},
                          {"device", hello.device},     {"containment", machine_.containment},
                          {"says_it_does", hello.does}, {"cannot_be_held_to", external_limits()}};
  v.external = dump_json(external);
  add_note(v, "external: times are what the adapter " + hello.name + " " + hello.version + " (" +
                  (hello.device.empty() ? "no device named" : hello.device) +
                  ") reports; outputs were compared here");
  v.artifact_sha256 = v.source_sha256;  // what runs is the text
  if (!c.session->compile(kCandidate, c.job.files, c.job.defines, v.facts))
    return refuse(v, c.session->fault());
  return true;
}

bool Cascade::external_fill(Context& c, const task::Problem& problem, const std::string& family,
                            uint64_t seed, int set, int content) {
  RunPlan plan;
  plan.target = Target::kCpu;  // of the reference
  plan.problem = problem;
  plan.family = family;
  plan.seed = seed;
  plan.n_sets = kSets;
  plan.iterations = {{.set = 0}};
  auto specs = build_specs(c.job, c.task, plan, paths(c, Target::kCpu, ""), 0, false, 1);
  if (!specs) return refuse(c.v, specs.error());
  return c.session->load(set, problem, specs->job_json, content) || refuse(c.v, c.session->fault());
}

bool Cascade::external_verify(Context& c, int set) {
  const bool good = c.session->verify(kCandidate, set);
  c.v.relative_l2 = std::max(c.v.relative_l2.value_or(0), c.session->relative_l2());
  c.v.max_abs = std::max(c.v.max_abs.value_or(0), c.session->max_abs());
  return good || refuse(c.v, c.session->fault());
}

bool Cascade::external_run(Context& c) {
  const Gate::Pass pass(device_, Gate::Kind::kCheck);
  c.waited_ms += pass.waited_ms();
  const uint64_t seed = c.seed(c.v.stage);
  for (int set = 0; set < 2; ++set) {
    if (!external_fill(c, *c.problem, "normal", seed, set, set)) return false;
  }
  // The last comes back to the first one's inputs.
  for (const int set : {0, 1, 0}) {
    if (!external_verify(c, set)) return false;
  }
  return true;
}

bool Cascade::external_stress(Context& c) {
  std::vector<std::string> families = c.task.families;
  if (families.empty())
    families = {"large_late", "constant_rows", "negative", "denormal", "integers", "uniform"};
  Random random(c.job.seed, "stress");
  const auto first = random.below(families.size());
  const Gate::Pass pass(device_, Gate::Kind::kCheck);
  c.waited_ms += pass.waited_ms();
  for (int i = 0; i < 4; ++i) {
    std::string family = families[(first + static_cast<std::size_t>(i)) % families.size()];
    // What breaks most shortcuts is never left out.
    if (i == 0 && std::find(families.begin(), families.end(), "large_late") != families.end())
      family = "large_late";
    const uint64_t seed = random.next();
    task::Problem problem = *c.problem;
    if (i > 0) {
      if (auto hidden = hidden_size(c, seed, i, 1, i == 2)) problem = std::move(*hidden);
    }
    const int content = static_cast<int>(random.below(8));
    if (external_fill(c, problem, family, seed, 0, content) && external_verify(c, 0) &&
        external_verify(c, 0))
      continue;
    std::string where = " (stress: inputs " + family;
    for (std::size_t d = 0; d < problem.dims.size(); ++d)
      where += ", " + c.task.dims[d] + " " + std::to_string(problem.dims[d]);
    c.v.message += where + ")";
    return false;
  }
  return true;
}

bool Cascade::external_bench(Context& c) {
  Verdict& v = c.v;
  if (!c.session->hello().can("benchmark")) {
    add_note(v, "not measured: the adapter does not say that it can");
    return true;
  }
  ExternalContest contest;
  contest.programs = {kCandidate};
  const auto* kernel = c.adapter->kernel(c.task.name);
  std::vector<std::string> names = c.job.compare;
  if (c.job.compare_all && c.job.baseline_of.empty() && kernel != nullptr) {
    for (const auto& path : kernel->baselines) names.push_back(task::Task::stem(path));
  }
  for (const auto& name : names) {
    if (name == c.job.baseline_of || name == kCandidate) continue;
    const auto none = [&](const std::string& why) {
      add_note(v, "baseline " + name + " was not compared: " + why);
    };
    const std::string* path = nullptr;
    for (std::size_t i = 0; kernel != nullptr && i < kernel->baselines.size(); ++i) {
      if (task::Task::stem(kernel->baselines[i]) == name) path = &kernel->baselines[i];
    }
    if (path == nullptr) {
      none("the adapter names none of that name for this task");
      continue;
    }
    auto text = files_.read(*path, uint64_t{4} << 20);
    if (!text) {
      none(text.error().text());
      continue;
    }
    std::map<std::string, int64_t> facts;
    if (c.session->compile(name, {{"candidate.py", std::move(*text)}}, {}, facts)) {
      contest.programs.push_back(name);
      continue;
    }
    const auto& fault = c.session->fault();
    if (fault.status != "COMPILE_ERROR" && fault.status != "UNSUPPORTED") return refuse(v, fault);
    none(fault.message);
  }
  BenchPlan plan;
  plan.seed = c.seed(v.stage);
  plan.stop = stop_rule(c.adapter->gpu ? Target::kCuda : Target::kCpu);
  if (contest.programs.size() > 1)
    add_note(v,
             "the margin is a default: the noise of a machine behind an adapter is not recorded");
  contest.n_sets = kSets;
  contest.cold = c.session->hello().can("cold");
  contest.refresh = [&](int part) {
    for (int set = 0; set < kSets; ++set) {
      if (!external_fill(c, *c.problem, "normal", plan.seed, set, part * kSets + set)) return false;
    }
    return true;
  };
  {
    const Gate::Pass pass(device_, Gate::Kind::kTiming);
    c.waited_ms += pass.waited_ms();
    ExternalBench measured = bench_external(*c.session, contest, plan);
    if (!measured.good) return v.status == "PASSED" ? refuse(v, measured.fault) : false;
    report(c, measured.outcome, plan);
    auto external = parse_json(v.external, "external");
    if (external) {
      (*external)["own_clock_us"] = measured.own_clock_us;
      v.external = dump_json(*external);
    }
  }
  v.latency->kind = "external";
  v.per_rank_us = {v.latency->us.median};
  rate_external(c);
  if (v.status != "PASSED") return false;
  external_profile(c);
  return true;
}

// Rates by the task's formulas, and the floor: what no device of the adapter's kind can do.
void Cascade::rate_external(Context& c) {
  Verdict& v = c.v;
  const auto work = c.task.work(*c.problem);
  if (!work || v.latency->us.median <= 0) return;
  const double us = v.latency->us.median;
  const double bytes_us = c.adapter->bytes_s > 0 ? work->hbm_bytes / c.adapter->bytes_s * 1e6 : 0;
  const double flops_us =
      c.adapter->flops_s > 0 ? (work->flops + work->flops_vec) / c.adapter->flops_s * 1e6 : 0;
  v.profile = dump_json(nlohmann::json{{"gb_s", work->hbm_bytes / us / 1e3},
                                       {"gflop_s", (work->flops + work->flops_vec) / us / 1e3}});
  if (const double floor = std::max(bytes_us, flops_us); v.latency->us.high < floor) {
    refuse(v, "IMPLAUSIBLE",
           microseconds_text(us) + " is below the " + microseconds_text(floor) +
               " that the rates of the adapter's [ceiling] allow");
    return;
  }
  if (c.adapter->bytes_s <= 0 && c.adapter->flops_s <= 0 && !c.profile)
    add_note(v, "no [ceiling] in " + c.adapter->path + " and no hardware profile: no floor");
  if (c.profile) rate(c, *c.problem);
  else if (work->flops > 0) v.tflops = work->flops / us / 1e6;
}

void Cascade::external_profile(Context& c) {
  if (!c.session->hello().can("profile")) return;
  AdapterAnswer answer;
  if (!c.session->profile(kCandidate, 0, answer)) {
    add_note(c.v, "no profile: " + c.session->fault().message);
    return;
  }
  auto profile = parse_json(c.v.profile, "profile");
  if (!profile || !profile->is_object()) return;
  (*profile)["bottleneck"] = answer.bottleneck;
  (*profile)["why"] = answer.why;
  (*profile)["remarks"] = answer.remarks;
  (*profile)["source"] = "adapter";
  c.v.profile = dump_json(*profile);
  for (const auto& [name, value] : answer.facts) c.v.facts[name] = value;
}

bool Cascade::external_confirm(Context& c) {
  const uint64_t seed = c.seed("confirm");
  for (int set = 0; set < 2; ++set) {
    if (!external_fill(c, *c.problem, "normal", seed, set, set) || !external_verify(c, set))
      return false;
  }
  return measured_again(c, &Cascade::external_bench);
}

}  // namespace sculler::eval
