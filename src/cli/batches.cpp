#include "cli/batches.h"

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/strings.h"
#include "cli/machine.h"

namespace sculler::cli {

Result<std::unique_ptr<search::Batches>> open_batches(const App& app, const std::string& folder,
                                                      const Settings& settings, const Plan& plan) {
  std::unique_ptr<search::Batches> none;
  if (settings.batch_profile.empty()) return none;
  if (plan.target != "emu") {
    return fail(
        Error{ErrorCode::kUsage,
              fmt::format("target {} measures by itself; batches are for runs on the emulator",
                          plan.target),
              {},
              "batch.profile",
              "take --target emu, or leave batch.profile out"});
  }
  if (plan.frame.nodes > 1) {
    return fail(
        Error{ErrorCode::kUsage,
              fmt::format("{} nodes are emulated, and batches measure on one", plan.frame.nodes),
              {},
              "batch.profile",
              "take one node, or leave batch.profile out"});
  }
  auto home = app.home();
  if (!home) return fail(home.error());
  auto path = task::find_profile(app.files, home->profile_roots, settings.batch_profile);
  if (!path) return fail(path.error());
  auto profile = task::load_profile(app.files, *path);
  if (!profile) return fail(profile.error());
  if (profile->n_devices < plan.n_ranks) {
    return fail(Error{ErrorCode::kUsage,
                      fmt::format("profile {} has {} GPUs, the run {} ranks", profile->name,
                                  profile->n_devices, plan.n_ranks),
                      *path, "batch.profile", "name the profile of a machine with enough GPUs"});
  }
  auto problem = plan.task.problem(settings.batch_size, plan.n_ranks);
  if (!problem) return fail(problem.error());
  auto text = app.files.read(*path);
  if (!text) return fail(text.error());

  search::BatchSettings batch;
  batch.folder = join_path(absolute_path(folder), "batches");
  batch.frame = plan.frame;
  batch.frame.target = "cuda";
  batch.frame.profile = *path;
  batch.frame.profile_sha256 = sha256_hex(*text);
  batch.frame.size = settings.batch_size;
  batch.frame.predict_size.clear();
  batch.frame.stages = {"lint", "compile", "run", "stress", "bench"};
  batch.every = settings.batch_every;
  batch.programs = settings.batch_programs;
  batch.most = settings.batch_most;
  batch.wait_minutes = settings.batch_wait_minutes;
  SpawnOptions command;
  command.argv = {join_path(app.programs, "sculler-eval")};
  if (!settings.cache.empty())
    command.argv.insert(command.argv.end(), {"--cache", absolute_path(settings.cache)});
  command.env = evaluator_environment();
  const auto pack = [&app, command](const std::string& to, const std::string& lines) -> Status {
    SpawnOptions options = command;
    options.argv.insert(options.argv.end(), {"--pack", to});
    auto ran = run_command(app.processes, options, lines, 3'600'000, 1 << 20);
    if (!ran) return fail(ran.error());
    if (ran->status.ok()) return {};
    return fail(Error{ErrorCode::kChildFailed,
                      fmt::format("sculler-eval --pack: {}", ran->status.text()),
                      to,
                      {},
                      printable(shorten(trim(ran->err), 2000), true)});
  };
  return std::make_unique<search::Batches>(app.files, std::move(batch), pack);
}

}  // namespace sculler::cli
