#include "task/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/sha256.h"
#include "base/strings.h"
#include "base/toml.h"

namespace sculler::task {
namespace {

constexpr std::string_view kHere = "{here}";
constexpr uint64_t kLargestFile = uint64_t{4} << 20;

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::string with_here(std::string text, const std::string& folder) {
  for (auto at = text.find(kHere); at != std::string::npos;
       at = text.find(kHere, at + folder.size()))
    text.replace(at, kHere.size(), folder);
  return text;
}

std::string below(const std::string& folder, const std::string& path) {
  return absolute_path(join_path(folder, path));
}

// The files directly in a folder, or a file, by name and text.
void hash_files(Files& files, const std::string& path, Sha256& hash) {
  std::vector<std::string> names;
  if (files.is_folder(path)) {
    auto listed = files.list(path);
    if (listed) names = std::move(*listed);
  } else {
    names.emplace_back();
  }
  for (const auto& name : names) {
    const std::string file = join_path(path, name);
    if (files.is_folder(file) || file.ends_with(".md")) continue;
    if (auto text = files.read(file, kLargestFile)) hash.field(file_name(file)).field(*text);
  }
}

Status load_kernels(Files& files, const TomlReader& root, Adapter& a) {
  if (!root.has("kernels")) return {};
  auto kernels = root.table("kernels");
  if (!kernels) return fail(kernels.error());
  for (const auto& [name, node] : kernels->node().table) {
    auto table = kernels->table(name);
    if (!table) return fail(table.error());
    if (auto ok = table->only({"baselines", "seeds"}); !ok) return ok;
    AdapterKernel kernel;
    kernel.task = name;
    for (const auto& [key, into] :
         {std::pair{"baselines", &kernel.baselines}, std::pair{"seeds", &kernel.seeds}}) {
      if (!table->has(key)) continue;
      auto paths = table->strings(key);
      if (!paths) return fail(paths.error());
      for (const auto& path : *paths) {
        const std::string full = below(a.folder, path);
        if (!files.exists(full))
          return fail(table->error(key, fmt::format("{} does not exist", full),
                                   "add the file or remove it from the list"));
        into->push_back(full);
      }
    }
    if (kernel.baselines.empty())
      return fail(
          table->error("baselines", "is empty", "name at least one program to compare with"));
    a.kernels.push_back(std::move(kernel));
  }
  return {};
}

Status load_times(const TomlReader& root, Adapter& a) {
  if (root.has("timeouts_s")) {
    auto table = root.table("timeouts_s");
    if (!table) return fail(table.error());
    if (auto ok = table->only({"start", "compile", "verify", "benchmark", "profile"}); !ok)
      return ok;
    for (const auto& [key, field] :
         {std::pair{"start", &a.timeouts.start}, std::pair{"compile", &a.timeouts.compile},
          std::pair{"verify", &a.timeouts.verify}, std::pair{"benchmark", &a.timeouts.benchmark},
          std::pair{"profile", &a.timeouts.profile}}) {
      auto seconds = table->number_or(key, *field);
      if (!seconds) return fail(seconds.error());
      if (!(*seconds > 0 && *seconds <= 7200))
        return fail(table->error(key, "must be above 0 and at most 7200 seconds"));
      *field = *seconds;
    }
  }
  if (root.has("ceiling")) {
    auto table = root.table("ceiling");
    if (!table) return fail(table.error());
    if (auto ok = table->only({"bytes_s", "flops_s"}); !ok) return ok;
    for (const auto& [key, field] :
         {std::pair{"bytes_s", &a.bytes_s}, std::pair{"flops_s", &a.flops_s}}) {
      auto rate = table->number(key);
      if (!rate) return fail(rate.error());
      if (!(*rate > 0 && *rate < 1e20)) return fail(table->error(key, "must be above 0"));
      *field = *rate;
    }
  }
  return {};
}

}  // namespace

const AdapterKernel* Adapter::kernel(std::string_view task) const {
  const auto at = std::find_if(kernels.begin(), kernels.end(),
                               [&](const AdapterKernel& k) { return k.task == task; });
  return at == kernels.end() ? nullptr : &*at;
}

Result<Adapter> load_adapter(Files& files, const std::string& path) {
  Adapter a;
  a.path = absolute_path(path);
  a.folder = parent_path(a.path);
  auto text = files.read(a.path, kLargestFile);
  if (!text) return fail(text.error());
  auto tree = parse_toml(*text, a.path);
  if (!tree) return fail(tree.error());
  const TomlReader root(*tree, a.path);
  if (auto ok =
          root.only({"version", "name", "language", "command", "read", "env", "devices", "gpu",
                     "imports", "entry", "timeouts_s", "tmp_mib", "ceiling", "kernels"});
      !ok)
    return fail(ok.error());
  auto version = root.integer("version");
  if (!version) return fail(version.error());
  if (*version != 1) {
    Error error = root.error("version", fmt::format("format {} is not known here", *version),
                             "use an adapter of format 1");
    error.code = ErrorCode::kVersion;
    return fail(std::move(error));
  }
  auto name = root.string("name");
  if (!name) return fail(name.error());
  if (!is_word(*name))
    return fail(root.error("name", "must be 1 to 64 letters, digits, '_', '-' or '.'"));
  a.name = *name;
  auto language = root.string_or("language", "python");
  if (!language) return fail(language.error());
  if (*language != "python")
    return fail(root.error("language", fmt::format("\"{}\" is not known", *language),
                           "use python: there are rules for its candidates"));
  auto command = root.strings("command");
  if (!command) return fail(command.error());
  if (command->empty() || command->front().empty() || command->size() > 32)
    return fail(root.error("command", "needs a program and at most 31 arguments",
                           "write command = [\"python3\", \"{here}/adapter.py\"]"));
  for (auto& word : *command) a.command.push_back(with_here(std::move(word), a.folder));
  Sha256 hash;
  hash_files(files, a.folder, hash);
  if (root.has("read")) {
    auto read = root.strings("read");
    if (!read) return fail(read.error());
    for (const auto& entry : *read) {
      a.read.push_back(below(a.folder, with_here(entry, a.folder)));
      if (!files.exists(a.read.back()))
        return fail(root.error("read", fmt::format("{} does not exist", a.read.back()),
                               "name a folder or file that is there"));
      if (!entry.starts_with("/")) hash_files(files, a.read.back(), hash);
    }
  }
  if (root.has("env")) {
    auto env = root.table("env");
    if (!env) return fail(env.error());
    for (const auto& [key, node] : env->node().table) {
      auto value = env->string(key);
      if (!value) return fail(value.error());
      if (key.starts_with("LD_") || key.starts_with("SCULLER_"))
        return fail(env->error(key, "cannot be set for an adapter", "remove it"));
      a.env.emplace_back(key, with_here(*value, a.folder));
    }
  }
  if (root.has("devices")) {
    auto devices = root.strings("devices");
    if (!devices) return fail(devices.error());
    for (const auto& device : *devices) {
      if (!device.starts_with("/dev/") || device.find("..") != std::string::npos)
        return fail(root.error("devices", fmt::format("\"{}\" is no device", device),
                               "name nodes below /dev"));
    }
    a.devices = *devices;
  }
  auto gpu = root.boolean_or("gpu", false);
  if (!gpu) return fail(gpu.error());
  a.gpu = *gpu;
  if (root.has("imports")) {
    auto imports = root.strings("imports");
    if (!imports) return fail(imports.error());
    a.imports = *imports;
  }
  auto entry = root.string_or("entry", "");
  if (!entry) return fail(entry.error());
  a.entry = *entry;
  if (root.has("tmp_mib")) {
    auto mib = root.integer("tmp_mib", 1, 65536);
    if (!mib) return fail(mib.error());
    a.tmp_bytes = static_cast<uint64_t>(*mib) << 20;
  }
  if (auto ok = load_times(root, a); !ok) return fail(ok.error());
  if (auto ok = load_kernels(files, root, a); !ok) return fail(ok.error());
  for (const auto& kernel : a.kernels) {
    for (const auto& file : kernel.baselines) hash_files(files, file, hash);
  }
  a.sha256 = hash.hex();
  return a;
}

Result<std::string> find_adapter(Files& files, const std::vector<std::string>& roots,
                                 std::string_view name) {
  if (name.empty())
    return fail(ErrorCode::kUsage, "the target external needs an adapter",
                "use --adapter NAME, set profile, or `adapter` in the task's task.toml");
  if (name.find('/') != std::string_view::npos || name.ends_with(".toml")) {
    std::string path = absolute_path(name);
    if (files.is_folder(path)) path = join_path(path, "adapter.toml");
    if (files.exists(path)) return path;
    return fail(Error{ErrorCode::kNotFound,
                      "no adapter there",
                      path,
                      {},
                      "give an adapter's name, its folder or its adapter.toml"});
  }
  std::vector<std::string> known;
  for (const auto& root : roots) {
    const std::string path = join_path(join_path(root, name), "adapter.toml");
    if (files.exists(path)) return path;
    auto names = files.list(root);
    if (!names) continue;
    for (const auto& other : *names) {
      if (files.exists(join_path(join_path(root, other), "adapter.toml"))) known.push_back(other);
    }
  }
  const auto like = nearest(name, known);
  return fail(ErrorCode::kNotFound, fmt::format("unknown adapter {}", name),
              like            ? fmt::format("did you mean {}?", *like)
              : known.empty() ? fmt::format("none is in {}", join(roots, ", "))
                              : fmt::format("known: {}", join(known, ", ")));
}

}  // namespace sculler::task
