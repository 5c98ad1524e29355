// Where tasks, profiles and the other programs are: the source tree of a build, or what was
// installed.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace sculler::cli {

struct Home {
  std::string root;                        // holds tasks/ and profiles/
  std::string programs;                    // folder of sculler-eval
  std::vector<std::string> task_roots;     // folders with workloads/ and kernels/
  std::vector<std::string> profile_roots;  // folders with NAME.toml
};

// `override_root` (SCULLER_HOME) wins; then <programs>/../share/sculler; then the folders above
// `programs`.
// ~/.config/sculler/{tasks,profiles} come first where they exist: a user's own and calibrated ones.
[[nodiscard]] Result<Home> find_home(Files& files, const std::string& programs,
                                     const std::string& override_root,
                                     const std::string& config_folder);
// Folder of this program; $XDG_CONFIG_HOME/sculler or ~/.config/sculler; $XDG_CACHE_HOME/sculler or
// ~/.cache/sculler.
[[nodiscard]] std::string own_folder();
[[nodiscard]] std::string config_folder();

}  // namespace sculler::cli
