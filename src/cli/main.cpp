// sculler: the orchestrator's command line.
#include <csignal>

#include "cli/app.h"

namespace {

std::atomic<bool> interrupted{false};

// The first asks for an end in order, the second ends at once (the evaluator dies with this
// process).
void on_signal(int number) {
  if (interrupted.exchange(true)) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sculler;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  cli::App app{real_files(),
               real_clock(),
               real_processes(),
               cli::own_folder(),
               env_value("SCULLER_HOME"),
               cli::config_folder()};
  app.interrupted = &interrupted;
  return cli::run_app(app, {argv + 1, argv + argc});
}
