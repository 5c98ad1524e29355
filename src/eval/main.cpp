// sculler-eval: the evaluator. Jobs in, verdicts out; no network, no secrets, no database.
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "eval/service.h"

namespace {

int complain(const sculler::Error& error) {
  std::fprintf(stderr, "sculler-eval: %s\n", error.text().c_str());
  return static_cast<int>(error.code);
}

// Ends with everything that was started; only what is safe here: processes die with this one.
void on_signal(int number) { ::_exit(128 + number); }

}  // namespace

int main(int argc, char** argv) {
  using namespace sculler::eval;
  auto options = parse_options({argv + 1, argv + argc});
  if (!options) return complain(options.error());
  if (options->help) {
    std::fputs(usage().c_str(), stdout);
    return 0;
  }
  if (options->version) {
    std::puts("sculler-eval 0.1.0");
    return 0;
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGTERM, on_signal);
  ::signal(SIGINT, on_signal);
  auto service = Service::make(*options);
  if (!service) return complain(service.error());
  if (options->doctor) {
    std::puts(doctor_json(**service).c_str());
    return 0;
  }
  if (!options->pack_folder.empty()) return pack_folder(**service, STDIN_FILENO);
  if (!options->jobs_folder.empty()) return run_folder(**service);
  return serve(**service, STDIN_FILENO, STDOUT_FILENO);
}
