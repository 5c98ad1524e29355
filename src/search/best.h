// The best/ folder of a run: what a person takes away.
#pragma once

#include <string>

#include "base/files.h"
#include "search/run.h"

namespace sculler::search {

struct BestContext {
  std::string task;  // name
  std::string target, profile, size, run_folder;
  std::string commands;         // how to evaluate it again, one command a line
  std::string batch_profile{};  // of the batch that measured it, if any
};

// "476 µs (472 to 480) measured on h200x2, 1.121 (1.115 to 1.127) times as fast as copy_engine"
[[nodiscard]] std::string measured_text(const Verdict& verdict, const std::string& profile);

// measured.json (where a batch measured it), candidate.cu (or .cpp), directive.json, defines.json,
// verdict.json, README.md; each is written atomically.
[[nodiscard]] Status write_best(Files& files, const std::string& folder, const Summary& summary,
                                const BestContext& context);

}  // namespace sculler::search
