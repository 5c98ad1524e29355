// sculler resume RUN
#include <CLI/CLI.hpp>

#include "cli/beam.h"
#include "cli/lower_model.h"
#include "cli/session.h"

namespace sculler::cli {
namespace {

Status resume(App& app, const std::string& run, const std::vector<std::string>& sets) {
  const std::string folder = absolute_path(run);
  const std::string file = join_path(folder, "run.toml");
  if (!app.files.exists(file)) {
    return fail(Error{ErrorCode::kNotFound,
                      "is no run folder: run.toml is not there",
                      folder,
                      {},
                      "give the folder that sculler optimize made"});
  }
  Settings settings;
  if (auto ok = read_settings(app.files, file, settings); !ok) return ok;
  for (const auto& assignment : sets) {
    if (auto ok = apply_override(settings, assignment); !ok) return ok;
  }
  if (auto ok = need_models(settings); !ok) return ok;
  if (auto ok = evolve_settings(settings); !ok) return fail(ok.error());
  if (auto ok = beam_settings(settings); !ok) return fail(ok.error());
  auto plan = make_plan(app, settings);
  if (!plan) return fail(plan.error());
  if (!sets.empty()) {
    if (auto ok = app.files.write_atomic(file, print_settings(settings)); !ok) return ok;
  }
  if (settings.strategy == "lower") return resume_lowering(app, folder, settings, *plan);
  return run_in_folder(app, folder, settings, *plan, true);
}

}  // namespace

void add_resume(CLI::App& cli, App& app, Action& action) {
  auto run = std::make_shared<std::string>();
  auto sets = std::make_shared<std::vector<std::string>>();
  auto* command = cli.add_subcommand("resume", "go on with a run that ended or was killed");
  command->add_option("run", *run, "the run's folder")->required();
  command->add_option("--set", *sets, "change a setting: key=value (budget.candidates=80)")
      ->take_all();
  command->callback([&action, &app, run, sets] {
    action = [&app, run, sets] { return resume(app, *run, *sets); };
  });
}

}  // namespace sculler::cli
