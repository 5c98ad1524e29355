// Batches of a run on the emulator: job folders for GPUs elsewhere, from the settings `batch.*`.
#pragma once

#include <memory>
#include <string>

#include "cli/app.h"
#include "cli/plan.h"
#include "search/batch.h"

namespace sculler::cli {

// Null where the settings ask for none. kUsage where the run's own times are measured, or the
// profile's GPUs cannot run the task; kBadInput for a size that the task does not have.
[[nodiscard]] Result<std::unique_ptr<search::Batches>> open_batches(const App& app,
                                                                    const std::string& folder,
                                                                    const Settings& settings,
                                                                    const Plan& plan);

}  // namespace sculler::cli
