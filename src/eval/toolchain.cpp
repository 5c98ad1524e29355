#include "eval/toolchain.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>

#include "base/files.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace sculler::eval {
namespace {

bool exists(const std::string& path) { return real_files().exists(path); }

std::string real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string text = resolved;
  std::free(resolved);
  return text;
}

std::string home() {
  std::string path = env_value("HOME");
  return path.empty() ? "/tmp" : path;
}

// Size and time of change: enough to tell one tool from another without running it.
void add_tool(Sha256& hash, const std::string& path) {
  struct stat info{};
  hash.field(path);
  if (::stat(path.c_str(), &info) != 0) return;
  hash.field(std::to_string(info.st_size));
  hash.field(std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec));
}

// lib folders below nvidia/ of Python's site-packages folders.
std::vector<std::string> python_nvidia_folders() {
  std::vector<std::string> folders;
  auto& files = real_files();
  for (const std::string base : {"/usr/local/lib", "/usr/lib", "/opt/conda/lib"}) {
    auto names = files.list(base);
    if (!names) continue;
    for (const auto& name : *names) {
      if (!name.starts_with("python3")) continue;
      for (const char* packages : {"/dist-packages/nvidia", "/site-packages/nvidia"}) {
        const std::string root = base + "/" + name + packages;
        auto parts = files.list(root);
        if (!parts) continue;
        for (const auto& part : *parts) folders.push_back(root + "/" + part);
      }
    }
  }
  return folders;
}

}  // namespace

std::string private_prefix() {
  if (auto path = env_value("SCULLER_PREFIX"); !path.empty()) return path;
  if (auto path = env_value("XDG_DATA_HOME"); !path.empty()) return join_path(path, "sculler");
  return home() + "/.local/share/sculler";
}

std::string default_cache_folder() {
  if (auto path = env_value("XDG_CACHE_HOME"); !path.empty()) return join_path(path, "sculler");
  return home() + "/.cache/sculler";
}

int nccl_version_of(std::string_view header) {
  const std::string_view key = "#define NCCL_VERSION_CODE";
  const auto at = header.find(key);
  if (at == std::string_view::npos) return 0;
  const auto rest = header.substr(at + key.size());
  const auto value = parse_int(trim(rest.substr(0, rest.find('\n'))));
  return value && *value > 0 && *value < 10'000'000 ? static_cast<int>(*value) : 0;
}

Toolchain find_toolchain() {
  Toolchain t;
  for (const std::string& path : {env_value("SCULLER_CUDA_HOME"), env_value("CUDA_HOME"),
                                  std::string("/usr/local/cuda"), private_prefix() + "/cuda"}) {
    if (!path.empty() && exists(path + "/bin/nvcc")) {
      t.cuda_home = real_path(path);
      break;
    }
  }
  std::vector<std::string> nccl;
  if (auto path = env_value("SCULLER_NCCL_HOME"); !path.empty()) nccl.push_back(path + "/include");
  if (!t.cuda_home.empty()) nccl.push_back(t.cuda_home + "/include");
  nccl.emplace_back("/usr/local/include");
  nccl.emplace_back("/usr/include");
  nccl.push_back(private_prefix() + "/cuda/include");
  for (const auto& folder : python_nvidia_folders()) nccl.push_back(folder + "/include");
  for (const auto& folder : nccl) {
    if (!exists(folder + "/nccl_device.h")) continue;
    t.nccl_include = real_path(folder);
    if (auto header = real_files().read(folder + "/nccl.h", uint64_t{4} << 20))
      t.nccl_version = nccl_version_of(*header);
    break;
  }
  for (const std::string& root :
       {env_value("SCULLER_CUTLASS_HOME"), private_prefix() + "/cutlass"}) {
    if (root.empty() || !exists(root + "/include/cutlass/cutlass.h")) continue;
    t.cutlass_include.push_back(real_path(root + "/include"));
    if (exists(root + "/tools/util/include"))
      t.cutlass_include.push_back(real_path(root + "/tools/util/include"));
    break;
  }
  for (const char* kind : {"pthread", "openmp"}) {
    const std::string root = "/x86_64-linux-gnu/openblas-" + std::string(kind);
    if (!exists("/usr/include" + root + "/cblas.h") ||
        !exists("/usr/lib" + root + "/libopenblas.so"))
      continue;
    t.openblas_include = "/usr/include" + root;
    t.openblas_library = "/usr/lib" + root;
    break;
  }
  t.gxx = find_program("g++");
  t.addr2line = find_program("addr2line");
  Sha256 hash;
  for (const char* tool :
       {"/bin/nvcc", "/bin/ptxas", "/nvvm/bin/cicc", "/bin/cudafe++", "/bin/fatbinary"}) {
    if (!t.cuda_home.empty()) add_tool(hash, t.cuda_home + tool);
  }
  if (!t.gxx.empty()) add_tool(hash, real_path(t.gxx));
  hash.field(t.nccl_include);
  t.fingerprint = hash.hex();
  return t;
}

