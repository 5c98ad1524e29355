#include "cli/jobs.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/machine.h"
#include "search/candidate.h"
#include "source/tunables.h"

namespace sculler::cli {

Result<std::string> find_source(Files& files, const task::Task& task, const std::string& target,
                                const std::string& file) {
  if (files.exists(file)) return absolute_path(file);
  std::vector<std::string> names;
  for (const auto* list : {&task.baselines, &task.seeds}) {
    for (const auto& path : task::Task::fitting(*list, target)) {
      if (task::Task::stem(path) == file) return join_path(task.folder, path);
      names.push_back(task::Task::stem(path));
    }
  }
  const auto like = nearest(file, names);
  return fail(Error{ErrorCode::kNotFound,
                    "no such file, and no seed or baseline of that name",
                    file,
                    {},
                    like ? fmt::format("did you mean {}?", *like)
                         : fmt::format("the task has {}", join(names, ", "))});
}

Status set_defines(const std::vector<std::string>& words, const std::string& path,
                   search::Candidate& candidate) {
  source::Defines defines;
  for (const auto& word : words) {
    const auto equals = word.find('=');
    if (equals == std::string::npos)
      return fail(ErrorCode::kUsage, fmt::format("--define {}: there is no \"=\"", word),
                  "write --define NAME=VALUE");
    defines.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  if (auto ok = source::check_defines(candidate.source->tunables, defines, path); !ok) return ok;
  for (const auto& [name, value] : defines) {
    for (auto& [known, old] : candidate.defines) {
      if (known == name) old = value;
    }
  }
  return {};
}

Status pack_jobs(const App& app, std::vector<std::string> argv, const std::string& folder,
                 const std::string& lines) {
  SpawnOptions command;
  command.argv = std::move(argv);
  command.argv.insert(command.argv.end(), {"--pack", absolute_path(folder)});
  command.env = evaluator_environment();
  auto ran = run_command(app.processes, command, lines, 3'600'000, 1 << 20);
  if (!ran) return fail(ran.error());
  app.print(std::string(trim(ran->out)));
  if (!ran->status.ok())
    return fail(ErrorCode::kChildFailed, fmt::format("sculler-eval --pack: {}", ran->status.text()),
                printable(shorten(trim(ran->err), 2000), true));
  return {};
}

}  // namespace sculler::cli
