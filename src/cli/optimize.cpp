// sculler optimize TASK
#include <CLI/CLI.hpp>

#include "cli/beam.h"
#include "cli/session.h"

namespace sculler::cli {
namespace {

struct Options {
  std::string task, run_file, target, adapter, profile, size, cache, strategy, preset,
      runs = "runs";
  int64_t ranks = 0, nodes = 0, candidates = -1, seed = -1;
  std::vector<std::string> sets;
};

Status optimize(App& app, const Options& o) {
  auto home = app.home();
  if (!home) return fail(home.error());
  Settings settings;
  // What is nearer to the user wins: the preset, then the run file, then the command line.
  if (!o.preset.empty()) {
    if (auto ok = apply_preset(settings, o.preset); !ok) return ok;
  }
  if (!o.run_file.empty()) {
    if (auto ok = read_settings(app.files, o.run_file, settings); !ok) return ok;
  }
  if (!o.task.empty()) settings.task = o.task;
  if (settings.task.empty())
    return fail(ErrorCode::kUsage, "no task is named",
                "sculler optimize TASK; sculler list shows the tasks");
  const std::vector<std::pair<const char*, std::string>> direct = {
      {"strategy", o.strategy},
      {"target", o.target},
      {"profile", o.adapter},
      {"profile", o.profile},
      {"size", o.size},
      {"eval.cache", o.cache},
      {"ranks", o.ranks > 0 ? std::to_string(o.ranks) : ""},
      {"nodes", o.nodes > 0 ? std::to_string(o.nodes) : ""},
      {"budget.candidates", o.candidates >= 0 ? std::to_string(o.candidates) : ""},
      {"seed", o.seed >= 0 ? std::to_string(o.seed) : ""}};
  for (const auto& [key, value] : direct) {
    if (value.empty()) continue;
    if (auto ok = set_setting(settings, key, value, "--set"); !ok) return ok;
  }
  for (const auto& assignment : o.sets) {
    if (auto ok = apply_override(settings, assignment); !ok) return ok;
  }
  if (settings.strategy == "lower")
    return fail(Error{ErrorCode::kUsage,
                      "strategy lower is no search",
                      {},
                      "strategy",
                      "use sculler lower FILE.cu --task TASK --model MODEL"});
  if (!o.preset.empty() && beam_without_model(settings) && !app.json)
    app.print(
        "note: no model is configured, so the tuner searches; docs/models.md says how to name "
        "one");
  if (auto ok = need_models(settings); !ok) return ok;
  if (auto ok = evolve_settings(settings); !ok) return fail(ok.error());
  if (auto ok = beam_settings(settings); !ok) return fail(ok.error());
  // The task's name is judged before the machine is asked.
  auto folder = task::find_task(app.files, home->task_roots, settings.task);
  if (!folder) return fail(folder.error());
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  auto plan = make_plan(app, *home, *machine, settings);
  if (!plan) return fail(plan.error());
  auto run_folder = make_run_folder(app, absolute_path(o.runs), settings, plan->task.name);
  if (!run_folder) return fail(run_folder.error());
  return run_in_folder(app, *run_folder, settings, *plan, false);
}

}  // namespace

void add_optimize(CLI::App& cli, App& app, Action& action) {
  auto o = std::make_shared<Options>();
  auto* command = cli.add_subcommand("optimize", "search for a faster program of a task");
  command->add_option("task", o->task, "name of a task, or its folder");
  command->add_option("--run-file", o->run_file, "settings (run.toml)");
  command->add_option("--target", o->target, "auto, cuda, emu, cpu or external");
  command->add_option("--adapter", o->adapter, "external: a name of adapters/, or a path");
  command->add_option("--profile", o->profile, "hardware profile");
  command->add_option("--ranks", o->ranks, "number of ranks");
  command->add_option("--nodes", o->nodes, "nodes that the ranks lie on (emu)");
  command->add_option("--size", o->size, "problem size");
  command->add_option("--strategy", o->strategy, "tuner, or evolve or beam (which need a model)");
  command->add_option("--preset", o->preset, "settings of a published system: cuco, accelopt");
  command->add_option("--candidates", o->candidates, "how many to evaluate");
  command->add_option("--seed", o->seed, "of inputs, schedules and choices");
  command->add_option("--cache", o->cache, "folder of the compile cache");
  command->add_option("--runs", o->runs, "folder in which the run's folder is made");
  command->add_option("--set", o->sets, "any setting: key=value")->take_all();
  command->callback([&action, &app, o] { action = [&app, o] { return optimize(app, *o); }; });
}

}  // namespace sculler::cli
