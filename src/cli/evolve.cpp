#include "cli/evolve.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/fence.h"
#include "base/strings.h"
#include "cli/beam.h"

namespace sculler::cli {
namespace {

constexpr std::size_t kReadme = 16'000, kHeader = 24'000, kProfile = 8'000;
// Bytes a token of source code and prose, on the safe side.
constexpr int64_t kBytesAToken = 3, kUsualContext = 128'000;

// The first of these files that is there.
std::string first_of(Files& files, const std::vector<std::string>& paths) {
  for (const auto& path : paths) {
    if (auto text = files.read(path, uint64_t{1} << 20)) return *text;
  }
  return {};
}

// A profile without the comments that take whole lines.
std::string rates_of(const std::string& profile) {
  std::string out;
  for (const auto line : split(profile, '\n')) {
    if (trim(line).empty() || trim(line).starts_with('#')) continue;
    (out += line) += '\n';
  }
  return out;
}

std::string sizes_of(const Plan& plan) {
  std::string out = target_line(plan) + "\n" + task_line(plan) + "\n";
  if (plan.frame.predict_size.empty()) return out;
  if (const auto problem = plan.task.problem(plan.frame.predict_size, plan.n_ranks)) {
    out += fmt::format("size {} is", plan.frame.predict_size);
    for (std::size_t i = 0; i < plan.task.dims.size(); ++i)
      out += fmt::format(" {} {}", plan.task.dims[i], problem->dims[i]);
    if (plan.profile) {
      if (const auto work = plan.task.work(*problem)) {
        if (const auto sol =
                task::speed_of_light(*plan.profile, *work, plan.task.precision_products)) {
          out += fmt::format("; its speed of light is {} (flops {}, memory {}, link {})",
                             microseconds_text(sol->us), microseconds_text(sol->flops_us),
                             microseconds_text(sol->hbm_us), microseconds_text(sol->link_us));
        }
      }
    }
    out += "\n";
  }
  return out;
}

search::Brief brief_of(const App& app, const Home& home, const Plan& plan) {
  search::Brief out;
  const auto& task = plan.task;
  auto& texts = out.constants.texts;
  texts["task_name"] = {task.name, {}, 0};
  texts["task_summary"] = {task.summary, {}, 0};
  texts["task_readme"] = {
      agent::cut(first_of(app.files, {join_path(task.folder, "README.md")}), kReadme), "markdown",
      0};
  texts["task_header"] = {
      agent::cut(first_of(app.files, {join_path(task.folder, "problem.h")}), kHeader), "cuda", 0};
  texts["candidate_header"] = {
      first_of(app.files, {join_path(home.root, "include/sculler/candidate.h"),
                           join_path(home.programs, "../include/sculler/candidate.h")}),
      "c", 0};
  // An adapter's candidates are of its language; its README says what they define.
  if (plan.target == "external")
    texts["candidate_header"] = {
        agent::cut(first_of(app.files, {join_path(parent_path(plan.frame.profile), "README.md")}),
                   kReadme),
        "markdown", 0};
  texts["target"] = {sizes_of(plan), {}, 0};
  std::string profile;
  if (plan.profile) profile = rates_of(first_of(app.files, {plan.profile->path}));
  texts["hardware"] = {agent::cut(profile, kProfile), "toml", 0};
  out.topology = plan.topology;
  out.device_code = plan.target != "cpu" && plan.target != "external";
  return out;
}

// The smallest context of the models that may be asked for programs.
int64_t context_of(const Settings& settings, const llm::Settings& llm, std::string_view role) {
  const int64_t given =
      settings.strategy == "beam" ? settings.beam.context : settings.evolve.context;
  if (given > 0) return given;
  int64_t least = 0;
  for (const auto& model : llm.models) {
    const bool serves = model.roles.empty() || std::find(model.roles.begin(), model.roles.end(),
                                                         role) != model.roles.end();
    if (serves && model.context > 0)
      least = least == 0 ? model.context : std::min(least, model.context);
  }
  return least > 0 ? least : kUsualContext;
}

template <class T>
Status put(Result<T> value, std::string_view key, T& into) {
  if (!value) {
    Error error = value.error();
    error.key = key;
    return fail(std::move(error));
  }
  into = std::move(*value);
  return {};
}

}  // namespace

Status apply_preset(Settings& settings, std::string_view name) {
  if (name == "accelopt") {
    beam_preset(settings);
    return {};
  }
  if (name != "cuco")
    return fail(Error{ErrorCode::kUsage,
                      fmt::format("\"{}\" is no preset", printable(shorten(name, 40))),
                      {},
                      "--preset",
                      "use cuco or accelopt"});
  settings.strategy = "evolve";
  settings.evolve.fix = 0;
  settings.evolve.generations = 50;
  settings.candidates = 0;
  settings.llm.max_usd = 10;
  return {};
}

Result<search::EvolveSettings> evolve_settings(const Settings& s) {
  search::EvolveSettings out = s.evolve;
  if (auto ok = put(search::parse_mix(s.evolve_explore_mix), "evolve.explore_mix", out.explore_mix);
      !ok)
    return fail(ok.error());
  if (auto ok = put(search::parse_mix(s.evolve_exploit_mix), "evolve.exploit_mix", out.exploit_mix);
      !ok)
    return fail(ok.error());
  if (auto ok = put(search::parse_temperatures(s.evolve_explore_temperatures),
                    "evolve.explore_temperatures", out.explore_temperatures);
      !ok)
    return fail(ok.error());
  if (auto ok = put(search::parse_temperatures(s.evolve_exploit_temperatures),
                    "evolve.exploit_temperatures", out.exploit_temperatures);
      !ok)
    return fail(ok.error());
  if (auto ok = put(search::parse_backends(s.evolve_backends), "evolve.backends", out.backends);
      !ok)
    return fail(ok.error());
  out.directive_first = s.evolve_directive == "first";
  out.whole_file = s.evolve_scope == "file";
  out.judge = s.evolve_judge == "yes";
  return out;
}

Status need_models(const Settings& settings) {
  if (settings.strategy == "tuner" || !settings.llm_replay.empty()) return {};
  auto llm = effective_llm(settings);
  if (!llm) return fail(llm.error());
  if (!llm->models.empty()) return {};
  return fail(Error{
      ErrorCode::kUsage,
      fmt::format("strategy {} asks a language model, and none is configured", settings.strategy),
      {},
      "model",
      "write [[model]] with name = \"…\", provider = \"openai\", url = \"…\" and key_env = \"…\" "
      "into "
      "a run file (--run-file run.toml), or say --set llm.model=files:FOLDER to answer yourself"});
}

Result<search::Brief> open_brief(const App& app, const Settings& settings, const Plan& plan,
                                 std::string_view role) {
  auto home = app.home();
  if (!home) return fail(home.error());
  auto llm = effective_llm(settings);
  if (!llm) return fail(llm.error());
  search::Brief brief = brief_of(app, *home, plan);
  std::vector<std::string> folders = {home->root};
  if (!app.config.empty()) folders.insert(folders.begin(), app.config);
  auto library = agent::Library::load(app.files, folders);
  if (!library) return fail(library.error());
  brief.library = std::move(*library);
  brief.context_bytes = static_cast<std::size_t>(context_of(settings, *llm, role) * kBytesAToken);
  return brief;
}

search::AskingRun asking_run(const Settings& settings, const Models& models,
                             std::function<void(const std::string&)> note) {
  search::AskingRun out;
  out.seed = static_cast<uint64_t>(settings.seed);
  out.budget = settings.candidates;
  out.calls = models.at_once;
  out.note = std::move(note);
  out.tape = models.tape.get();
  return out;
}

Result<Asking> open_evolution(const App& app, const std::string& folder, const Settings& settings,
                              const Plan& plan,
                              std::vector<std::shared_ptr<const search::Source>> seeds,
                              store::Store& store, std::function<void(const std::string&)> note) {
  auto evolve = evolve_settings(settings);
  if (!evolve) return fail(evolve.error());
  auto brief = open_brief(app, settings, plan, "mutator");
  if (!brief) return fail(brief.error());
  Asking out;
  auto models = open_models(app, settings, folder, &store);
  if (!models) return fail(models.error());
  out.models = std::move(*models);
  auto run = asking_run(settings, out.models, std::move(note));
  auto strategy =
      std::make_unique<search::Evolve>(std::move(seeds), std::move(*evolve), std::move(run),
                                       *out.models.provider, std::move(*brief), store);
  if (auto ok = strategy->restore(); !ok) return fail(ok.error());
  out.strategy = std::move(strategy);
  return out;
}

}  // namespace sculler::cli
