#include "cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/lower.h"

namespace sculler::cli {
namespace {

int complain(const App& app, const Error& error) {
  if (app.json && app.answered) {
    // What went wrong stands in the object that is out already.
  } else if (app.json) {
    app.print(dump_json(error_json(error)));
  } else {
    const std::string text = fmt::format("sculler: {}\n", printable(error.text(), true));
    std::fputs(text.c_str(), app.err);
  }
  return static_cast<int>(error.code);
}

}  // namespace

void App::print(const std::string& text) const {
  std::fputs(text.c_str(), out);
  std::fputc('\n', out);
  std::fflush(out);
}

int run_app(App& app, const std::vector<std::string>& arguments) {
  CLI::App cli{"Makes programs for AI accelerators faster and proves it.", "sculler"};
  cli.require_subcommand(1);
  cli.set_version_flag("--version", "sculler 0.1.0");
  Action action;
  add_optimize(cli, app, action);
  add_evaluate(cli, app, action);
  add_resume(cli, app, action);
  add_report(cli, app, action);
  add_doctor(cli, app, action);
  add_calibrate(cli, app, action);
  add_export(cli, app, action);
  add_list(cli, app, action);
  add_ask(cli, app, action);
  add_analyze(cli, app, action);
  add_lower(cli, app, action);
  add_bench(cli, app, action);
  for (auto* command : cli.get_subcommands({})) {
    // A command of commands hands it to those.
    if (command->get_name() != "bench")
      command->add_flag("--json", app.json, "machine-readable output");
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    cli.parse(reversed);
  } catch (const CLI::Success& success) {
    std::ostringstream out, err;
    (void)cli.exit(success, out, err);
    std::fputs(out.str().c_str(), app.out);
    return 0;
  } catch (const CLI::ParseError& error) {
    // A first word that is no command: name the nearest one.
    std::vector<std::string> names;
    for (const auto* command : cli.get_subcommands({})) names.push_back(command->get_name());
    if (!arguments.empty() && !arguments[0].starts_with("-") &&
        std::find(names.begin(), names.end(), arguments[0]) == names.end()) {
      const auto like = nearest(arguments[0], names);
      return complain(app, {ErrorCode::kUsage,
                            fmt::format("unknown command {}", arguments[0]),
                            {},
                            {},
                            like ? fmt::format("did you mean {}?", *like)
                                 : fmt::format("use one of {}", join(names, ", "))});
    }
    const std::string help = arguments.empty() || arguments[0].starts_with("-")
                                 ? "sculler --help"
                                 : fmt::format("sculler {} --help", arguments[0]);
    return complain(app, {ErrorCode::kUsage, error.what(), {}, {}, fmt::format("see {}", help)});
  }
  if (auto done = action(); !done) return complain(app, done.error());
  return 0;
}

}  // namespace sculler::cli
