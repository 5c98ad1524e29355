#include "cli/lower_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "analyze/blocks.h"
#include "analyze/lower.h"
#include "base/json.h"
#include "base/strings.h"
#include "cli/evolve.h"
#include "cli/run_lock.h"
#include "cli/session.h"
#include "source/blocks.h"

namespace sculler::cli {
namespace {

// What the longest call may take, as the models say.
double call_seconds(const llm::Settings& llm) {
  constexpr double kDay = 86'400;  // a person answers
  double most = llm.timeout_s;
  for (const auto& model : llm.models)
    most = std::max(most, model.timeout_s > 0         ? model.timeout_s
                          : model.provider == "files" ? kDay
                                                      : 0);
  return most;
}

search::FastSettings fast_settings(const Settings& settings, const llm::Settings& llm) {
  search::FastSettings out;
  out.stage_b = settings.lower_stage == "B";
  out.iterations_a = settings.lower_iterations_a;
  out.iterations_b = settings.lower_iterations_b;
  out.annotations = settings.lower_annotations;
  out.judge = settings.lower_judge == "yes";
  out.minutes = settings.minutes;
  out.call_seconds = call_seconds(llm);
  return out;
}

nlohmann::json step_json(const search::FastStep& s) {
  nlohmann::json out{{"stage", s.stage},     {"iteration", s.number}, {"question", s.index},
                     {"outcome", s.outcome}, {"passed", s.passed},    {"line", s.line},
                     {"usd", s.usd}};
  if (s.program > 0) out["program"] = s.program;
  for (const auto& [key, value] :
       {std::pair{"status", &s.status}, std::pair{"diagnosis", &s.diagnosis},
        std::pair{"judge", &s.judge}, std::pair{"why", &s.why}, std::pair{"model", &s.model}})
    if (!value->empty()) out[key] = *value;
  return out;
}

int blocks_of(const search::Source& source) {
  const auto found = source::find_blocks(source.files.front().text, source.file_name);
  return found ? static_cast<int>(found->blocks.size()) : 0;
}

std::string ended(const search::FastOutcome& o, const Status& status) {
  if (!status) return status.error().message;
  return fmt::format("stage {} passed; {} evolve block{}, marked by {}", o.stage,
                     blocks_of(*o.marked), blocks_of(*o.marked) == 1 ? "" : "s",
                     o.marked_by == "annotator" ? "the annotator" : "the built-in rule");
}

Result<nlohmann::json> as_json(const search::FastOutcome& o, const Status& status,
                               const Settings& settings, const std::string& folder) {
  nlohmann::json out{{"file", settings.lower_file},
                     {"run", folder},
                     {"built_in", o.refusal},
                     {"stage", o.stage},
                     {"steps", nlohmann::json::array()},
                     {"usd", o.usd},
                     {"ended", ended(o, status)}};
  for (const auto& step : o.steps) out["steps"].push_back(step_json(step));
  if (!o.marked) return out;
  out["marked_by"] = o.marked_by;
  out["blocks"] = blocks_of(*o.marked);
  out["text"] = o.marked->text;
  auto verdict = parse_json(o.verdict, "verdict");
  if (!verdict) return fail(verdict.error());
  out["verdict"] = std::move(*verdict);
  return out;
}

std::string as_markdown(const search::FastOutcome& o, const Status& status) {
  std::string out = fmt::format("# Lowering\n\n{}\n\n## Why models were asked\n\n{}\n\n",
                                printable(ended(o, status)), agent::fence(o.refusal, "text"));
  for (const auto& step : o.steps) {
    out += fmt::format("## {} {}: {}\n\n", step.stage, step.number, step.outcome);
    if (!step.why.empty()) out += agent::fence(step.why, "text") + "\n\n";
    if (!step.diagnosis.empty())
      out += "Diagnosis of the program before:\n\n" + agent::fence(step.diagnosis, "text") + "\n\n";
    else if (!step.judge.empty()) out += "Judge: " + printable(step.judge) + "\n\n";
    out += agent::fence(step.line, "text") + "\n\n";
  }
  return out + "Prompts and answers: `sculler report RUN --prompts`.\n";
}

// What a person takes away, as far as the run came.
Status write_results(const App& app, const std::string& folder, const search::FastOutcome& o,
                     const Status& status, const std::string& out) {
  if (!o.stage.empty()) {
    const std::string name = o.stage == "A" ? "stage_a.cu" : "stage_b.cu";
    if (auto ok = app.files.write_atomic(join_path(folder, name), o.verified->text); !ok) return ok;
  }
  if (o.marked) {
    if (auto ok = app.files.write_atomic(join_path(folder, "lowered.cu"), o.marked->text); !ok)
      return ok;
    if (!out.empty()) {
      if (auto ok = app.files.write_atomic(out, o.marked->text); !ok) return ok;
    }
  }
  return app.files.write_atomic(join_path(folder, "report.md"), as_markdown(o, status));
}

Status run_lowering(App& app, const std::string& folder, const Settings& settings, const Plan& plan,
                    const search::FastStart* start, const std::string& out) {
  auto lock = RunLock::take(folder);
  if (!lock) return fail(lock.error());
  auto store = store::Store::open(join_path(folder, "store.sqlite"), app.clock);
  if (!store) return fail(store.error());
  if (auto ok = keep_facts(app, **store, folder, plan); !ok) return ok;
  auto llm = effective_llm(settings);
  if (!llm) return fail(llm.error());
  auto brief = open_brief(app, settings, plan, "transformer");
  if (!brief) return fail(brief.error());
  auto models = open_models(app, settings, folder, store->get());
  if (!models) return fail(models.error());
  const InterruptWatch watch(*models->provider, app.interrupted);
  std::unique_ptr<Progress> progress;
  if (app.json) progress = std::make_unique<NoProgress>();
  else progress = std::make_unique<TerminalProgress>(app.out, app.clock);
  progress->line(fmt::format("{}          run {}", target_line(plan), folder));
  progress->line(task_line(plan));
  if (const auto note = replay_line(plan); !note.empty()) progress->line(note);
  search::JobFrame frame = plan.frame;
  frame.stages = {"lint", "compile", "emulate"};
  auto evaluator = start_evaluator(app, join_path(folder, "spool"),
                                   join_path(folder, "evaluator.log"), settings, plan, 1);
  search::Trial trial(**store, app.clock, *evaluator, frame);
  trial.tape = models->tape.get();
  trial.interrupted = app.interrupted;
  search::FastPath path(**store, app.clock, *models->provider, trial, fast_settings(settings, *llm),
                        std::move(*brief), analyze::mark_usual, [&](const search::FastStep& step) {
                          progress->line(search::step_line(step));
                        });
  Status status = path.run(start);
  const search::FastOutcome& outcome = path.outcome();
  if (auto ok = write_results(app, folder, outcome, status, out); !ok) return ok;
  if (app.json) {
    auto json = as_json(outcome, status, settings, folder);
    if (!json) return fail(json.error());
    app.print(dump_json(*json));
    app.answered = true;
  } else if (status) {
    app.print(fmt::format("{} → {}, ${:.4f}", ended(outcome, status),
                          join_path(folder, "lowered.cu"), outcome.usd));
  }
  if (status) return {};
  Error error = status.error();
  error.cure += fmt::format("{}sculler resume {} goes on, sculler report {} --prompts shows all",
                            error.cure.empty() ? "" : "; ", folder, folder);
  return fail(std::move(error));
}

}  // namespace

std::string refusal_text(Error error) {
  error.file = file_name(error.file);
  return error.text();
}

Status lower_with_model(App& app, const std::string& runs, Settings settings, const Plan& plan,
                        const search::FastStart& start, const std::string& out) {
  settings.strategy = "lower";
  auto folder = make_run_folder(app, absolute_path(runs), settings, plan.task.name);
  if (!folder) return fail(folder.error());
  if (auto ok = app.files.write_atomic(join_path(*folder, "host.cu"), start.text); !ok) return ok;
  return run_lowering(app, *folder, settings, plan, &start, out);
}

Status resume_lowering(App& app, const std::string& folder, const Settings& settings,
                       const Plan& plan) {
  // Used where the first life ended before it wrote down what it begins with.
  search::FastStart start;
  start.path = settings.lower_file;
  start.name = "host";
  auto text = app.files.read(join_path(folder, "host.cu"), 1 << 20);
  if (!text) return fail(text.error());
  start.text = std::move(*text);
  if (auto lowered =
          analyze::lower(start.text, file_name(start.path), analyze::Stage::kCollectives);
      !lowered)
    start.refusal = refusal_text(lowered.error());
  return run_lowering(app, folder, settings, plan, &start, {});
}

}  // namespace sculler::cli
