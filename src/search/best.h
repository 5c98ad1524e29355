// The best/ folder of a run: what a person takes away.
#pragma once

#include <string>

#include "base/files.h"
#include "search/run.h"

namespace sculler::search {

struct BestContext {
  std::string task;  // name
  std::string target, profile, size, run_folder;
  std::string commands;  // how to evaluate it again, one command a line
};

// candidate.cu (or .cpp), directive.json, defines.json, verdict.json, README.md; each is written
// atomically.
[[nodiscard]] Status write_best(Files& files, const std::string& folder, const Summary& summary,
                                const BestContext& context);

}  // namespace sculler::search
