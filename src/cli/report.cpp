// sculler report RUN: what a run did, and with --prompts what its models were asked and answered.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/app.h"
#include "search/beam/facts.h"
#include "search/evolve/journal.h"
#include "search/fast/record.h"
#include "search/verdict.h"
#include "store/calls.h"
#include "store/store.h"

namespace sculler::cli {
namespace {

struct Options {
  std::string run, role, question;
  bool prompts = false;
};

Status print_prompts(App& app, const std::string& path, const Options& o) {
  auto calls = store::Calls::open(path, app.clock);
  if (!calls) return fail(calls.error());
  int64_t shown = 0;
  auto ok = (*calls)->each([&](const store::LlmCall& call) {
    if (!o.role.empty() && call.role != o.role) return;
    if (!o.question.empty() && !call.question.starts_with(o.question)) return;
    ++shown;
    if (app.json) {
      app.print(dump_json({{"question", call.question},
                           {"role", call.role},
                           {"model", call.model},
                           {"outcome", call.outcome},
                           {"prompt_tokens", call.prompt_tokens},
                           {"answer_tokens", call.answer_tokens},
                           {"usd", call.usd},
                           {"prompt", call.prompt},
                           {"answer", call.answer}}));
      return;
    }
    app.print(fmt::format("##### {}  {}  {}  {} + {} tokens  ${:.4f}\n{}\n##### answer of {}\n{}\n",
                          call.question, call.model, call.outcome, call.prompt_tokens,
                          call.answer_tokens, call.usd, printable(call.prompt, true), call.question,
                          printable(call.answer, true)));
  });
  if (!ok) return ok;
  if (shown == 0 && !app.json) app.print("no model was asked in this run");
  return {};
}

// What a beam search did, in numbers.
struct BeamCounts {
  std::size_t rounds = 0, plans = 0, plans_of_use = 0, programs = 0;
  std::vector<search::beam::MemoryItem> items;  // learnt in this run
};

BeamCounts count(const search::beam::Facts& facts) {
  BeamCounts out;
  out.rounds = facts.rounds.size();
  out.plans = facts.plans.size();
  for (const auto& [index, plan] : facts.plans) out.plans_of_use += plan.plan.empty() ? 0 : 1;
  for (const auto& [index, kernel] : facts.kernels) out.programs += kernel.program > 0 ? 1 : 0;
  for (const auto& [key, item] : facts.lessons)
    if (item) out.items.push_back(*item);
  return out;
}

void print_beam(App& app, const BeamCounts& beam) {
  if (beam.rounds == 0) return;
  app.print(fmt::format("beam: {} rounds, {} plans, of which {} could be used, {} programs",
                        beam.rounds, beam.plans, beam.plans_of_use, beam.programs));
  for (const auto& item : beam.items)
    app.print(fmt::format("  learnt: program {} to {}, {:.3f}x{}: {}", item.slow, item.fast,
                          item.speedup, item.positive ? "" : ", made slower",
                          printable(item.title)));
}

Status print_summary(App& app, const std::string& path) {
  auto store = store::Store::open(path, app.clock);
  if (!store) return fail(store.error());
  std::map<std::string, int64_t> statuses, outcomes;
  int64_t recorded = 0;                                        // verdicts of a cassette
  std::map<int64_t, std::pair<std::string, double>> programs;  // id → name, best ratio
  auto ok =
      (*store)->each_program(0, [&](const store::Program& p) { programs[p.id] = {p.name, 0}; });
  if (!ok) return ok;
  ok = (*store)->each_attempt([&](const store::Attempt& a, const store::Evaluation* e) {
    ++statuses[e == nullptr ? "open" : e->status];
    if (e != nullptr) {
      const auto verdict = search::parse_verdict(e->verdict, a.job.substr(0, 12));
      recorded += verdict && verdict->recorded ? 1 : 0;
    }
    if (e != nullptr && e->ratio && !a.baseline)
      programs[a.program].second = std::max(programs[a.program].second, *e->ratio);
  });
  if (!ok) return ok;
  search::Journal journal(**store);
  auto state = journal.read();
  if (!state) return fail(state.error());
  int64_t made = 0, open = 0;
  for (const auto& proposal : state->proposals) {
    made += proposal.program > 0 ? 1 : 0;
    open += proposal.answered ? 0 : 1;
  }
  auto lowering = search::read_facts(**store);
  if (!lowering) return fail(lowering.error());
  auto beam_facts = search::beam::read_facts(**store);
  if (!beam_facts) return fail(beam_facts.error());
  const BeamCounts beam = count(*beam_facts);
  auto calls = store::Calls::open(path, app.clock);
  if (!calls) return fail(calls.error());
  auto totals = (*calls)->totals();
  if (!totals) return fail(totals.error());
  if (app.json) {
    nlohmann::json models = nlohmann::json::array();
    for (const auto& t : *totals)
      models.push_back({{"model", t.model},
                        {"calls", t.calls},
                        {"prompt_tokens", t.prompt_tokens},
                        {"answer_tokens", t.answer_tokens},
                        {"usd", t.usd}});
    app.print(dump_json({{"evaluations", statuses},
                         {"recorded", recorded},
                         {"proposals", state->proposals.size()},
                         {"proposals_with_a_program", made},
                         {"proposals_open", open},
                         {"lowering_steps", lowering->steps.size()},
                         {"beam_rounds", beam.rounds},
                         {"plans", beam.plans},
                         {"plans_of_use", beam.plans_of_use},
                         {"memory_items", beam.items.size()},
                         {"models", std::move(models)}}));
    return {};
  }
  std::string line;
  for (const auto& [status, n] : statuses)
    line += fmt::format("{}{} {}", line.empty() ? "evaluations: " : ", ", n, status);
  if (recorded > 0) line += fmt::format("; {} are recorded, a cassette's", recorded);
  app.print(line.empty() ? "nothing was evaluated" : line);
  if (!state->proposals.empty())
    app.print(fmt::format("proposals: {}, of which {} gave a program{}", state->proposals.size(),
                          made, open > 0 ? fmt::format(", {} are open", open) : std::string()));
  print_beam(app, beam);
  if (lowering->begin)
    app.print("lowering; models were asked because " + printable(lowering->begin->refusal));
  for (const auto& step : lowering->steps) {
    app.print("  " + search::step_line(step));
    if (!step.diagnosis.empty()) app.print(printable(step.diagnosis, true));
  }
  for (const auto& t : *totals)
    app.print(fmt::format("model {}: {} calls, {} + {} tokens, ${:.2f}", t.model, t.calls,
                          t.prompt_tokens, t.answer_tokens, t.usd));
  std::vector<std::pair<double, int64_t>> best;
  for (const auto& [id, program] : programs)
    if (program.second > 0) best.emplace_back(program.second, id);
  std::sort(best.rbegin(), best.rend());
  if (best.size() > 10) best.resize(10);
  for (const auto& [ratio, id] : best)
    app.print(fmt::format("  {:>5}  {:<30}  {:.3f}x the best baseline", id,
                          shorten(programs[id].first, 30), ratio));
  if (!state->summary.empty()) app.print("\nlast summary:\n" + printable(state->summary, true));
  return {};
}

Status report(App& app, const Options& o) {
  const std::string path = join_path(absolute_path(o.run), "store.sqlite");
  if (!app.files.exists(path)) {
    return fail(Error{ErrorCode::kNotFound,
                      "is no run folder: store.sqlite is not there",
                      absolute_path(o.run),
                      {},
                      "give the folder that sculler optimize made"});
  }
  // Also brings the schema up where the run is new.
  if (auto store = store::Store::open(path, app.clock); !store) return fail(store.error());
  return o.prompts ? print_prompts(app, path, o) : print_summary(app, path);
}

}  // namespace

void add_report(CLI::App& cli, App& app, Action& action) {
  auto o = std::make_shared<Options>();
  auto* command = cli.add_subcommand("report", "what a run did");
  command->add_option("run", o->run, "the run's folder")->required();
  command->add_flag("--prompts", o->prompts, "every prompt and answer of its models");
  command->add_option("--role", o->role, "with --prompts: of this role alone (mutator, meta, …)");
  command->add_option("--question", o->question,
                      "with --prompts: of this proposal alone (000012, 000012-mutator)");
  command->callback([&action, &app, o] { action = [&app, o] { return report(app, *o); }; });
}

}  // namespace sculler::cli
