// sculler-eval: the evaluator. Jobs in, verdicts out; no network, no secrets, no database.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

#include "base/guard.h"
#include "eval/service.h"

namespace {

int complain(const sculler::Error& error) {
  std::fprintf(stderr, "sculler-eval: %s\n", error.text().c_str());
  return static_cast<int>(error.code);
}

// Only what is safe here: the guardian ends everything that was started.
void on_signal(int number) {
  constexpr std::string_view kText = "sculler-eval: ended by SIGTERM or SIGINT\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(128 + number);
}

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
  // However this program is killed, compilers, trusted processes and ranks end with it.
  // Steps on other machines end at their own deadline, or at once where Slurm can be asked.
  const std::string steps = options->srun.empty() ? "" : slurm_options(*options).name;
  sculler::run_guarded("sculler-guard", [steps] {
    Scratch::sweep();
    if (!steps.empty()) cancel_steps(steps);
  });
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGTERM, on_signal);
  ::signal(SIGINT, on_signal);
  if (!options->srun.empty()) return serve_slurm(*options, STDIN_FILENO, STDOUT_FILENO);
  auto service = Service::make(*options);
  if (!service) return complain(service.error());
  if (options->doctor) {
    std::puts(doctor_json(**service).c_str());
    return 0;
  }
  if (!options->pack_folder.empty()) return pack_folder(**service, STDIN_FILENO);
  if (!options->noise_file.empty()) return run_noise(**service);
  if (!options->jobs_folder.empty()) return run_folder(**service);
  return serve(**service, STDIN_FILENO, STDOUT_FILENO);
}
