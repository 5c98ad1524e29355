#include "cli/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/sha256.h"
#include "base/strings.h"
#include "task/adapter.h"

namespace sculler::cli {
namespace {

bool can(const task::Task& task, std::string_view target) {
  return std::find(task.targets.begin(), task.targets.end(), target) != task.targets.end();
}

Status pick_target(const Machine& machine, Settings& settings, Plan& plan) {
  const auto gpus = static_cast<int>(machine.gpus.size());
  const std::string found =
      gpus == 0 ? "no GPU here" : fmt::format("{} GPU{} here", gpus, gpus == 1 ? "" : "s");
  if (settings.target == "auto") {
    // The first of the task's that is possible here.
    const bool fits = gpus >= plan.n_ranks;
    const auto at = std::find_if(plan.task.targets.begin(), plan.task.targets.end(),
                                 [&](const auto& name) { return name != "cuda" || fits; });
    plan.target = at == plan.task.targets.end() ? plan.task.targets.front() : *at;
    plan.why_target = !can(plan.task, "cuda") ? "the task's own"
                      : plan.target == "cuda" || gpus == 0
                          ? found
                          : fmt::format("{}, {} needed", found, plan.n_ranks);
  } else {
    plan.target = settings.target;
    plan.why_target = plan.target == "emu" && gpus == 0 ? found : "asked for";
    // Any kernel's reference and sizes serve an adapter that has programs for it.
    const bool external = plan.target == "external" && plan.task.kind == task::Kind::kKernel;
    if (!external && !can(plan.task, plan.target)) {
      return fail(Error{ErrorCode::kUsage,
                        fmt::format("{} does not run on {}", plan.task.name, plan.target),
                        join_path(plan.task.folder, "task.toml"), "targets",
                        fmt::format("use --target {}", join(plan.task.targets, " or "))});
    }
  }
  // Where evaluations run elsewhere, the GPUs are there.
  if (plan.target == "cuda" && gpus < plan.n_ranks && settings.launcher != "slurm") {
    std::string message =
        fmt::format("{} GPU{} asked, {} there", plan.n_ranks, plan.n_ranks == 1 ? "" : "s", gpus);
    if (!machine.gpu_problem.empty()) message += ": " + machine.gpu_problem;
    return fail(ErrorCode::kNoDevice, std::move(message),
                can(plan.task, "emu") ? "use --target emu, or fewer --ranks"
                                      : "use a machine with more GPUs");
  }
  settings.target = plan.target;
  return {};
}

// The target external: the profile is an adapter, whose programs take the place of the task's own,
// which are of another language.
Status pick_adapter(const App& app, const Home& home, Settings& settings, Plan& plan) {
  std::vector<std::string> roots;
  if (!app.config.empty()) roots.push_back(join_path(app.config, "adapters"));
  roots.push_back(join_path(home.root, "adapters"));
  if (settings.profile == "auto") settings.profile = plan.task.adapter;
  auto path = task::find_adapter(app.files, roots, settings.profile);
  if (!path) return fail(path.error());
  auto adapter = task::load_adapter(app.files, *path);
  if (!adapter) return fail(adapter.error());
  const auto* kernel = adapter->kernel(plan.task.name);
  if (kernel == nullptr) {
    std::vector<std::string> known;
    for (const auto& other : adapter->kernels) known.push_back(other.task);
    return fail(
        Error{ErrorCode::kUsage,
              fmt::format("the adapter {} has no programs for {}", adapter->name, plan.task.name),
              adapter->path, "kernels",
              fmt::format("add [kernels.{}] with baselines; it has {}", plan.task.name,
                          join(known, ", "))});
  }
  plan.task.baselines = kernel->baselines;
  plan.task.seeds = kernel->seeds;
  plan.frame.profile = adapter->path;
  plan.frame.profile_sha256 = adapter->sha256;
  // A host that interprets takes what is small.
  if (settings.size == "auto" && !adapter->gpu && adapter->devices.empty()) {
    const auto names = plan.task.size_names();
    if (std::find(names.begin(), names.end(), "small") != names.end()) settings.size = "small";
  }
  return {};
}

Status pick_profile(const App& app, const Home& home, const Machine& machine, Settings& settings,
                    Plan& plan) {
  if (plan.target == "external") return pick_adapter(app, home, settings, plan);
  if (settings.profile == "auto") {
    settings.profile = plan.target == "cpu" ? "cpu" : fmt::format("h200x2");
    if (plan.target == "cuda" && !machine.gpus.empty()) {
      // "NVIDIA H200" with 8 of them → h200x8 where there is one; else the two-GPU profile of the
      // chip; else none.
      std::string chip;
      for (const auto word : split(machine.gpus[0].name, ' ')) {
        const std::string lower = to_lower(word);
        if (lower != "nvidia" && !lower.empty() && chip.empty()) chip = lower;
      }
      settings.profile.clear();
      for (const int count : {static_cast<int>(machine.gpus.size()), 8, 4, 2, 1}) {
        const std::string name = fmt::format("{}x{}", chip, count);
        if (settings.profile.empty() && task::find_profile(app.files, home.profile_roots, name))
          settings.profile = name;
      }
    } else if (!task::find_profile(app.files, home.profile_roots, settings.profile)) {
      settings.profile.clear();
    }
  }
  if (settings.profile.empty()) return {};
  auto path = task::find_profile(app.files, home.profile_roots, settings.profile);
  if (!path) return fail(path.error());
  auto profile = task::load_profile(app.files, *path);
  if (!profile) return fail(profile.error());
  plan.profile = std::move(*profile);
  return {};
}

Status need_tools(const Machine& machine, const Plan& plan) {
  for (const auto& [name, there] : machine.programs) {
    const bool needed = name == "sculler-rank" || (name == "sculler-vm" && plan.target == "emu") ||
                        (name == "sculler-verify" && plan.target != "emu");
    if (needed && !there)
      return fail(ErrorCode::kNotFound, fmt::format("{} is not beside sculler", name),
                  "build or install all programs of sculler");
  }
  if (plan.target == "cpu" || plan.target == "external") {
    if (machine.gxx.empty())
      return fail(ErrorCode::kNoCompiler, "g++ is missing", "install g++ (apt-get install g++)");
    return {};
  }
  if (machine.cuda_home.empty()) {
    return fail(ErrorCode::kNoCompiler, "nvcc is missing: candidates cannot be compiled",
                "install CUDA 13, or let ./quickstart fetch it, or set SCULLER_CUDA_HOME to the "
                "folder that holds bin/nvcc");
  }
  if (plan.n_ranks > 1 && machine.nccl_version == 0) {
    return fail(ErrorCode::kNoCompiler, "NCCL's headers are missing",
                "install NCCL 2.28.9, or let ./quickstart fetch it, or set SCULLER_NCCL_HOME");
  }
  if (plan.target == "emu" && machine.emulator_libraries.empty()) {
    return fail(ErrorCode::kNotFound, "the emulator's libraries are not beside sculler",
                "build or install all of sculler");
  }
  if (plan.target == "cuda" && plan.n_ranks > 1) {
    for (const auto& library : machine.cuda_libraries) {
      if (library.find("libnccl") == std::string::npos) continue;
      const int version = nccl_library_version(library);
      if (version != 0 && version != machine.nccl_version) {
        return fail(
            Error{ErrorCode::kVersion,
                  fmt::format("this NCCL is {}, the headers in {} are {}", nccl_text(version),
                              machine.nccl_include, nccl_text(machine.nccl_version)),
                  library,
                  {},
                  "set SCULLER_NCCL_HOME to an NCCL whose headers and library are one version"});
      }
    }
  }
  return {};
}

}  // namespace

Result<Plan> make_plan(const App& app, const Home& home, const Machine& machine,
                       Settings& settings) {
  Plan plan;
  auto folder = task::find_task(app.files, home.task_roots, settings.task);
  if (!folder) return fail(folder.error());
  auto task = task::load_task(app.files, *folder);
  if (!task) return fail(task.error());
  plan.task = std::move(*task);
  plan.n_ranks = settings.ranks > 0 ? static_cast<int>(settings.ranks) : plan.task.default_ranks;
  settings.ranks = plan.n_ranks;
  if (auto ok = pick_target(machine, settings, plan); !ok) return fail(ok.error());
  const int nodes = static_cast<int>(settings.nodes);
  if (nodes > 1 && plan.target != "emu") {
    return fail(ErrorCode::kUsage,
                fmt::format("{} nodes are asked, and the target is {}: nodes are emulated", nodes,
                            plan.target),
                "use --target emu, or one node");
  }
  if (plan.n_ranks % nodes != 0) {
    return fail(
        ErrorCode::kUsage,
        fmt::format("{} ranks cannot lie on {} nodes, as many on each", plan.n_ranks, nodes),
        "choose --ranks as a multiple of --nodes");
  }
  if (auto ok = pick_profile(app, home, machine, settings, plan); !ok) return fail(ok.error());
  if (settings.size == "auto") {
    const auto names = plan.task.size_names();
    const bool cpu =
        plan.target == "cpu" && std::find(names.begin(), names.end(), "cpu") != names.end();
    settings.size = cpu ? "cpu" : plan.target == "emu" ? "emu" : "default";
  }
  auto problem = plan.task.problem(settings.size, plan.n_ranks);
  if (!problem) return fail(problem.error());
  if (auto ok = plan.task.check(*problem); !ok) return fail(ok.error());
  if (plan.target == "emu" && plan.profile && !settings.predict_size.empty()) {
    auto predicted = plan.task.problem(settings.predict_size, plan.n_ranks);
    if (!predicted) return fail(predicted.error());
  }
  plan.replayed = settings.strategy == "tuner" ? std::string() : settings.llm_replay;
  // A replay compiles and runs nothing.
  if (plan.replayed.empty() && settings.launcher != "slurm") {
    if (auto ok = need_tools(machine, plan); !ok) return fail(ok.error());
  }
  auto buffers = plan.task.buffers(*problem);
  if (!buffers) return fail(buffers.error());

  plan.topology.n_ranks = plan.n_ranks;
  plan.topology.ranks_per_node = plan.n_ranks / nodes;
  plan.topology.lsa =
      plan.target != "cpu" && plan.target != "external" && (!plan.profile || plan.profile->lsa);
  // Emulated nodes are joined by GIN.
  plan.topology.gin = nodes > 1 || (plan.profile && plan.profile->gin);
  if ((plan.replayed.empty() && settings.launcher != "slurm") || machine.nccl_version > 0)
    plan.topology.nccl_version = machine.nccl_version;

  search::JobFrame& frame = plan.frame;
  frame.task = plan.task.folder;
  frame.task_sha256 = plan.task.sha256;
  frame.target = plan.target;
  if (plan.profile) {
    frame.profile = plan.profile->path;
    auto text = app.files.read(plan.profile->path);
    if (!text) return fail(text.error());
    frame.profile_sha256 = sha256_hex(*text);
  }
  frame.n_ranks = plan.n_ranks;
  frame.nodes = nodes;
  frame.size = settings.size;
  if (plan.target == "emu" && plan.profile) frame.predict_size = settings.predict_size;
  frame.stages = search::search_stages(plan.target);
  frame.seed = static_cast<uint64_t>(settings.seed);
  // On GPUs one job measures at a time; a second may compile meanwhile.
  plan.parallel = settings.launcher == "slurm" ? static_cast<int>(settings.slots)
                  : settings.parallel > 0      ? static_cast<int>(settings.parallel)
                  : plan.target == "emu"       ? machine.cores
                  : plan.target == "external"  ? 1
                                               : 2;
  // How many are in flight decides what is started when: a replay on a machine with other cores
  // needs it from the run file.
  if (!settings.llm_record.empty()) settings.parallel = plan.parallel;
  return plan;
}

Result<Plan> make_plan(const App& app, Settings& settings) {
  auto home = app.home();
  if (!home) return fail(home.error());
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  return make_plan(app, *home, *machine, settings);
}

std::string target_line(const Plan& plan) {
  if (plan.target == "emu") {
    std::string times = plan.profile && !plan.frame.predict_size.empty()
                            ? fmt::format("times are predicted for {} at size {}, not measured",
                                          plan.profile->name, plan.frame.predict_size)
                            : std::string("no hardware profile, so no times");
    return fmt::format("target emu: {}; {}", plan.why_target, times);
  }
  if (plan.target == "external")
    return fmt::format("target external: times are reported by the adapter {} at size {}",
                       plan.frame.profile, plan.frame.size);
  return fmt::format("target {}: {}; times are measured at size {}{}", plan.target, plan.why_target,
                     plan.frame.size,
                     plan.profile ? ", hardware profile " + plan.profile->name : std::string());
}

std::string task_line(const Plan& plan) {
  std::string dims;
  const auto problem = plan.task.problem(plan.frame.size, plan.n_ranks);
  std::string tolerance;
  if (problem) {
    for (std::size_t i = 0; i < plan.task.dims.size(); ++i)
      dims += fmt::format("{}{} {}", i > 0 ? " " : "", plan.task.dims[i], problem->dims[i]);
    if (const auto t = plan.task.tolerance(*problem))
      tolerance = fmt::format(", tolerance {:.2g}", t->relative_l2);
  }
  return fmt::format("task {}, {} rank{}, {}; verified at size {} ({}){}", plan.task.name,
                     plan.n_ranks, plan.n_ranks == 1 ? "" : "s", plan.task.precision_input,
                     plan.frame.size, dims, tolerance);
}

std::string replay_line(const Plan& plan) {
  if (plan.replayed.empty()) return {};
  return fmt::format(
      "replayed from {}: answers and verdicts are recorded, nothing is asked or evaluated",
      plan.replayed);
}

}  // namespace sculler::cli
