// A lowering by models in a run folder: what `sculler lower --model` and `sculler resume` have in
// common.
#pragma once

#include <string>

#include "cli/plan.h"
#include "search/fast/fast.h"

namespace sculler::cli {

// Why the built-in lowering does not do, as a model is told it: without folders of this machine.
[[nodiscard]] std::string refusal_text(Error error);

// Makes RUNS/DATE-TASK-N with host.cu and run.toml, and runs the loop in it. `out`: where the end
// goes besides the run folder; may be empty.
[[nodiscard]] Status lower_with_model(App& app, const std::string& runs, Settings settings,
                                      const Plan& plan, const search::FastStart& start,
                                      const std::string& out);

// Goes on in a folder whose run.toml says strategy "lower".
[[nodiscard]] Status resume_lowering(App& app, const std::string& folder, const Settings& settings,
                                     const Plan& plan);

}  // namespace sculler::cli
