// sculler analyze FILE.cu: what flows between the operations of a program (docs/analyze.md).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyze/analysis.h"
#include "base/json.h"
#include "base/strings.h"
#include "cli/jobs.h"
#include "cli/judge.h"
#include "cli/session.h"

namespace sculler::cli {
namespace {

struct AnalyzeOptions {
  std::string file, task, size, predict_size, profile, cache, svg;
  int64_t ranks = 0, seed = 1, rank = 0;
};

// The task whose folder holds the file: it lies there, in seeds/ or in a folder of that.
std::string task_around(App& app, const std::string& file) {
  std::string folder = parent_path(absolute_path(file));
  for (int up = 0; up < 3 && folder.size() > 1; ++up, folder = parent_path(folder)) {
    if (app.files.exists(join_path(folder, "task.toml"))) return folder;
  }
  return {};
}

Result<Plan> plan_of(App& app, const AnalyzeOptions& o, Settings& settings) {
  auto home = app.home();
  if (!home) return fail(home.error());
  settings.task = o.task;
  if (o.task.empty() && app.files.exists(o.file)) settings.task = task_around(app, o.file);
  if (settings.task.empty() && !app.files.exists(o.file))
    return fail(Error{ErrorCode::kNotFound,
                      "no such file",
                      o.file,
                      {},
                      "with --task, the name of a seed or baseline does too"});
  if (settings.task.empty())
    return fail(Error{ErrorCode::kUsage,
                      "it is not known for which task's buffers and sizes the program is: no "
                      "folder around it has a task.toml",
                      o.file,
                      {},
                      "name the task with --task"});
  settings.target = "emu";
  settings.seed = o.seed;
  settings.ranks = o.ranks;
  settings.cache = o.cache;
  if (!o.size.empty()) settings.size = o.size;
  if (!o.profile.empty()) settings.profile = o.profile;
  auto folder = task::find_task(app.files, home->task_roots, settings.task);
  if (!folder) return fail(folder.error());
  auto task = task::load_task(app.files, *folder);
  if (!task) return fail(task.error());
  if (!o.predict_size.empty()) settings.predict_size = o.predict_size;
  else if (const auto names = task->size_names();
           std::find(names.begin(), names.end(), settings.predict_size) == names.end())
    settings.predict_size = settings.size == "auto" ? "emu" : settings.size;
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  return make_plan(app, *home, *machine, settings);
}

Status analyze_program(App& app, const AnalyzeOptions& o) {
  Settings settings;
  auto plan = plan_of(app, o, settings);
  if (!plan) return fail(plan.error());
  if (o.rank < 0 || o.rank >= plan->n_ranks)
    return fail(ErrorCode::kUsage,
                fmt::format("--rank {}: there are ranks 0 to {}", o.rank, plan->n_ranks - 1));
  auto path = find_source(app.files, plan->task, plan->target, o.file);
  if (!path) return fail(path.error());
  auto source = search::load_source(app.files, *path);
  if (!source) return fail(source.error());
  search::JobFrame frame = plan->frame;
  frame.stages = {"compile", "emulate"};  // without lint: nothing is asked of its form
  frame.operations = true;
  auto evaluator = start_evaluator(app, "", "", settings, *plan, 1);
  auto judged = judge(app, *evaluator, frame, search::usual(*source, "user"));
  if (!judged) return fail(judged.error());
  const auto& verdict = judged->verdict;
  if (!verdict.right())
    return fail(Error{ErrorCode::kNothingPassed,
                      fmt::format("only a right program can be analyzed, and this one is {}: {}",
                                  verdict.status, printable(verdict.message)),
                      verdict.where.empty() ? *path : printable(verdict.where),
                      {},
                      printable(verdict.advice)});
  auto answer = parse_json(judged->text, "verdict");
  if (!answer) return fail(answer.error());
  const auto* trace = find_member(*answer, "trace");
  auto iteration =
      analyze::read_iteration(trace != nullptr ? dump_json(*trace) : "{}", file_name(*path));
  if (!iteration) return fail(iteration.error());
  const auto analysis = analyze::make_analysis(std::move(*iteration));
  analyze::About about{file_name(*path), plan->task.name, frame.size, {}, frame.predict_size};
  if (plan->profile) about.profile = plan->profile->name;
  if (!o.svg.empty()) {
    if (auto ok = app.files.write_atomic(o.svg, analyze::draw_analysis(analysis, about)); !ok)
      return ok;
  }
  if (app.json) {
    app.print(analyze::analysis_json(analysis, about));
    app.answered = true;
    return {};
  }
  std::fputs(analyze::print_analysis(analysis, about, static_cast<int>(o.rank)).c_str(), app.out);
  if (!o.svg.empty()) app.print(fmt::format("\ndrawn: {}", o.svg));
  return {};
}

}  // namespace

void add_analyze(CLI::App& cli, App& app, Action& action) {
  auto o = std::make_shared<AnalyzeOptions>();
  auto* command = cli.add_subcommand(
      "analyze", "what a program's kernels and transfers read and write, and what could overlap");
  command->add_option("file", o->file, "a source, or with --task the name of a seed or baseline")
      ->required();
  command->add_option("--task", o->task, "the task that it is for; missing: the folder it lies in");
  command->add_option("--ranks", o->ranks, "number of ranks");
  command->add_option("--rank", o->rank, "whose operations are printed");
  command->add_option("--size", o->size, "problem size to emulate");
  command->add_option("--predict-size", o->predict_size, "problem size of the predicted times");
  command->add_option("--seed", o->seed, "of inputs and schedules");
  command->add_option("--profile", o->profile, "hardware profile for the headroom");
  command->add_option("--svg", o->svg, "file for a drawing");
  command->add_option("--cache", o->cache, "folder of the compile cache");
  command->callback(
      [&action, &app, o] { action = [&app, o] { return analyze_program(app, *o); }; });
}

}  // namespace sculler::cli
