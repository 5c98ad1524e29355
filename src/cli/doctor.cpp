// sculler doctor: what is there, what is missing, and the cure.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/machine.h"
#include "cli/models.h"
#include "llm/http.h"
#include "llm/local.h"
#include "task/task.h"

namespace sculler::cli {
namespace {

struct Finding {
  std::string level;  // "ok", "note", "missing"
  std::string what, text, cure;
};

// Which models can be asked from here. Nothing is sent: a key that is there may still be refused.
std::vector<Finding> examine_models(const App& app, const Settings& settings) {
  std::vector<Finding> out;
  const std::string version = llm::http_version();  // outlives the words
  const auto words = split(version, ' ');
  out.push_back({"ok",
                 "models",
                 fmt::format("{}, {}; openai, anthropic, local, files, command", words.front(),
                             words.size() > 1 ? words[1] : ""),
                 {}});
  const auto models = effective_llm(settings);
  if (!models) {
    out.push_back({"missing", "models", models.error().text(), models.error().cure});
    return out;
  }
  for (const auto& model : models->models) {
    llm::Settings one = *models;
    one.models = {model};
    one.max_usd = 0;
    llm::Surroundings around{app.files, app.clock, app.processes};
    around.cache = cache_folder();
    if (auto provider = llm::make_provider(one, around); !provider) {
      out.push_back(
          {"missing", "model " + model.name, provider.error().message, provider.error().cure});
    } else {
      llm::Model whole = model;
      llm::fill_defaults(whole);
      const bool here = whole.url.find("://127.") != std::string::npos ||
                        whole.url.find("://localhost") != std::string::npos;
      const bool open = whole.url.starts_with("http:") && !here &&
                        !(whole.key_env.empty() && whole.key_file.empty());
      out.push_back(
          {open ? "note" : "ok", "model " + model.name,
           fmt::format("{} {}{}", whole.provider, whole.url.empty() ? whole.path : whole.url,
                       open ? "; its key goes over the network in the open" : ""),
           open ? "use https" : ""});
    }
  }
  if (!models->models.empty()) return out;
  for (const auto& [provider, key] :
       {std::pair{"openai", "OPENAI_API_KEY"}, std::pair{"anthropic", "ANTHROPIC_API_KEY"}}) {
    if (env_value(key).empty())
      out.push_back({"note", provider, fmt::format("{} is not set", key),
                     "export it, or use key_file in a [[model]]"});
    else out.push_back({"ok", provider, fmt::format("{} is set", key), {}});
  }
  llm::Model local;
  if (auto found = llm::find_local(app.files, cache_folder(), local); !found)
    out.push_back({"note", "local model", found.error().message, found.error().cure});
  else
    out.push_back({"ok", "local model", fmt::format("{} with {}", local.server, local.path), {}});
  return out;
}

std::vector<Finding> examine(const App& app, const Home& home, const Machine& m,
                             const Settings& settings) {
  std::vector<Finding> out;
  const auto add = [&](std::string level, std::string what, std::string text,
                       std::string cure = {}) {
    out.push_back({std::move(level), std::move(what), std::move(text), std::move(cure)});
  };
  add("ok", "home", home.root);
  if (m.gxx.empty()) add("missing", "g++", "not found", "apt-get install g++");
  else add("ok", "g++", m.gxx);
  if (m.cuda_home.empty())
    add("missing", "nvcc", "not found; no CUDA program can be compiled",
        "install CUDA 13, let ./quickstart fetch it, or set SCULLER_CUDA_HOME");
  else
    add("ok", "nvcc",
        fmt::format("{} in {}", m.nvcc_version.empty() ? "version unknown" : m.nvcc_version,
                    m.cuda_home));
  if (m.nccl_version == 0)
    add("missing", "NCCL headers", "not found",
        "install NCCL 2.28.9, let ./quickstart fetch it, or set SCULLER_NCCL_HOME");
  else if (m.nccl_version != 22809)
    add("note", "NCCL headers",
        fmt::format("{} in {}; 2.28.9 is the version that was tried", nccl_text(m.nccl_version),
                    m.nccl_include),
        "set SCULLER_NCCL_HOME to 2.28.9");
  else
    add("ok", "NCCL headers", fmt::format("{} in {}", nccl_text(m.nccl_version), m.nccl_include));
  if (m.cutlass.empty())
    add("note", "CUTLASS", "not found; seeds that need it do not compile",
        "pip install nvidia-cutlass, or set SCULLER_CUTLASS_HOME");
  else add("ok", "CUTLASS", m.cutlass.front());
  if (m.openblas.empty())
    add("note", "OpenBLAS", "not found; the blas baselines of cpu kernels are left out",
        "apt-get install libopenblas-dev");
  else add("ok", "OpenBLAS", m.openblas);
  const std::string held =
      m.containment_parts.empty()
          ? m.containment
          : fmt::format("{}: {}", m.containment, join(m.containment_parts, ", "));
  if (m.containment_why.empty()) add("ok", "sandbox", held);
  else add("note", "sandbox", fmt::format("{} ({})", held, m.containment_why), m.containment_cure);
  for (const auto& [name, there] : m.programs) {
    if (there) add("ok", name, "beside sculler");
    else add("missing", name, "not beside sculler", "build or install all programs");
  }
  if (m.emulator_libraries.empty())
    add("missing", "emulator", "its libraries are not found; target emu does not work",
        "build or install the emulator");
  else
    add("ok", "emulator",
        fmt::format("{} libraries in {}", m.emulator_libraries.size(),
                    parent_path(m.emulator_libraries.front())));
  if (m.gpus.empty()) {
    add("note", "GPUs",
        m.gpu_problem.empty()
            ? "none; target emu takes their place"
            : fmt::format("none: {}; target emu takes their place", m.gpu_problem));
  } else {
    for (std::size_t i = 0; i < m.gpus.size(); ++i) {
      add("ok", fmt::format("GPU {}", i),
          fmt::format("{}, compute capability {}, {}", m.gpus[i].name, m.gpus[i].compute_capability,
                      bytes_text(m.gpus[i].bytes)));
    }
    int version = 0;
    std::string library;
    for (const auto& path : m.cuda_libraries) {
      if (path.find("libnccl") != std::string::npos) {
        library = path;
        version = nccl_library_version(path);
      }
    }
    if (library.empty())
      add("missing", "NCCL", "libnccl.so.2 not found; workloads do not run on the GPUs",
          "install NCCL 2.28.9, or set SCULLER_NCCL_HOME");
    else if (version != 0 && version != m.nccl_version) {
      add("missing", "NCCL",
          fmt::format("{} is {}, the headers are {}", library, nccl_text(version),
                      nccl_text(m.nccl_version)),
          "set SCULLER_NCCL_HOME to an NCCL of one version");
    } else add("ok", "NCCL", library);
  }
  for (auto& finding : examine_models(app, settings)) out.push_back(std::move(finding));
  int tasks = 0;
  for (const auto& task : task::list_tasks(app.files, home.task_roots)) {
    if (auto loaded = task::load_task(app.files, task.folder); !loaded)
      add("missing", "task " + task.name, loaded.error().text(), "correct the file");
    else ++tasks;
  }
  if (tasks == 0)
    add("missing", "tasks", "none found in " + join(home.task_roots, ", "), "set SCULLER_HOME");
  else add("ok", "tasks", std::to_string(tasks));
  auto free = app.files.free_bytes(m.cache.empty() ? "." : m.cache);
  if (free && *free < (uint64_t{1} << 30))
    add("note", "disk", fmt::format("{} free for the cache in {}", bytes_text(*free), m.cache),
        "free space there");
  else if (free)
    add("ok", "disk", fmt::format("{} free for the cache in {}", bytes_text(*free), m.cache));
  return out;
}

Status doctor(App& app, const std::string& run_file) {
  Settings settings;
  if (!run_file.empty()) {
    if (auto ok = read_settings(app.files, run_file, settings); !ok) return ok;
  }
  auto home = app.home();
  if (!home) return fail(home.error());
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  const auto findings = examine(app, *home, *machine, settings);
  if (app.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& f : findings)
      list.push_back({{"level", f.level}, {"what", f.what}, {"text", f.text}, {"cure", f.cure}});
    nlohmann::json out{{"findings", list}};
    if (auto raw = parse_json(machine->raw, "doctor")) out["machine"] = *raw;
    app.print(dump_json(out));
  } else {
    for (const auto& f : findings) {
      app.print(fmt::format("{:<8} {:<15} {}{}", f.level, f.what, printable(f.text),
                            f.cure.empty() ? "" : fmt::format(" → {}", f.cure)));
    }
  }
  return {};
}

}  // namespace

void add_doctor(CLI::App& cli, App& app, Action& action) {
  auto* command = cli.add_subcommand("doctor", "what this machine has and lacks");
  auto run_file = std::make_shared<std::string>();
  command->add_option("--run-file", *run_file, "settings (run.toml) whose models are examined too");
  command->callback(
      [&action, &app, run_file] { action = [&app, run_file] { return doctor(app, *run_file); }; });
}

}  // namespace sculler::cli
