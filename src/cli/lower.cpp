// sculler lower FILE.cu: the built-in lowering (docs/fast-path.md).
#include "analyze/lower.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/jobs.h"
#include "cli/judge.h"
#include "cli/lower.h"
#include "cli/session.h"

namespace sculler::cli {
namespace {

struct LowerOptions {
  std::string file, stage = "B", out, task, size, profile, cache;
  int64_t ranks = 0, seed = 1;
};

struct Step {
  std::string name;  // "A", "B"
  analyze::Lowered lowered;
  std::optional<Judged> judged;
};

std::string summary(const Step& step) {
  const auto& l = step.lowered;
  std::string calls;
  for (const auto& call : l.calls)
    calls += fmt::format("{}{} (line {})", calls.empty() ? "" : ", ", call.name, call.line);
  std::string text = fmt::format("stage {}: {} {}; {} evolve block{}", step.name,
                                 step.name == "A" ? "windows for" : "lowered", calls, l.n_blocks,
                                 l.n_blocks == 1 ? "" : "s");
  for (const auto& scratch : l.scratch) text += fmt::format("\n  window of its own: {}", scratch);
  if (!step.judged) return text;
  const auto& v = step.judged->verdict;
  text += fmt::format("\n  {}", v.status);
  if (v.latency_us)
    text += fmt::format(", {} {}{}", microseconds_text(*v.latency_us), v.latency_kind,
                        v.latency_size.empty() ? "" : " at size " + v.latency_size);
  if (!v.right()) {
    if (!v.where.empty()) text += fmt::format("\n  where   {}", printable(v.where));
    if (!v.message.empty()) text += fmt::format("\n  what    {}", printable(v.message, true));
    if (!v.advice.empty()) text += fmt::format("\n  do      {}", printable(v.advice));
  }
  return text;
}

Result<nlohmann::json> as_json(const std::vector<Step>& steps, const LowerOptions& o) {
  nlohmann::json out{{"file", o.file}, {"stages", nlohmann::json::array()}};
  if (!o.out.empty()) out["out"] = o.out;
  for (const auto& step : steps) {
    nlohmann::json one{{"stage", step.name},
                       {"blocks", step.lowered.n_blocks},
                       {"scratch", step.lowered.scratch},
                       {"calls", nlohmann::json::array()}};
    for (const auto& call : step.lowered.calls)
      one["calls"].push_back({{"line", call.line}, {"name", call.name}});
    if (o.out.empty()) one["text"] = step.lowered.text;
    if (step.judged) {
      auto verdict = parse_json(step.judged->text, "verdict");
      if (!verdict) return fail(verdict.error());
      one["verdict"] = std::move(*verdict);
    }
    out["stages"].push_back(std::move(one));
  }
  return out;
}

// The emulator's verdict on each stage, in order; the first that fails is the last.
Status verify(App& app, const LowerOptions& o, const Plan& plan, const Settings& settings,
              std::vector<Step>& steps) {
  search::JobFrame frame = plan.frame;
  frame.stages = {"lint", "compile", "emulate"};
  auto evaluator = start_evaluator(app, "", "", settings, plan, 1);
  for (auto& step : steps) {
    const std::string name = file_name(o.file);
    auto source =
        search::make_source(fmt::format("{}_{}", name.substr(0, name.rfind('.')), step.name),
                            o.file, step.lowered.text);
    if (!source) return fail(source.error());
    auto judged = judge(app, *evaluator, frame, search::usual(*source, "lowering"));
    if (!judged) return fail(judged.error());
    step.judged = std::move(*judged);
    if (!step.judged->verdict.right()) return {};
  }
  return {};
}

Result<Plan> plan_of(App& app, const LowerOptions& o, Settings& settings) {
  auto home = app.home();
  if (!home) return fail(home.error());
  settings.task = o.task;
  settings.target = "emu";
  settings.seed = o.seed;
  settings.ranks = o.ranks;
  if (!o.size.empty()) settings.size = o.size;
  if (!o.profile.empty()) settings.profile = o.profile;
  settings.cache = o.cache;
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  return make_plan(app, *home, *machine, settings);
}

Status lower(App& app, LowerOptions o) {
  Settings settings;
  std::optional<Plan> plan;
  if (!o.task.empty()) {
    auto made = plan_of(app, o, settings);
    if (!made) return fail(made.error());
    plan = std::move(*made);
    auto found = find_source(app.files, plan->task, o.file);
    if (!found) return fail(found.error());
    o.file = *found;
  }
  auto text = app.files.read(o.file, 1 << 20);
  if (!text) return fail(text.error());
  std::vector<Step> steps;
  // A verified stage B stands on a verified stage A.
  std::vector<std::string> names{o.stage};
  if (plan && o.stage == "B") names = {"A", "B"};
  for (const std::string& name : names) {
    auto lowered = analyze::lower(
        *text, o.file,
        name == "A" ? analyze::Stage::kInfrastructure : analyze::Stage::kCollectives);
    if (!lowered) return fail(lowered.error());
    steps.push_back({name, std::move(*lowered), std::nullopt});
  }
  if (!o.out.empty()) {
    if (auto ok = app.files.write_atomic(o.out, steps.back().lowered.text); !ok) return ok;
  }
  if (plan) {
    if (auto ok = verify(app, o, *plan, settings, steps); !ok) return ok;
  }
  if (app.json) {
    auto json = as_json(steps, o);
    if (!json) return fail(json.error());
    app.print(dump_json(*json));
    app.answered = true;
  } else if (o.out.empty() && !plan) {
    std::fputs(steps.back().lowered.text.c_str(), app.out);
  } else {
    for (const auto& step : steps) {
      if (step.judged || !plan) app.print(summary(step));
    }
  }
  for (const auto& step : steps) {
    if (step.judged && !step.judged->verdict.right())
      return fail(ErrorCode::kNothingPassed,
                  fmt::format("stage {} did not pass: {}", step.name, step.judged->verdict.status));
  }
  return {};
}

}  // namespace

void add_lower(CLI::App& cli, App& app, Action& action) {
  auto o = std::make_shared<LowerOptions>();
  auto* command =
      cli.add_subcommand("lower", "make a host-driven program device-initiated, without a model");
  command->add_option("file", o->file, "a source, or with --task the name of a baseline")
      ->required();
  command->add_option("--stage", o->stage, "A: windows and device communicator; B: collectives too")
      ->check(CLI::IsMember({"A", "B"}));
  command->add_option("-o,--out", o->out, "file to write; missing: standard output");
  command->add_option("--task", o->task, "verify each stage on the emulator, as this task");
  command->add_option("--ranks", o->ranks, "number of ranks");
  command->add_option("--size", o->size, "problem size");
  command->add_option("--seed", o->seed, "of inputs and schedules");
  command->add_option("--profile", o->profile, "hardware profile");
  command->add_option("--cache", o->cache, "folder of the compile cache");
  command->callback([&action, &app, o] { action = [&app, o] { return lower(app, *o); }; });
}

}  // namespace sculler::cli
