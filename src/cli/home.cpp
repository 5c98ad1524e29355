#include "cli/home.h"

#include <unistd.h>

#include "base/process.h"

namespace sculler::cli {

Result<Home> find_home(Files& files, const std::string& programs, const std::string& override_root,
                       const std::string& config) {
  Home home;
  home.programs = programs;
  const auto holds = [&](const std::string& root) {
    return files.is_folder(join_path(root, "tasks")) &&
           files.is_folder(join_path(root, "profiles"));
  };
  if (!override_root.empty()) {
    if (!holds(override_root)) {
      return fail(Error{ErrorCode::kUsage, "holds no tasks/ and profiles/", override_root,
                        "SCULLER_HOME", "set it to the source tree or to PREFIX/share/sculler"});
    }
    home.root = absolute_path(override_root);
  } else {
    const std::string installed = absolute_path(join_path(programs, "../share/sculler"));
    if (holds(installed)) home.root = installed;
    for (std::string root = programs; home.root.empty() && root.size() > 1;
         root = parent_path(root)) {
      if (holds(root)) home.root = root;
    }
    if (home.root.empty()) {
      return fail(ErrorCode::kUsage, "tasks/ and profiles/ are not found from " + programs,
                  "set SCULLER_HOME to the folder that holds them");
    }
  }
  if (!config.empty()) {
    home.task_roots.push_back(join_path(config, "tasks"));
    home.profile_roots.push_back(join_path(config, "profiles"));
  }
  home.task_roots.push_back(join_path(home.root, "tasks"));
  home.profile_roots.push_back(join_path(home.root, "profiles"));
  return home;
}

std::string own_folder() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path - 1);
  return n <= 0 ? "." : parent_path(std::string_view(path, static_cast<std::size_t>(n)));
}

std::string config_folder() {
  if (const auto config = env_value("XDG_CONFIG_HOME"); !config.empty())
    return join_path(config, "sculler");
  const auto home = env_value("HOME");
  return home.empty() ? std::string() : join_path(home, ".config/sculler");
}

}  // namespace sculler::cli
