// sculler evaluate TASK FILE
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/jobs.h"
#include "cli/judge.h"
#include "cli/session.h"
#include "source/blocks.h"

namespace sculler::cli {
namespace {

struct Options {
  std::string task, file, target, adapter, profile, size, stages, directive, cache;
  int64_t ranks = 0, nodes = 0, seed = 1;
  std::vector<std::string> defines, sets;
  bool confirm = false, show_profile = false;
};

std::string report(const search::Candidate& candidate, const search::Verdict& v,
                   const nlohmann::json& json, bool show_profile) {
  std::string out = fmt::format("{}: {}", candidate.label(), v.status);
  if (!v.right()) {
    if (v.rank >= 0) out += fmt::format("\nrank    {}", v.rank);
    if (!v.where.empty()) out += fmt::format("\nwhere   {}", printable(v.where));
  }
  if (!v.message.empty()) out += fmt::format("\nwhat    {}", printable(v.message, true));
  if (!v.advice.empty()) out += fmt::format("\ndo      {}", printable(v.advice));
  if (v.latency_us) {
    out += fmt::format("\ntime    {} {}{}", microseconds_text(*v.latency_us), v.latency_kind,
                       v.latency_size.empty() ? "" : " at size " + v.latency_size);
    if (v.latency_low_us && v.latency_high_us && v.latency_kind != "predicted") {
      out += fmt::format(" ({} to {})", microseconds_text(*v.latency_low_us),
                         microseconds_text(*v.latency_high_us));
    }
  }
  for (const auto& [name, ratio] : v.ratio) {
    const auto& interval = v.ratio_interval.at(name);
    out += fmt::format("\n        {:.3f}× over {} ({:.3f} to {:.3f})", ratio, name, interval.first,
                       interval.second);
  }
  if (v.percent_sol) out += fmt::format("\nSOL     {:.0f} %", *v.percent_sol);
  if (v.percent_contended_sol)
    out += fmt::format(", {:.0f} % of the contended one", *v.percent_contended_sol);
  if (const auto* profile = find_member(json, "profile");
      profile != nullptr && profile->is_object()) {
    if (const auto* peak = find_member(json, "percent_peak"); peak != nullptr && peak->is_number())
      out += fmt::format("\npeak    {:.0f} % of the measured one", peak->get<double>());
    out += fmt::format("\nbound   {}: {}; {:.3g} GB/s, {:.3g} GFLOP/s",
                       printable(string_or(*profile, "bottleneck", "")),
                       printable(string_or(*profile, "why", "")), number_or(*profile, "gb_s", 0),
                       number_or(*profile, "gflop_s", 0));
    const auto* remarks = find_member(*profile, "remarks");
    if (remarks != nullptr && remarks->is_array() && show_profile) {
      for (const auto& remark : strings_of(*profile, "remarks"))
        out += fmt::format("\nloop    {}", printable(remark));
      if (const auto* facts = find_member(json, "facts"); facts != nullptr && facts->is_object()) {
        for (const char* name : {"vector_bits", "vector_spills"})
          out += fmt::format("\nfact    {} {}", name, int_or(*facts, name, 0));
      }
    }
  }
  for (const auto& note : strings_of(json, "notes"))
    out += fmt::format("\nnote    {}", printable(note));
  return out + fmt::format("\nheld by {}", v.containment.empty() ? "not said" : v.containment);
}

Status evaluate(App& app, const Options& o) {
  auto home = app.home();
  if (!home) return fail(home.error());
  Settings settings;
  settings.task = o.task;
  for (const auto& [key, value] :
       {std::pair{"target", o.target}, std::pair{"profile", o.adapter},
        std::pair{"profile", o.profile}, std::pair{"size", o.size},
        std::pair{"eval.cache", o.cache},
        std::pair{"ranks", o.ranks > 0 ? std::to_string(o.ranks) : std::string()},
        std::pair{"nodes", o.nodes > 0 ? std::to_string(o.nodes) : std::string()},
        std::pair{"seed", std::to_string(o.seed)}}) {
    if (value.empty()) continue;
    if (auto ok = set_setting(settings, key, value, "--set"); !ok) return ok;
  }
  for (const auto& assignment : o.sets) {
    if (auto ok = apply_override(settings, assignment); !ok) return ok;
  }
  auto folder = task::find_task(app.files, home->task_roots, settings.task);
  if (!folder) return fail(folder.error());
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  auto plan = make_plan(app, *home, *machine, settings);
  if (!plan) return fail(plan.error());
  auto path = find_source(app.files, plan->task, plan->target, o.file);
  if (!path) return fail(path.error());
  auto source = search::load_source(app.files, *path);
  if (!source) return fail(source.error());
  const auto known = plan->task.baseline_path((*source)->name, plan->target);
  const bool baseline = !known.empty() && join_path(plan->task.folder, known) == *path;
  if (!baseline) {
    if (auto blocks = source::need_blocks((*source)->text, *path); !blocks)
      return fail(blocks.error());
  }
  if (!o.directive.empty()) {
    auto given = o.directive.starts_with("{") ? Result<std::string>(o.directive)
                                              : app.files.read(o.directive, 1 << 16);
    if (!given) return fail(given.error());
    auto parsed =
        directive::parse_text(*given, o.directive.starts_with("{") ? "--directive" : o.directive);
    if (!parsed) return fail(parsed.error());
    auto copy = std::make_shared<search::Source>(**source);
    copy->directive = *parsed;
    copy->has_directive = true;
    *source = std::move(copy);
  }
  if ((*source)->has_directive) {
    // The emulator has GIN, whatever the profile is that times are predicted for.
    auto topology = plan->topology;
    topology.gin = topology.gin || plan->target == "emu";
    if (auto ok = directive::check((*source)->directive, topology,
                                   o.directive.empty() ? *path : "--directive");
        !ok)
      return ok;
  }
  auto candidate = search::usual(*source, baseline ? "baseline" : "user");
  candidate.baseline = baseline;
  if (auto ok = set_defines(o.defines, *path, candidate); !ok) return ok;
  search::JobFrame frame = plan->frame;
  if (o.confirm) frame.stages = search::confirm_stages(plan->target);
  if (!o.stages.empty()) {
    frame.stages.clear();
    for (const auto stage : split(o.stages, ',')) frame.stages.emplace_back(trim(stage));
  }
  auto evaluator = start_evaluator(app, "", "", settings, *plan, 1);
  auto judged = judge(app, *evaluator, frame, candidate);
  if (!judged) return fail(judged.error());
  auto json = parse_json(judged->text, "verdict");
  if (!json) return fail(json.error());
  app.print(app.json ? dump_json(*json)
                     : report(candidate, judged->verdict, *json, o.show_profile));
  app.answered = true;
  if (judged->verdict.right()) return {};
  return fail(ErrorCode::kNothingPassed,
              fmt::format("{} did not pass: {}", candidate.label(), judged->verdict.status));
}

}  // namespace

void add_evaluate(CLI::App& cli, App& app, Action& action) {
  auto o = std::make_shared<Options>();
  auto* command = cli.add_subcommand("evaluate", "judge one program");
  command->add_option("task", o->task, "name of a task, or its folder")->required();
  command->add_option("file", o->file, "a source, or the name of a seed or baseline")->required();
  command->add_option("--target", o->target, "auto, cuda, emu, cpu or external");
  command->add_option("--adapter", o->adapter, "external: a name of adapters/, or a path");
  command->add_option("--profile", o->profile, "hardware profile");
  command->add_option("--ranks", o->ranks, "number of ranks");
  command->add_option("--nodes", o->nodes, "nodes that the ranks lie on (emu)");
  command->add_option("--size", o->size, "problem size");
  command->add_option("--seed", o->seed, "of inputs and schedules");
  command->add_option("--stages", o->stages,
                      "gates, separated by commas: lint,compile,emulate,run,stress,bench,confirm");
  command->add_flag("--confirm", o->confirm, "all gates, as an elite passes them");
  command->add_option("--define,-D", o->defines, "value of a tunable: NAME=VALUE")->take_all();
  command->add_option("--directive", o->directive,
                      "JSON, or a file with it, in place of the source's own");
  command->add_flag("--show-profile", o->show_profile,
                    "cpu: what became of the loops, vector width and spills too");
  command->add_option("--cache", o->cache, "folder of the compile cache");
  command->add_option("--set", o->sets, "any setting: key=value")->take_all();
  command->callback([&action, &app, o] { action = [&app, o] { return evaluate(app, *o); }; });
}

}  // namespace sculler::cli
