// What every command gets: side effects and streams, replaceable in tests.
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "base/progress.h"
#include "cli/home.h"
#include "search/evaluator.h"

namespace CLI {
class App;
}

namespace sculler::cli {

struct App {
  Files& files;
  Clock& clock;
  Processes& processes;
  std::string programs;       // folder of this program
  std::string home_override;  // SCULLER_HOME
  std::string config;         // folder of the user's settings, may be empty
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  bool json = false;
  bool answered = false;  // with --json: the one object is out, an error only sets the exit code
  std::atomic<bool>* interrupted = nullptr;
  // Tests put a fake here; empty: sculler-eval as a child.
  std::function<std::unique_ptr<search::Evaluator>(const std::string& spool)> make_evaluator{};
  // Answer of `sculler-eval --doctor`; empty: asked of the program.
  std::function<Result<std::string>()> ask_doctor{};

  void print(const std::string& text) const;  // to out, with a newline
  [[nodiscard]] Result<Home> home() const {
    return find_home(files, programs, home_override, config);
  }
};

// Parses and runs; the return value is the exit code (docs/exit-codes.md). Errors go to err, with
// --json as an object to out.
[[nodiscard]] int run_app(App& app, const std::vector<std::string>& arguments);

// A command registers its options and gives what runs it.
using Action = std::function<Status()>;
void add_analyze(CLI::App& cli, App& app, Action& action);
void add_ask(CLI::App& cli, App& app, Action& action);
void add_bench(CLI::App& cli, App& app, Action& action);
// Commands below `bench`.
void add_bench_ceilings(CLI::App& bench, App& app, Action& action);
void add_bench_exploits(CLI::App& bench, App& app, Action& action);
void add_bench_noise(CLI::App& bench, App& app, Action& action);
void add_optimize(CLI::App& cli, App& app, Action& action);
void add_evaluate(CLI::App& cli, App& app, Action& action);
void add_report(CLI::App& cli, App& app, Action& action);
void add_resume(CLI::App& cli, App& app, Action& action);
void add_doctor(CLI::App& cli, App& app, Action& action);
void add_calibrate(CLI::App& cli, App& app, Action& action);
void add_export(CLI::App& cli, App& app, Action& action);
void add_list(CLI::App& cli, App& app, Action& action);

}  // namespace sculler::cli
