#include "cli/beam.h"

#include "base/sha256.h"
#include "base/strings.h"
#include "search/beam/beam.h"

namespace sculler::cli {

void beam_preset(Settings& settings) {
  settings.strategy = "beam";  // its settings are the published ones
  settings.candidates = 0;
  settings.llm.max_usd = 10;
}

Result<search::beam::BeamSettings> beam_settings(const Settings& s) {
  search::beam::BeamSettings out = s.beam;
  if (s.beam_memory.empty()) {
    return fail(Error{ErrorCode::kBadInput,
                      "is empty",
                      {},
                      "beam.memory",
                      "write on, off, or the file of a memory that runs share"});
  }
  out.faithful = s.beam_faithful == "yes";
  out.sampling = s.beam_sampling == "yes";
  out.remeasure = s.beam_remeasure == "yes";
  out.whole_file = s.beam_scope == "file";
  out.memory = s.beam_memory != "off";
  if (out.memory && s.beam_memory != "on") out.shared = absolute_path(s.beam_memory);
  return out;
}

bool beam_without_model(Settings& settings) {
  if (settings.strategy != "beam" || !settings.llm_replay.empty()) return false;
  const auto llm = effective_llm(settings);
  if (!llm || !llm->models.empty()) return false;
  settings.strategy = "tuner";
  if (settings.candidates == 0) settings.candidates = Settings().candidates;
  return true;
}

Result<Asking> open_beam(const App& app, const std::string& folder, const Settings& settings,
                         const Plan& plan, std::vector<std::shared_ptr<const search::Source>> seeds,
                         store::Store& store, std::function<void(const std::string&)> note) {
  auto beam = beam_settings(settings);
  if (!beam) return fail(beam.error());
  auto brief = open_brief(app, settings, plan, "executor");
  if (!brief) return fail(brief.error());
  Asking out;
  auto models = open_models(app, settings, folder, &store);
  if (!models) return fail(models.error());
  out.models = std::move(*models);
  search::beam::BeamRun run{asking_run(settings, out.models, std::move(note))};
  if (!beam->shared.empty()) {
    auto memory = store::SharedMemory::open(beam->shared, app.clock);
    if (!memory) return fail(memory.error());
    out.memory = std::move(*memory);
    run.shared = out.memory.get();
    run.name = sha256_hex(folder).substr(0, 16);
  }
  run.task = plan.task.name;
  run.target = plan.target;
  auto strategy =
      std::make_unique<search::beam::Beam>(std::move(seeds), std::move(*beam), std::move(run),
                                           *out.models.provider, std::move(*brief), store);
  if (auto ok = strategy->restore(); !ok) return fail(ok.error());
  out.strategy = std::move(strategy);
  return out;
}

}  // namespace sculler::cli
