// sculler bench: what shows how good the evaluator itself is.
#include <CLI/CLI.hpp>

#include "cli/app.h"
#include "cli/kernels/command.h"

namespace sculler::cli {

void add_bench(CLI::App& cli, App& app, Action& action) {
  auto* command = cli.add_subcommand(
      "bench",
      "the evaluator itself, this machine and the kernels: exploits, noise, ceilings, kernels");
  command->require_subcommand(1);
  add_bench_ceilings(*command, app, action);
  add_bench_exploits(*command, app, action);
  add_bench_kernels(*command, app, action);
  add_bench_noise(*command, app, action);
  for (auto* part : command->get_subcommands({}))
    part->add_flag("--json", app.json, "machine-readable output");
}

}  // namespace sculler::cli