Installation find_installation() {
  Installation here;
  const std::string self = real_path("/proc/self/exe");
  here.programs = parent_path(self);
  for (const char* place : {"/../lib/sculler/emu", "/../lib/emu", "/../lib"}) {
    const std::string folder = absolute_path(here.programs + place);
    if (here.dropins.empty() && exists(folder + "/libcuda.so.1")) here.dropins = folder;
  }
  const auto holds = [](const std::string& root) {
    return exists(root + "/include/sculler/candidate.h");
  };
  if (auto root = env_value("SCULLER_HOME"); !root.empty() && holds(root)) {
    here.share = real_path(root);
    return here;
  }
  if (const std::string root = absolute_path(here.programs + "/../share/sculler"); holds(root)) {
    here.share = root;
    return here;
  }
  for (std::string root = here.programs; root.size() > 1; root = parent_path(root)) {
    if (!holds(root)) continue;
    here.share = root;
    break;
  }
  return here;
}

std::vector<std::string> dropin_libraries(const Installation& installation) {
  std::vector<std::string> found;
  for (const char* name : {"libcuda.so.1", "libcudart.so.13", "libcublas.so.13", "libnccl.so.2"}) {
    const std::string path = installation.dropins + "/" + name;
    if (!installation.dropins.empty() && exists(path)) found.push_back(path);
  }
  return found;
}

std::vector<std::string> find_cuda_libraries(const Toolchain& toolchain) {
  std::vector<std::string>
      nccl_first;  // NCCL must be of the headers' version: look near them first
  if (auto path = env_value("SCULLER_NCCL_HOME"); !path.empty())
    nccl_first.push_back(path + "/lib");
  if (!toolchain.nccl_include.empty())
    nccl_first.push_back(absolute_path(toolchain.nccl_include + "/../lib"));
  std::vector<std::string> folders;
  if (!toolchain.cuda_home.empty()) {
    folders.push_back(toolchain.cuda_home + "/lib64");
    folders.push_back(toolchain.cuda_home + "/lib");
    folders.push_back(toolchain.cuda_home + "/targets/x86_64-linux/lib");
  }
  folders.push_back(private_prefix() + "/cuda/lib");
  for (const auto& folder : python_nvidia_folders()) {
    nccl_first.push_back(folder + "/lib");
    folders.push_back(folder + "/lib");
  }
  folders.emplace_back("/usr/lib/x86_64-linux-gnu");
  folders.emplace_back("/usr/local/lib");
  std::vector<std::string> found;
  for (const std::string name :
       {"libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libnccl.so.2"}) {
    auto places = folders;
    if (name == "libnccl.so.2") places.insert(places.begin(), nccl_first.begin(), nccl_first.end());
    for (const auto& folder : places) {
      if (!exists(folder + "/" + name)) continue;
      found.push_back(real_path(folder) + "/" + name);
      break;
    }
  }
  return found;
}

}  // namespace sculler::eval
