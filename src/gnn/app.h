// The command line of sculler-gnn; everything but main, so that it is tested without a process.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
}

namespace sculler::gnn {

struct App {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  bool json = false;

  void print(const std::string& text) const;  // to out, with a newline
};

// Parses and runs; the return value is the exit code (docs/exit-codes.md).
[[nodiscard]] int run_app(App& app, const std::vector<std::string>& arguments);

using Action = std::function<Status()>;
void add_compare(CLI::App& cli, App& app, Action& action);
void add_graph(CLI::App& cli, App& app, Action& action);
void add_partition(CLI::App& cli, App& app, Action& action);
void add_replay(CLI::App& cli, App& app, Action& action);
void add_trace(CLI::App& cli, App& app, Action& action);
void add_train(CLI::App& cli, App& app, Action& action);

}  // namespace sculler::gnn
