// sculler lower FILE.cu: the built-in lowering, and models where it does not do
// (docs/fast-path.md).
#include "analyze/lower.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/evidence.h"
#include "base/json.h"
#include "base/strings.h"
#include "cli/jobs.h"
#include "cli/judge.h"
#include "cli/lower.h"
#include "cli/lower_model.h"
#include "cli/session.h"

namespace sculler::cli {
namespace {

struct LowerOptions {
  std::string file, stage, out, task, size, profile, cache, model, run_file, runs = "runs";
  int64_t ranks = 0, seed = -1;
  std::vector<std::string> sets;
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

// The command line over a run file.
Result<Settings> settings_of(const App& app, const LowerOptions& o) {
  Settings out;
  if (!o.run_file.empty()) {
    if (auto ok = read_settings(app.files, o.run_file, out); !ok) return fail(ok.error());
  }
  for (const auto& [key, value] :
       {std::pair{"task", o.task}, std::pair{"size", o.size}, std::pair{"profile", o.profile},
        std::pair{"eval.cache", o.cache}, std::pair{"llm.model", o.model},
        std::pair{"lower.stage", o.stage}, std::pair{"lower.file", o.file},
        std::pair{"ranks", o.ranks > 0 ? std::to_string(o.ranks) : std::string()},
        std::pair{"seed", o.seed >= 0 ? std::to_string(o.seed) : std::string()}}) {
    if (value.empty()) continue;
    if (auto ok = set_setting(out, key, value, "--set"); !ok) return fail(ok.error());
  }
  for (const auto& assignment : o.sets) {
    if (auto ok = apply_override(out, assignment); !ok) return fail(ok.error());
  }
  out.target = "emu";
  out.strategy = "lower";
  return out;
}

// Without a model.
Result<std::vector<Step>> built_in(const std::string& text, const std::string& origin,
                                   const std::string& stage, bool verified) {
  std::vector<Step> steps;
  // A verified stage B stands on a verified stage A.
  std::vector<std::string> names{stage};
  if (verified && stage == "B") names = {"A", "B"};
  for (const std::string& name : names) {
    auto lowered = analyze::lower(
        text, origin, name == "A" ? analyze::Stage::kInfrastructure : analyze::Stage::kCollectives);
    if (!lowered) return fail(lowered.error());
    steps.push_back({name, std::move(*lowered), std::nullopt});
  }
  return steps;
}

bool passed(const Step& step) { return step.judged && step.judged->verdict.right(); }

Status show(App& app, const LowerOptions& o, const std::vector<Step>& steps, bool verified) {
  if (app.json) {
    auto json = as_json(steps, o);
    if (!json) return fail(json.error());
    app.print(dump_json(*json));
    app.answered = true;
  } else if (o.out.empty() && !verified) {
    std::fputs(steps.back().lowered.text.c_str(), app.out);
  } else {
    for (const auto& step : steps) {
      if (step.judged || !verified) app.print(summary(step));
    }
  }
  return {};
}

Status lower(App& app, LowerOptions o) {
  auto settings = settings_of(app, o);
  if (!settings) return fail(settings.error());
  auto llm = effective_llm(*settings);
  if (!llm) return fail(llm.error());
  const bool with_model = !llm->models.empty() || !settings->llm_replay.empty();
  std::optional<Plan> plan;
  if (!settings->task.empty()) {
    auto made = make_plan(app, *settings);
    if (!made) return fail(made.error());
    plan = std::move(*made);
    auto found = find_source(app.files, plan->task, plan->target, o.file);
    if (!found) return fail(found.error());
    o.file = settings->lower_file = *found;
  } else if (with_model) {
    return fail(Error{ErrorCode::kUsage,
                      "what a model writes must be judged, and no task says how",
                      {},
                      "--task",
                      "say --task TASK; sculler list shows the tasks"});
  }
  auto text = app.files.read(o.file, 1 << 20);
  if (!text) return fail(text.error());
  auto steps = built_in(*text, o.file, settings->lower_stage, plan.has_value());
  search::FastStart start{"host", file_name(o.file), *text, {}, false};
  if (!steps) {
    if (!with_model || steps.error().code != ErrorCode::kUnsupported) return fail(steps.error());
    start.refusal = refusal_text(steps.error());
  } else {
    if (!o.out.empty()) {
      if (auto ok = app.files.write_atomic(o.out, steps->back().lowered.text); !ok) return ok;
    }
    if (plan) {
      if (auto ok = verify(app, o, *plan, *settings, *steps); !ok) return ok;
    }
    const auto bad =
        std::find_if(steps->begin(), steps->end(), [](const Step& step) { return !passed(step); });
    if (!plan || bad == steps->end()) return show(app, o, *steps, plan.has_value());
    if (!with_model) {
      if (auto ok = show(app, o, *steps, true); !ok) return ok;
      return fail(ErrorCode::kNothingPassed,
                  fmt::format("stage {} did not pass: {}", bad->name, bad->judged->verdict.status));
    }
    start.refusal = fmt::format("the built-in lowering's stage {} did not pass: {}", bad->name,
                                agent::verdict_line(bad->judged->text, 0, 300));
    if (bad->name == "B") {
      start.text = steps->front().lowered.text;
      start.stage_a_done = true;
    }
  }
  return lower_with_model(app, o.runs, std::move(*settings), *plan, start, o.out);
}

}  // namespace

void add_lower(CLI::App& cli, App& app, Action& action) {
  auto o = std::make_shared<LowerOptions>();
  auto* command = cli.add_subcommand("lower", "make a host-driven program device-initiated");
  command->add_option("file", o->file, "a source, or with --task the name of a baseline")
      ->required();
  command->add_option("--stage", o->stage, "A: windows and device communicator; B: collectives too")
      ->check(CLI::IsMember({"A", "B"}));
  command->add_option("-o,--out", o->out, "file to write; missing: standard output");
  command->add_option("--task", o->task, "verify each stage on the emulator, as this task");
  command->add_option(
      "--model", o->model,
      "asked where the built-in lowering does not do (docs/models.md); with --task");
  command->add_option("--run-file", o->run_file, "settings (run.toml) with [[model]] tables");
  command->add_option("--runs", o->runs, "folder in which the run's folder is made");
  command->add_option("--set", o->sets, "any setting: key=value")->take_all();
  command->add_option("--ranks", o->ranks, "number of ranks");
  command->add_option("--size", o->size, "problem size");
  command->add_option("--seed", o->seed, "of inputs and schedules");
  command->add_option("--profile", o->profile, "hardware profile");
  command->add_option("--cache", o->cache, "folder of the compile cache");
  command->callback([&action, &app, o] { action = [&app, o] { return lower(app, *o); }; });
}

}  // namespace sculler::cli
