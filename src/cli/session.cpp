#include "cli/session.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/hold.h"
#include "base/json.h"
#include "base/strings.h"
#include "cli/batches.h"
#include "cli/beam.h"
#include "cli/evolve.h"
#include "cli/run_lock.h"
#include "search/best.h"
#include "search/tuner.h"

namespace sculler::cli {
namespace {

constexpr uint64_t kLeastFreeBytes = uint64_t{64} << 20;

Result<std::vector<std::shared_ptr<const search::Source>>> load_all(
    const App& app, const Plan& plan, const std::vector<std::string>& paths) {
  std::vector<std::shared_ptr<const search::Source>> out;
  for (const auto& path : paths) {
    auto source = search::load_source(app.files, join_path(plan.task.folder, path));
    if (!source) return fail(source.error());
    out.push_back(std::move(*source));
  }
  return out;
}

std::string relative_to_here(const std::string& path) {
  const std::string here = absolute_path(".") + "/";
  return path.starts_with(here) ? path.substr(here.size()) : path;
}

nlohmann::json summary_json(const search::Summary& s, const std::string& folder, const Plan& plan) {
  nlohmann::json out{{"run", folder},
                     {"task", plan.task.name},
                     {"target", plan.target},
                     {"evaluated", s.tally.evaluated},
                     {"passed", s.tally.passed},
                     {"seconds", s.tally.seconds},
                     {"ended", s.why},
                     {"usd", s.tally.usd},
                     {"baselines_us", s.baseline_us},
                     {"best_baseline", s.best_baseline}};
  if (!plan.replayed.empty()) out["replayed"] = plan.replayed;
  if (s.best) {
    const auto& best = *s.best;
    nlohmann::json b{{"program", best.program},
                     {"label", best.candidate.label()},
                     {"status", best.verdict.status},
                     {"confirmed", best.confirmed},
                     {"ratio", best.ratio},
                     {"folder", join_path(folder, "best")},
                     {"kind", best.verdict.latency_kind}};
    if (best.verdict.latency_us) b["latency_us"] = *best.verdict.latency_us;
    if (best.measured && best.measured->latency_us)
      b["measured"] = {{"latency_us", *best.measured->latency_us}, {"ratio", best.measured->ratio}};
    if (best.verdict.percent_sol) b["percent_sol"] = *best.verdict.percent_sol;
    out["best"] = std::move(b);
  }
  return out;
}

// The evaluator's options where it hands jobs to steps of Slurm.
void add_slurm(const Settings& settings, SpawnOptions& command) {
  const auto seconds = [](double minutes) {
    return std::to_string(static_cast<int64_t>(std::ceil(minutes * 60)));
  };
  command.argv.insert(
      command.argv.end(),
      {"--srun", settings.srun, "--slots", std::to_string(settings.slots), "--requeues",
       std::to_string(settings.requeues), "--slot-silence",
       std::to_string(settings.silence_seconds), "--slot-start", seconds(settings.start_minutes),
       "--slot-answer", seconds(settings.answer_minutes), "--slot-idle",
       seconds(settings.idle_minutes)});
  if (!settings.slot_shared.empty())
    command.argv.insert(command.argv.end(), {"--shared", absolute_path(settings.slot_shared)});
  if (!settings.slot_programs.empty())
    command.argv.insert(command.argv.end(), {"--slot-programs", settings.slot_programs});
  const auto slurm = slurm_environment();
  command.env.insert(command.env.end(), slurm.begin(), slurm.end());
}

}  // namespace

Result<std::string> make_run_folder(const App& app, const std::string& runs,
                                    const Settings& settings, const std::string& task_name) {
  if (auto ok = app.files.mkdirs(runs); !ok) return fail(ok.error());
  auto free = app.files.free_bytes(runs);
  if (free && *free < kLeastFreeBytes) {
    return fail(Error{
        ErrorCode::kDiskFull,
        fmt::format("{} free, a run needs {}", bytes_text(*free), bytes_text(kLeastFreeBytes)),
        runs,
        {},
        "free space there, or choose another folder with --runs"});
  }
  const std::string stem = fmt::format("{}-{}", date_text(app.clock.wall_ms()), task_name);
  for (int n = 1;; ++n) {
    const std::string folder = join_path(runs, fmt::format("{}-{}", stem, n));
    if (app.files.exists(folder)) continue;
    if (auto ok = app.files.mkdirs(join_path(folder, "spool")); !ok) return fail(ok.error());
    if (auto ok = app.files.write_atomic(join_path(folder, "run.toml"), print_settings(settings));
        !ok)
      return fail(ok.error());
    return folder;
  }
}

std::unique_ptr<search::Evaluator> start_evaluator(const App& app, const std::string& spool,
                                                   const std::string& log, const Settings& settings,
                                                   const Plan& plan, int parallel) {
  if (app.make_evaluator) return app.make_evaluator(spool);
  SpawnOptions command;
  command.argv = {join_path(app.programs, "sculler-eval"), "--parallel", std::to_string(parallel)};
  if (!spool.empty()) command.argv.insert(command.argv.end(), {"--spool", spool});
  if (!settings.cache.empty())
    command.argv.insert(command.argv.end(), {"--cache", absolute_path(settings.cache)});
  if (settings.containment != "auto")
    command.argv.insert(command.argv.end(), {"--containment", settings.containment});
  command.env = evaluator_environment();
  if (settings.launcher == "slurm") add_slurm(settings, command);
  auto evaluator =
      std::make_unique<search::ProcessEvaluator>(app.processes, app.clock, std::move(command), log);
  // The evaluator has deadlines of its own for every step; this one is for an evaluator that hangs
  // itself.
  const auto& t = plan.task.timeouts;
  evaluator->set_stall_ms(static_cast<int64_t>(10e3 * (t.compile_s + t.emulate_s + t.run_s)));
  return evaluator;
}

Status keep_facts(const App& app, store::Store& store, const std::string& folder,
                  const Plan& plan) {
  for (const auto& [name, value] :
       {std::pair{"task", plan.task.name}, std::pair{"target", plan.target},
        std::pair{"task_sha256", plan.task.sha256}}) {
    if (auto ok = store.set_fact(name, value); !ok) return ok;
    auto kept = store.fact(name);
    if (!kept) return fail(kept.error());
    if (*kept != value && std::string_view(name) != "task_sha256") {
      return fail(Error{ErrorCode::kUsage,
                        fmt::format("this run's {} is {}, not {}", name, *kept, value), folder,
                        name, "start a new run"});
    }
    if (*kept != value)
      app.print(fmt::format(
          "note: {} changed since the run began; what was evaluated before is not counted",
          plan.task.name));
  }
  return {};
}

Status run_in_folder(const App& app, const std::string& folder, const Settings& settings,
                     const Plan& plan, bool resumed) {
  auto lock = RunLock::take(folder);
  if (!lock) return fail(lock.error());
  auto store = store::Store::open(join_path(folder, "store.sqlite"), app.clock);
  if (!store) return fail(store.error());
  if (auto ok = keep_facts(app, **store, folder, plan); !ok) return ok;

  auto baseline_sources =
      load_all(app, plan, task::Task::fitting(plan.task.baselines, plan.target));
  if (!baseline_sources) return fail(baseline_sources.error());
  std::vector<search::Candidate> baselines;
  for (auto& source : *baseline_sources) {
    auto candidate = search::usual(std::move(source), "baseline");
    candidate.baseline = true;
    baselines.push_back(std::move(candidate));
  }
  auto seeds = load_all(app, plan, task::Task::fitting(plan.task.seeds, plan.target));
  if (!seeds) return fail(seeds.error());
  std::vector<std::shared_ptr<const search::Source>> possible;
  std::vector<std::string> left_out;
  for (auto& seed : *seeds) {
    if (seed->has_directive) {
      if (auto ok = directive::check(seed->directive, plan.topology, seed->name); !ok) {
        left_out.push_back(ok.error().text());
        continue;
      }
    }
    possible.push_back(std::move(seed));
  }
  if (possible.empty()) {
    return fail(Error{ErrorCode::kBadDirective,
                      left_out.empty() ? "the task has no seeds"
                                       : "no seed is possible here: " + join(left_out, "; "),
                      plan.task.folder, "files.seeds", "add a seed to task.toml"});
  }

  std::unique_ptr<Progress> progress;
  if (app.json) progress = std::make_unique<NoProgress>();
  else progress = std::make_unique<TerminalProgress>(app.out, app.clock);
  const std::string shown = relative_to_here(folder);
  progress->line(
      fmt::format("{}          run {}{}", target_line(plan), shown, resumed ? " (resumed)" : ""));
  progress->line(task_line(plan));
  if (const auto note = replay_line(plan); !note.empty()) progress->line(note);
  for (const auto& reason : left_out) progress->line(fmt::format("left out {}", reason));
  const bool asking = settings.strategy != "tuner";
  progress->line(search::table_head(plan.target == "emu" ? "predicted" : "measured",
                                    baselines.front().source->name, asking));

  search::RunSettings run_settings;
  run_settings.frame = plan.frame;
  run_settings.budget = settings.candidates;
  run_settings.minutes = settings.minutes;
  run_settings.patience = settings.patience;
  run_settings.target_ratio = settings.target_ratio;
  run_settings.stop_at_percent_sol = settings.stop_at_percent_sol;
  run_settings.in_flight = plan.parallel + 1;  // one waits, so that the evaluator never does
  run_settings.confirm = static_cast<int>(settings.confirm);
  run_settings.spool = join_path(folder, "spool");
  const auto few = [](int64_t n) { return n > 0 && n <= 100; };
  run_settings.show_all = few(settings.candidates) ||
                          (settings.strategy == "evolve" && few(settings.evolve.generations));
  run_settings.show_proposer = asking;
  Log log(app.files, app.clock, join_path(folder, "log.jsonl"));
  std::unique_ptr<search::Strategy> tuner;
  Asking asked;
  if (asking) {
    const auto note = [&](const std::string& text) {
      log.write(LogLevel::kInfo, "proposal", {{"text", text}});
      if (run_settings.show_all) progress->line("      " + text);
    };
    const auto open = settings.strategy == "beam" ? open_beam : open_evolution;
    auto opened = open(app, folder, settings, plan, std::move(possible), **store, note);
    if (!opened) return fail(opened.error());
    asked = std::move(*opened);
  } else {
    search::TunerSettings tuner_settings;
    tuner_settings.seed = static_cast<uint64_t>(settings.seed);
    tuner_settings.budget = settings.candidates;
    tuner_settings.round_points = settings.round_points;
    tuner = std::make_unique<search::Tuner>(std::move(possible), tuner_settings);
  }
  search::Strategy& strategy = asking ? *asked.strategy : *tuner;
  auto batches = open_batches(app, folder, settings, plan);
  if (!batches) return fail(batches.error());
  auto evaluator = start_evaluator(app, run_settings.spool, join_path(folder, "evaluator.log"),
                                   settings, plan, plan.parallel);
  search::Run run(**store, app.files, app.clock, *evaluator, strategy, *progress, log,
                  run_settings);
  run.interrupted = app.interrupted;
  run.tape = asked.models.tape.get();
  run.batches = batches->get();
  auto summary = run.execute(baselines);
  evaluator.reset();
  strategy.finish();
  if (!summary) return fail(summary.error());

  const std::string best_folder = join_path(folder, "best");
  hold_point("best");
  if (summary->best) {
    search::BestContext context;
    context.task = plan.task.name;
    context.target = plan.target;
    context.profile = plan.profile ? plan.profile->name : "";
    context.size = plan.frame.size;
    context.batch_profile = settings.batch_profile;
    context.run_folder = folder;
    context.commands = fmt::format("sculler evaluate {} {} --target {} --ranks {}", plan.task.name,
                                   join_path("best", summary->best->candidate.source->file_name),
                                   plan.target, plan.n_ranks);
    if (plan.frame.nodes > 1) context.commands += fmt::format(" --nodes {}", plan.frame.nodes);
    for (const auto& [name, value] : summary->best->candidate.defines)
      context.commands += fmt::format(" --define {}={}", name, value);
    if (auto ok = search::write_best(app.files, best_folder, *summary, context); !ok) return ok;
  }
  if (app.json) {
    app.print(dump_json(summary_json(*summary, folder, plan)));
  } else {
    if (summary->best) {
      const auto& best = *summary->best;
      app.print(
          fmt::format("best: {} → {} ({}, directive.json, verdict.json, README.md){}      next: "
                      "sculler export {}",
                      best.program, join_path(shown, "best"), best.candidate.source->file_name,
                      best.confirmed ? best.confirmation() : "", shown));
      if (!summary->best_baseline.empty() && best.score > 0) {
        app.print(fmt::format("{:.2f}× over {}, the best of {} baseline{}",
                              best.ratio.count(summary->best_baseline) > 0
                                  ? best.ratio.at(summary->best_baseline)
                                  : best.score,
                              summary->best_baseline, summary->baseline_us.size(),
                              summary->baseline_us.size() == 1 ? "" : "s"));
      }
      if (best.measured) app.print(search::measured_text(*best.measured, settings.batch_profile));
    }
    std::string last = search::tally_text(summary->tally, false);
    if (summary->from_store > 0)
      last += fmt::format("; {} verdicts were there already", summary->from_store);
    if (summary->why != "budget") last += fmt::format("; ended by {}", summary->why);
    app.print(last);
  }
  if (summary->why == "interrupted")
    return fail(Error{ErrorCode::kTimeout,
                      "interrupted",
                      {},
                      {},
                      fmt::format("sculler resume {} goes on", shown)});
  // A budget that is spent is an end as it was planned; models that cannot be asked are none.
  if (const auto stopped = strategy.stopped_by();
      stopped && stopped->code != ErrorCode::kModelBudget) {
    Error error = *stopped;
    error.cure += fmt::format("{}sculler resume {} goes on", error.cure.empty() ? "" : "; ", shown);
    return fail(std::move(error));
  }
  if (!summary->best) {
    return fail(ErrorCode::kNothingPassed, "no candidate passed",
                fmt::format("see the rows above, or sculler export {}", shown));
  }
  return {};
}

}  // namespace sculler::cli
