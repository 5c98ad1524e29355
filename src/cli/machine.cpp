#include "cli/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::cli {
std::vector<std::pair<std::string, std::string>> evaluator_environment() {
  auto env =
      env_subset({"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME",
                  "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "SCULLER_HOME",
                  "SCULLER_CUDA_HOME", "SCULLER_NCCL_HOME", "SCULLER_CUTLASS_HOME",
                  "SCULLER_PREFIX", "SCULLER_HOLD", "SCULLER_LOCK_FOLDER"});
  for (const char* name :
       {"NCCL_NVLS_ENABLE", "NVSHMEM_DISABLE_NVLS", "TORCH_SYMM_MEM_DISABLE_MULTICAST"}) {
    env.emplace_back(name, std::string_view(name) == "NCCL_NVLS_ENABLE" ? "0" : "1");
  }
  return env;
}

std::vector<std::pair<std::string, std::string>> slurm_environment() {
  auto env = env_subset({"USER", "LOGNAME", "XDG_RUNTIME_DIR"});
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos && text.starts_with("SLURM_"))
      env.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

Result<Machine> ask_machine(const App& app) {
  std::string text;
  if (app.ask_doctor) {
    auto answer = app.ask_doctor();
    if (!answer) return fail(answer.error());
    text = std::move(*answer);
  } else {
    SpawnOptions ask;
    ask.argv = {join_path(app.programs, "sculler-eval"), "--doctor"};
    ask.env = evaluator_environment();
    auto ran = run_command(app.processes, ask, "", 60'000, 1 << 20);
    if (!ran) {
      return fail(Error{ErrorCode::kNotFound,
                        "the evaluator cannot be started: " + ran.error().message,
                        ask.argv[0],
                        {},
                        "build or install all programs of sculler"});
    }
    if (!ran->status.ok()) {
      return fail(Error{ErrorCode::kChildFailed,
                        fmt::format("sculler-eval --doctor: {}: {}", ran->status.text(),
                                    printable(shorten(trim(ran->err), 300))),
                        ask.argv[0],
                        {},
                        {}});
    }
    text = std::move(ran->out);
  }
  auto object = parse_json(text, "sculler-eval --doctor");
  if (!object) return fail(object.error());
  Machine m;
  m.raw = text;
  const auto part = [&](std::string_view key) -> nlohmann::json {
    const auto* found = find_member(*object, key);
    return found == nullptr ? nlohmann::json::object() : *found;
  };
  m.containment = string_or(part("containment"), "level", "none");
  m.containment_why = string_or(part("containment"), "why", "");
  m.containment_cure = string_or(part("containment"), "cure", "");
  m.containment_parts = strings_of(part("containment"), "parts");
  m.cuda_home = string_or(part("cuda"), "home", "");
  m.nvcc_version = string_or(part("cuda"), "nvcc", "");
  m.nccl_include = string_or(part("nccl"), "include", "");
  m.nccl_version = static_cast<int>(int_or(part("nccl"), "version", 0));
  m.cutlass = strings_of(*object, "cutlass");
  m.gxx = string_or(*object, "gxx", "");
  m.openblas = string_or(part("openblas"), "library", "");
  m.openblas_include = string_or(part("openblas"), "include", "");
  m.gpu_problem = string_or(*object, "gpu_problem", "");
  const auto* driver = find_member(*object, "driver");
  if (driver != nullptr)
    m.driver = driver->is_string() ? driver->get<std::string>() : driver->dump();
  m.cuda_libraries = strings_of(*object, "cuda_libraries");
  m.emulator_libraries = strings_of(*object, "emulator_libraries");
  m.share = string_or(*object, "share", "");
  m.cache = string_or(*object, "cache", "");
  m.cores = static_cast<int>(std::clamp<int64_t>(int_or(*object, "cores", 1), 1, 4096));
  const auto programs = part("programs");
  for (const auto& [name, there] : programs.items())
    m.programs.emplace_back(name, there.is_boolean() && there.get<bool>());
  const auto gpus = part("gpus");
  if (gpus.is_array()) {
    for (const auto& gpu : gpus) {
      m.gpus.push_back({string_or(gpu, "name", "GPU"), string_or(gpu, "compute_capability", ""),
                        static_cast<uint64_t>(std::max<int64_t>(0, int_or(gpu, "bytes", 0)))});
    }
  }
  return m;
}

std::string nccl_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

int nccl_library_version(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  struct stat info{};
  int version = 0;
  if (fstat(fd, &info) == 0 && info.st_size > 0) {
    const auto size = static_cast<std::size_t>(info.st_size);
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map != MAP_FAILED) {
      constexpr std::string_view kMark = "NCCL version ";
      const auto* at = static_cast<const char*>(map);
      const char* end = at + size;
      while (version == 0 &&
             (at = static_cast<const char*>(::memmem(at, static_cast<std::size_t>(end - at),
                                                     kMark.data(), kMark.size()))) != nullptr) {
        at += kMark.size();
        int parts[3] = {0, 0, 0};
        int n = 0;
        for (const char* p = at; p < end && n < 3; ++p) {
          if (*p >= '0' && *p <= '9' && parts[n] < 1000) parts[n] = parts[n] * 10 + (*p - '0');
          else if (*p == '.' && p > at) ++n;
          else break;
        }
        if (n == 2 && parts[0] > 0) version = parts[0] * 10000 + parts[1] * 100 + parts[2];
      }
      ::munmap(map, size);
    }
  }
  ::close(fd);
  return version;
}

}  // namespace sculler::cli
