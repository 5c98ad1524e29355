// What the commands share that make jobs of single programs: where a program lies, its tunables, a
// pack for another machine.
#pragma once

#include <string>
#include <vector>

#include "cli/app.h"
#include "search/job.h"
#include "task/task.h"

namespace sculler::cli {

// A path, or the name of one of the task's seeds or baselines for `target`. kNotFound with the
// nearest name.
[[nodiscard]] Result<std::string> find_source(Files& files, const task::Task& task,
                                              const std::string& target, const std::string& file);

// Words NAME=VALUE of --define into the candidate. kUsage where a word has no "=", where the source
// at `path` has no such tunable, or the tunable no such value.
[[nodiscard]] Status set_defines(const std::vector<std::string>& words, const std::string& path,
                                 search::Candidate& candidate);

// Runs `argv` (sculler-eval and its options) --pack FOLDER on job lines and prints what it says.
[[nodiscard]] Status pack_jobs(const App& app, std::vector<std::string> argv,
                               const std::string& folder, const std::string& lines);

}  // namespace sculler::cli
