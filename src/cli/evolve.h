// Strategies of a run that ask models: presets, settings of `evolve` from text, the models, and
// what the agents are told.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/models.h"
#include "cli/plan.h"
#include "search/evolve/evolve.h"
#include "store/shared_memory.h"

namespace sculler::cli {

// The numbers of a published system over the settings, strategy included. kUsage for an unknown
// name.
[[nodiscard]] Status apply_preset(Settings& settings, std::string_view name);

// Lists and words of [evolve] read; kBadInput names the key.
[[nodiscard]] Result<search::EvolveSettings> evolve_settings(const Settings& settings);

// kUsage with what to write where the strategy (evolve, lower) needs a model and none is
// configured.
[[nodiscard]] Status need_models(const Settings& settings);

// What the agents are told of the run; for a context that the models of `role` take.
[[nodiscard]] Result<search::Brief> open_brief(const App& app, const Settings& settings,
                                               const Plan& plan, std::string_view role);

// The strategy is destroyed before the models that it asks and the memory that it shares.
struct Asking {
  Models models;
  std::unique_ptr<store::SharedMemory> memory;
  std::unique_ptr<search::Strategy> strategy;
};
// What a strategy is told of the run that asks `models`.
[[nodiscard]] search::AskingRun asking_run(const Settings& settings, const Models& models,
                                           std::function<void(const std::string&)> note);
// In a run folder whose store is open. `note` gets a line about proposals without a candidate.
[[nodiscard]] Result<Asking> open_evolution(
    const App& app, const std::string& folder, const Settings& settings, const Plan& plan,
    std::vector<std::shared_ptr<const search::Source>> seeds, store::Store& store,
    std::function<void(const std::string&)> note);

}  // namespace sculler::cli
