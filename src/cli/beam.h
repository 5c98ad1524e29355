// Strategy `beam` of a run: its settings from text, its models and its memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/evolve.h"
#include "search/beam/settings.h"

namespace sculler::cli {

// The settings of AccelOpt (arXiv 2511.15915), bounded by nothing but its rounds.
void beam_preset(Settings& settings);
// Words of [beam] read; kBadInput names the key.
[[nodiscard]] Result<search::beam::BeamSettings> beam_settings(const Settings& settings);
// Strategy beam becomes the tuner where no model is configured, with its usual budget where there
// is no bound; says whether it did.
[[nodiscard]] bool beam_without_model(Settings& settings);
// In a run folder whose store is open. `note` gets a line about rounds and answers.
[[nodiscard]] Result<Asking> open_beam(const App& app, const std::string& folder,
                                       const Settings& settings, const Plan& plan,
                                       std::vector<std::shared_ptr<const search::Source>> seeds,
                                       store::Store& store,
                                       std::function<void(const std::string&)> note);

}  // namespace sculler::cli
