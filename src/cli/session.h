// A run from its folder: what optimize and resume have in common.
#pragma once

#include <string>

#include "cli/plan.h"
#include "search/run.h"

namespace sculler::cli {

// Makes runs/DATE-TASK-N below `runs` and writes run.toml into it. Gives the folder.
[[nodiscard]] Result<std::string> make_run_folder(const App& app, const std::string& runs,
                                                  const Settings& settings,
                                                  const std::string& task_name);

// What the run is about, kept with its first life: kUsage where a later one is about something
// else.
[[nodiscard]] Status keep_facts(const App& app, store::Store& store, const std::string& folder,
                                const Plan& plan);

// Runs the loop in `folder` to its end, prints the table, writes best/. kNothingPassed where
// nothing did.
[[nodiscard]] Status run_in_folder(const App& app, const std::string& folder,
                                   const Settings& settings, const Plan& plan, bool resumed);

// sculler-eval as a child, its stderr in FOLDER/evaluator.log.
[[nodiscard]] std::unique_ptr<search::Evaluator> start_evaluator(const App& app,
                                                                 const std::string& spool,
                                                                 const std::string& log,
                                                                 const Settings& settings,
                                                                 const Plan& plan, int parallel);

}  // namespace sculler::cli
