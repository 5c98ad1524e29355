#include "gnn/app.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::gnn {

namespace {

int complain(const App& app, const Error& error) {
  if (app.json) {
    app.print(dump_json(error_json(error)));
  } else {
    std::fputs(("sculler-gnn: " + printable(error.text(), true) + "\n").c_str(), app.err);
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
  CLI::App cli{"Distributed training on graphs, and the prefetching of its features.",
               "sculler-gnn"};
  cli.require_subcommand(1);
  cli.set_version_flag("--version", "sculler-gnn 0.1.0");
  Action action;
  add_compare(cli, app, action);
  add_graph(cli, app, action);
  add_partition(cli, app, action);
  add_replay(cli, app, action);
  add_trace(cli, app, action);
  for (auto* command : cli.get_subcommands({}))
    command->add_flag("--json", app.json, "machine-readable output");
  add_train(cli, app, action);  // hands its options over, --json among them
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    cli.parse(reversed);
  } catch (const CLI::Success& success) {
    std::ostringstream out, err;
    (void)cli.exit(success, out, err);
    std::fputs(out.str().c_str(), app.out);
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(app, {ErrorCode::kUsage, error.what(), {}, {}, "see sculler-gnn --help"});
  }
  if (auto done = action(); !done) return complain(app, done.error());
  return 0;
}

}  // namespace sculler::gnn
