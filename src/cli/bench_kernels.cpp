// sculler bench kernels: the whole suite, each kernel's best program against its baselines.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "cli/app.h"
#include "cli/judge.h"
#include "cli/kernels/command.h"
#include "cli/kernels/suite.h"
#include "cli/machine.h"
#include "cli/plan.h"
#include "cli/session.h"
#include "search/kept.h"
#include "store/calls.h"
#include "store/store.h"

namespace sculler::cli {
namespace {

using kernels::Row;

struct Options {
  std::string target = "cpu", adapter, size, profile, cache, out = "bench-kernels";
  std::string kernels;
  std::vector<std::string> runs{"runs"};
  int64_t seed = 1;
  bool again = false;
};

// The best program of a run of this task and target; empty where the run is another's or has none.
struct Found {
  std::optional<search::Candidate> candidate;
  double ratio = 0;
  std::string run;
  std::vector<kernels::Cost> costs;
};

void read_costs(const App& app, const std::string& path, Found& found) {
  auto calls = store::Calls::open(path, app.clock);
  if (!calls) return;
  std::map<std::pair<std::string, std::string>, kernels::Cost> sums;
  (void)(*calls)->each([&](const store::LlmCall& call) {
    auto& sum = sums[{call.role, call.model}];
    sum.role = call.role;
    sum.model = call.model;
    ++sum.calls;
    sum.prompt_tokens += call.prompt_tokens;
    sum.answer_tokens += call.answer_tokens;
    sum.usd += call.usd;
  });
  for (auto& [key, sum] : sums) found.costs.push_back(std::move(sum));
}

Found best_of_run(const App& app, const std::string& folder, const Plan& plan) {
  Found out;
  const std::string path = join_path(folder, "store.sqlite");
  auto store = store::Store::open(path, app.clock);
  if (!store) return out;
  const auto task = (*store)->fact("task"), target = (*store)->fact("target");
  if (!task || !target || *task != plan.task.name || *target != plan.target) return out;
  int64_t program = 0;
  (void)(*store)->each_attempt([&](const store::Attempt& a, const store::Evaluation* e) {
    if (e == nullptr || a.baseline || !e->ratio || *e->ratio <= out.ratio) return;
    if (e->status != "PASSED" && e->status != "AMBIGUOUS") return;
    out.ratio = *e->ratio;
    program = a.program;
  });
  if (program == 0) return out;
  auto kept = (*store)->program(program);
  if (!kept || !*kept) return out;
  const std::string file = plan.target == "external" ? "candidate.py"
                           : plan.target == "cpu"    ? "candidate.cpp"
                                                     : "candidate.cu";
  auto candidate = search::candidate_of(**store, **kept, file);
  if (!candidate) return out;
  for (const auto word : split((*kept)->defines, ' ')) {
    const auto equals = word.find('=');
    for (auto& [name, value] : candidate->defines) {
      if (equals != std::string_view::npos && name == word.substr(0, equals))
        value = std::string(word.substr(equals + 1));
    }
  }
  out.candidate = std::move(*candidate);
  out.run = file_name(folder);
  read_costs(app, path, out);
  return out;
}

// Folders of runs: those that were named, or that lie in one that was named.
std::vector<std::string> run_folders(const App& app, const std::vector<std::string>& named) {
  std::vector<std::string> out;
  const auto is_run = [&](const std::string& folder) {
    return app.files.exists(join_path(folder, "store.sqlite"));
  };
  for (const auto& name : named) {
    const std::string folder = absolute_path(name);
    if (is_run(folder)) out.push_back(folder);
    auto names = app.files.list(folder);
    if (!names) continue;
    for (const auto& inner : *names) {
      if (is_run(join_path(folder, inner))) out.push_back(join_path(folder, inner));
    }
  }
  return out;
}

Result<Found> pick_program(const App& app, const std::vector<std::string>& runs, const Plan& plan) {
  Found best;
  for (const auto& folder : runs) {
    Found found = best_of_run(app, folder, plan);
    if (found.candidate && found.ratio > best.ratio) best = std::move(found);
  }
  if (best.candidate) return best;
  const auto seeds = task::Task::fitting(plan.task.seeds, plan.target);
  if (seeds.empty())
    return fail(ErrorCode::kNotFound, "no run has a program for it, and the task has no seed");
  auto source = search::load_source(app.files, join_path(plan.task.folder, seeds.front()));
  if (!source) return fail(source.error());
  best.candidate = search::usual(std::move(*source), "seed");
  best.run = "seed";
  return best;
}

// Rows that were measured before, by key; damaged lines are left alone.
std::map<std::string, Row> read_rows(const App& app, const std::string& path) {
  std::map<std::string, Row> out;
  auto text = app.files.read(path, uint64_t{64} << 20);
  if (!text) return out;
  for (const auto line : split(*text, '\n')) {
    if (trim(line).empty()) continue;
    auto row = kernels::parse_row(line, path);
    if (row && !row->status.empty() && row->status != store::kNotFinal) out[row->key] = *row;
  }
  return out;
}

class Suite {
 public:
  Suite(App& app, const Options& o, Home home, Machine machine)
      : app_(app),
        o_(o),
        home_(std::move(home)),
        machine_(std::move(machine)),
        runs_(run_folders(app, o.runs)),
        path_(join_path(absolute_path(o.out), "kernels.jsonl")),
        known_(read_rows(app, path_)) {}

