// sculler bench noise: this machine's own spread, and how often a planted slowdown is called.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "cli/app.h"
#include "cli/jobs.h"
#include "cli/machine.h"
#include "search/job.h"
#include "task/profile.h"
#include "task/task.h"

namespace sculler::cli {
namespace {

struct NoiseOptions {
  std::string target = "cpu", task, file, size, profile, pack, cache;
  int64_t ranks = 0, seed = 1, calibrate = 30, aa = 0, planted_n = 0, per_pair = 25;
  double planted = 0, seconds = 0;
  bool programs = false;
  std::vector<std::string> defines;
};

// The job line with its noise plan.
Result<nlohmann::json> noise_job(App& app, const NoiseOptions& o) {
  auto home = app.home();
  if (!home) return fail(home.error());
  if (o.target != "cpu" && o.target != "cuda") {
    return fail(ErrorCode::kUsage,
                fmt::format("target {}: the noise of what is measured", o.target),
                "use --target cpu or --target cuda");
  }
  const std::string name = !o.task.empty() ? o.task : o.target == "cpu" ? "silu" : "gemm_allgather";
  auto folder = task::find_task(app.files, home->task_roots, name);
  if (!folder) return fail(folder.error());
  auto task = task::load_task(app.files, *folder);
  if (!task) return fail(task.error());
  const auto seeds = task::Task::fitting(task->seeds, o.target);
  if (seeds.empty() && o.file.empty())
    return fail(ErrorCode::kUsage, "the task has no seeds", "name a source with --file");
  Result<std::string> path = o.file.empty() ? join_path(task->folder, seeds.front())
                                            : find_source(app.files, *task, o.target, o.file);
  if (!path) return fail(path.error());
  auto source = search::load_source(app.files, *path);
  if (!source) return fail(source.error());
  auto candidate = search::usual(*source, "user");
  if (auto ok = set_defines(o.defines, *path, candidate); !ok) return fail(ok.error());
  search::JobFrame frame;
  frame.task = task->folder;
  frame.task_sha256 = task->sha256;
  frame.target = o.target;
  frame.n_ranks = o.ranks > 0 ? static_cast<int>(o.ranks) : task->default_ranks;
  // On cpu the smallest: what is compared with it costs as much again.
  const auto sizes = task->size_names();
  frame.size = !o.size.empty() ? o.size : o.target == "cpu" ? sizes.front() : "quick";
  frame.stages = {"compile"};
  frame.seed = static_cast<uint64_t>(o.seed);
  if (!o.profile.empty()) {
    auto profile = task::find_profile(app.files, home->profile_roots, o.profile);
    if (!profile) return fail(profile.error());
    frame.profile = *profile;
  }
  if (auto problem = task->problem(frame.size, frame.n_ranks); !problem)
    return fail(problem.error());
  auto job =
      parse_json(search::job_line(frame, candidate, search::job_id(frame, candidate)), "job");
  if (!job) return fail(job.error());
  (*job)["noise"] = {{"calibrate", o.calibrate}, {"aa", o.aa},
                     {"planted", o.planted},     {"planted_n", o.planted_n},
                     {"per_pair", o.per_pair},   {"seconds", o.seconds},
                     {"programs", o.programs}};
  (*job)["job"] = sha256_hex(dump_json(*job));
  return job;
}

Status bench_noise(App& app, const NoiseOptions& o) {
  auto job = noise_job(app, o);
  if (!job) return fail(job.error());
  SpawnOptions command;
  command.argv = {join_path(app.programs, "sculler-eval")};
  if (!o.cache.empty())
    command.argv.insert(command.argv.end(), {"--cache", absolute_path(o.cache)});
  command.env = evaluator_environment();
  if (!o.pack.empty()) {
    if (auto ok = pack_jobs(app, command.argv, o.pack, dump_json(*job) + "\n"); !ok) return ok;
    app.print(fmt::format("run there: bin/sculler-eval --noise {}.json",
                          (*job)["job"].get<std::string>()));
    return {};
  }
  std::error_code ignored;
  const auto temporary = std::filesystem::temp_directory_path(ignored);
  const std::string path = join_path(
      temporary.empty() ? "/tmp" : temporary.string(),
      fmt::format("sculler-noise-{}.json", (*job)["job"].get<std::string>().substr(0, 16)));
  if (auto ok = app.files.write_atomic(path, dump_json(*job) + "\n"); !ok) return ok;
  command.argv.insert(command.argv.end(), {"--noise", path});
  command.in = Stdio::null();
  command.out = app.json ? Stdio::pipe() : Stdio::inherit();
  command.err = Stdio::inherit();
  Result<ExitStatus> ended = fail(ErrorCode::kInternal, "not started");
  if (app.json) {
    auto ran = run_command(app.processes, command, "", 24LL * 3600 * 1000);
    if (ran) {
      ended = ran->status;
      const auto text = trim(ran->out);
      const auto newline = text.rfind('\n');
      app.print(std::string(newline == std::string_view::npos ? text : text.substr(newline + 1)));
    } else {
      ended = fail(ran.error());
    }
  } else {
    auto child = app.processes.spawn(command);
    if (!child) return fail(child.error());
    for (;;) {
      if (auto status = (*child)->wait(200)) {
        ended = *status;
        break;
      }
      if (app.interrupted != nullptr && app.interrupted->load()) {
        (*child)->kill_tree();
        ended = fail(ErrorCode::kTimeout, "interrupted");
        break;
      }
    }
  }
  std::filesystem::remove(path, ignored);
  if (!ended) return fail(ended.error());
  if (ended->ok()) return {};
  return fail(ErrorCode::kChildFailed, fmt::format("sculler-eval: {}", ended->text()));
}

}  // namespace

void add_bench_noise(CLI::App& bench, App& app, Action& action) {
  auto o = std::make_shared<NoiseOptions>();
  auto* noise = bench.add_subcommand(
      "noise", "the machine's own spread: a program against itself, and planted slowdowns");
  noise->add_option("--target", o->target, "cpu or cuda");
  noise->add_option("--task", o->task, "name of a task, or its folder");
  noise->add_option("--file", o->file, "a source, or the name of a seed or baseline");
  noise->add_option("--size", o->size,
                    "problem size; else the first of the task on cpu, quick on cuda");
  noise->add_option("--ranks", o->ranks, "number of ranks");
  noise->add_option("--profile", o->profile, "hardware profile");
  noise->add_option("--seed", o->seed, "of inputs and resampling");
  noise->add_option("--define,-D", o->defines, "value of a tunable: NAME=VALUE")->take_all();
  noise->add_option("--calibrate", o->calibrate, "A/A comparisons that give the recorded spread");
  noise->add_option("--aa", o->aa, "A/A comparisons judged by it");
  noise->add_option("--planted", o->planted, "extra fraction of time, 0.05 for 5 %");
  noise->add_option("--planted-n", o->planted_n, "comparisons with the slowed variant");
  noise->add_option("--per-pair", o->per_pair, "comparisons one pair of runner groups serves");
  noise->add_option("--seconds", o->seconds, "begin no comparison after this");
  noise->add_flag("--programs", o->programs, "the baselines against themselves too");
  noise->add_option("--cache", o->cache, "folder of the compile cache, where the spread is kept");
  noise->add_option("--pack", o->pack, "fill this folder for a GPU machine instead of running");
  noise->callback([&action, &app, o] { action = [&app, o] { return bench_noise(app, *o); }; });
}

}  // namespace sculler::cli
