// sculler calibrate: measures what a hardware profile calls measured rates.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/machine.h"

namespace sculler::cli {
namespace {

Status calibrate(App& app) {
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  if (machine->gpus.empty()) {
    return fail(ErrorCode::kNoDevice, machine->gpu_problem.empty() ? "no GPU here to measure" : machine->gpu_problem, "run it on the machine whose profile is wanted");
  }
  return fail(ErrorCode::kUnsupported, "not written yet");
}

}  // namespace

void add_calibrate(CLI::App& cli, App& app, Action& action) {
  auto* command = cli.add_subcommand("calibrate", "measure this machine's rates for its hardware profile");
  command->callback([&action, &app] { action = [&app] { return calibrate(app); }; });
}

}  // namespace sculler::cli