  // One kernel: a row, skipped with a reason where it cannot be measured.
  Result<Row> row(const std::string& kernel) {
    Row out;
    out.kernel = kernel;
    out.target = o_.target;
    Settings settings;
    settings.task = kernel;
    settings.target = o_.target;
    settings.cache = o_.cache;
    settings.seed = o_.seed;
    if (!o_.size.empty()) settings.size = o_.size;
    if (!o_.profile.empty()) settings.profile = o_.profile;
    if (!o_.adapter.empty()) settings.profile = o_.adapter;
    const auto skip = [&](const Error& error) {
      out.skipped = error.text();
      return out;
    };
    auto plan = make_plan(app_, home_, machine_, settings);
    if (!plan) return skip(plan.error());
    out.size = plan->frame.size;
    out.latency_bound = plan->task.latency_bound;
    for (const auto& path : task::Task::fitting(plan->task.baselines, plan->target)) {
      const std::string name = task::Task::stem(path);
      const bool library = name.starts_with("blas") || name.starts_with("cublas") ||
                           name.starts_with("cudnn") || name.starts_with("onednn") ||
                           name.starts_with("torch");
      auto& into = library ? out.vendor : out.baseline;
      if (into.empty()) into = name;
    }
    if (out.baseline.empty()) out.baseline = out.vendor;
    auto found = pick_program(app_, runs_, *plan);
    if (!found) return skip(found.error());
    out.best = found->candidate->label();
    out.from = found->run;
    out.costs = found->costs;
    search::JobFrame frame = plan->frame;
    frame.stages = {"compile", "run", "bench"};
    out.key = search::job_id(frame, *found->candidate);
    if (const auto at = known_.find(out.key); at != known_.end() && !o_.again) {
      std::fprintf(app_.err, "%s: measured before\n", kernel.c_str());
      return at->second;
    }
    auto evaluator = start_evaluator(app_, "", "", settings, *plan, 1);
    auto judged = judge(app_, *evaluator, frame, *found->candidate);
    if (!judged) {
      if (judged.error().code == ErrorCode::kTimeout) return fail(judged.error());
      return skip(judged.error());
    }
    if (auto ok = kernels::take_verdict(judged->text, out); !ok) return skip(ok.error());
    // Durable before the next is begun.
    if (auto ok = app_.files.append(path_, kernels::row_json(out) + "\n"); !ok)
      return fail(ok.error());
    return out;
  }

