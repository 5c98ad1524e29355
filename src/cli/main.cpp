// sculler: the orchestrator's command line.
#include <time.h>

#include <csignal>

#include "cli/app.h"

namespace {

std::atomic<bool> interrupted{false};
std::atomic<int64_t> first_ms{0};

int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// The first asks for an end in order, a later one ends at once (the evaluator dies with this
// process). timeout(1) and shells signal the process and its group: that is one request.
void on_signal(int number) {
  constexpr int64_t kSameMs = 200;
  if (!interrupted.exchange(true)) {
    first_ms = now_ms();
  } else if (now_ms() - first_ms > kSameMs) {
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
