// sculler list [tasks|profiles|settings|runs]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/app.h"
#include "cli/settings.h"
#include "task/profile.h"
#include "task/task.h"

namespace sculler::cli {
namespace {

Status list(App& app, const std::string& what, const std::string& runs) {
  auto home = app.home();
  if (!home) return fail(home.error());
  nlohmann::json out = nlohmann::json::object();
  std::string text;
  const auto wanted = [&](std::string_view word) {
    return what.empty() ? word == "tasks" || word == "profiles" : what == word;
  };
  if (wanted("tasks")) {
    out["tasks"] = nlohmann::json::array();
    text += "tasks\n";
    for (const auto& task : task::list_tasks(app.files, home->task_roots)) {
      out["tasks"].push_back({{"name", task.name},
                              {"kind", task.kind},
                              {"folder", task.folder},
                              {"summary", task.summary}});
      text += fmt::format("  {:<24} {:<9} {}\n", task.name, task.kind, task.summary);
    }
  }
  if (wanted("profiles")) {
    out["profiles"] = nlohmann::json::array();
    text += "profiles\n";
    for (const auto& root : home->profile_roots) {
      auto names = app.files.list(root);
      if (!names) continue;
      for (const auto& name : *names) {
        if (!name.ends_with(".toml")) continue;
        auto profile = task::load_profile(app.files, join_path(root, name));
        const std::string stem = name.substr(0, name.size() - 5);
        const std::string summary = profile ? profile->summary : profile.error().text();
        out["profiles"].push_back(
            {{"name", stem}, {"path", join_path(root, name)}, {"summary", summary}});
        text += fmt::format("  {:<24} {}\n", stem, summary);
      }
    }
  }
  if (wanted("settings")) {
    out["settings"] = setting_keys();
    const Settings defaults;
    text += print_settings(defaults);
  }
  if (wanted("runs")) {
    out["runs"] = nlohmann::json::array();
    auto names = app.files.list(runs);
    for (const auto& name : names ? *names : std::vector<std::string>()) {
      const std::string folder = join_path(runs, name);
      if (!app.files.exists(join_path(folder, "run.toml"))) continue;
      const bool best = app.files.exists(join_path(folder, "best/verdict.json"));
      out["runs"].push_back({{"folder", folder}, {"best", best}});
      text += fmt::format("{}{}\n", folder, best ? "  best/" : "");
    }
  }
  if (out.empty())
    return fail(ErrorCode::kUsage, fmt::format("list what? {}", what),
                "use tasks, profiles, settings or runs");
  if (!text.empty() && text.back() == '\n') text.pop_back();
  app.print(app.json ? dump_json(out) : text);
  return {};
}

}  // namespace

void add_list(CLI::App& cli, App& app, Action& action) {
  auto what = std::make_shared<std::string>();
  auto runs = std::make_shared<std::string>("runs");
  auto* command = cli.add_subcommand("list", "tasks, profiles, settings or runs");
  command->add_option("what", *what,
                      "tasks, profiles, settings or runs (default: tasks and profiles)");
  command->add_option("--runs", *runs, "folder of runs");
  command->callback([&action, &app, what, runs] {
    action = [&app, what, runs] { return list(app, *what, *runs); };
  });
}

}  // namespace sculler::cli
