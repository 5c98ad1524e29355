// An adapter of the target `external`: a program that speaks JSON lines (docs/external.md), as its
// adapter.toml describes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace sculler::task {

struct AdapterKernel {
  std::string task;
  std::vector<std::string> baselines, seeds;  // absolute paths
};

struct Adapter {
  std::string path, folder;  // absolute
  std::string name;
  std::string language = "python";   // of its candidates
  std::vector<std::string> command;  // "{here}" is replaced by the folder
  std::vector<std::string> read;     // absolute: what it may read beside its folder and /usr
  std::vector<std::pair<std::string, std::string>> env;
  std::vector<std::string> devices;  // device nodes it may use
  bool gpu = false;
  std::vector<std::string> imports;  // modules that candidates may import
  std::string entry;                 // function that a candidate must define; empty: not checked
  struct {
    double start = 60, compile = 120, verify = 60, benchmark = 60, profile = 120;
  } timeouts;
  uint64_t tmp_bytes = uint64_t{1} << 30;
  // Rates that its device cannot exceed: what is faster is IMPLAUSIBLE. 0: not known.
  double bytes_s = 0, flops_s = 0;
  std::vector<AdapterKernel> kernels;
  // Of adapter.toml, the files beside it, what lies in folders that it names by a relative path,
  // and the kernels.
  std::string sha256;

  [[nodiscard]] const AdapterKernel* kernel(std::string_view task) const;
};

// Reads and checks an adapter.toml. Errors name file, key and cure.
[[nodiscard]] Result<Adapter> load_adapter(Files& files, const std::string& path);
// `name`: an adapter's name below one of the roots, a folder, or the path of an adapter.toml.
// kNotFound with the nearest name.
[[nodiscard]] Result<std::string> find_adapter(Files& files, const std::vector<std::string>& roots,
                                               std::string_view name);

}  // namespace sculler::task