 private:
  App& app_;
  const Options& o_;
  Home home_;
  Machine machine_;
  std::vector<std::string> runs_;
  std::string path_;
  std::map<std::string, Row> known_;
};

Result<std::vector<std::string>> wanted(const App& app, const Home& home, const Options& o) {
  std::vector<std::string> all;
  for (const auto& entry : task::list_tasks(app.files, home.task_roots))
    if (entry.kind == "kernel") all.push_back(entry.name);
  if (o.kernels.empty()) return all;
  std::vector<std::string> out;
  for (const auto word : split(o.kernels, ',')) {
    const std::string name(trim(word));
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      const auto like = nearest(name, all);
      return fail(ErrorCode::kUnknownTask, fmt::format("--kernels: no kernel is called {}", name),
                  like ? fmt::format("did you mean {}?", *like)
                       : fmt::format("known: {}", join(all, ", ")));
    }
    out.push_back(name);
  }
  return out;
}

Status bench_kernels(App& app, const Options& o) {
  auto home = app.home();
  if (!home) return fail(home.error());
  if (o.target != "cpu" && o.target != "cuda" && o.target != "external")
    return fail(ErrorCode::kUsage, fmt::format("--target {}: only what is measured", o.target),
                "use cpu, cuda or external");
  auto names = wanted(app, *home, o);
  if (!names) return fail(names.error());
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  const std::string folder = absolute_path(o.out);
  if (auto ok = app.files.mkdirs(folder); !ok) return ok;
  Suite suite(app, o, std::move(*home), std::move(*machine));
  std::vector<Row> rows;
  for (const auto& name : *names) {
    auto row = suite.row(name);
    if (!row) return fail(row.error());
    if (app.json) app.print(kernels::row_json(*row));
    else
      std::fprintf(app.err, "%zu of %zu %s: %s\n", rows.size() + 1, names->size(), name.c_str(),
                   row->skipped.empty() ? row->status.c_str() : "skipped");
    rows.push_back(std::move(*row));
  }
  const std::string picture = join_path(folder, "kernels.svg");
  if (auto ok = app.files.write_atomic(picture, kernels::picture(rows)); !ok) return ok;
  const std::string text = kernels::table(rows);
  if (auto ok = app.files.write_atomic(join_path(folder, "kernels.txt"), text); !ok) return ok;
  if (!app.json) {
    app.print(text);
    app.print(
        fmt::format("{}: kernels.jsonl (one row a measurement), kernels.txt, kernels.svg", o.out));
  }
  const auto summary = kernels::summarize(rows);
  if (summary.asked - summary.skipped > summary.right)
    return fail(ErrorCode::kNothingPassed,
                fmt::format("{} of {} kernels have no right program",
                            summary.asked - summary.skipped - summary.right, summary.asked));
  if (summary.right == 0)
    return fail(ErrorCode::kNothingPassed, "every kernel was skipped", "the table says why");
  return {};
}

}  // namespace

void add_bench_kernels(CLI::App& bench, App& app, Action& action) {
  auto o = std::make_shared<Options>();
  auto* command = bench.add_subcommand(
      "kernels", "the suite of kernels: best programs against baselines and libraries");
  command->add_option("--target", o->target, "cpu, cuda or external");
  command->add_option("--adapter", o->adapter, "external: a name of adapters/, or a path");
  command->add_option("--kernels", o->kernels, "names, separated by commas; else all");
  command->add_option("--size", o->size, "problem size; else what the target takes");
  command
      ->add_option("--runs", o->runs,
                   "runs, or folders of runs, whose best programs are measured (default: runs); "
                   "a kernel without one is measured with its first seed")
      ->take_all();
  command->add_option("--profile", o->profile, "hardware profile");
  command->add_option("--out", o->out,
                      "folder of kernels.jsonl, which is gone on with, kernels.txt, kernels.svg");
  command->add_flag("--again", o->again, "measure what was measured before too");
  command->add_option("--seed", o->seed, "of inputs and resampling");
  command->add_option("--cache", o->cache, "folder of the compile cache");
  command->callback([&action, &app, o] { action = [&app, o] { return bench_kernels(app, *o); }; });
}

}  // namespace sculler::cli
