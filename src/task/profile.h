// A hardware profile: nominal rates (for the speed of light), measured rates (for predictions),
// what is allowed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "task/task.h"

namespace sculler::task {

struct Profile {
  std::string path, name, summary;
  std::string arch;   // "sm_90a"; empty on cpu
  int n_devices = 1;  // GPUs of one node
  // Flat "section.key" → number, of every numeric key in the file: "nominal.hbm_bytes_s",
  // "limits.sms".
  std::map<std::string, double, std::less<>> numbers;
  std::vector<std::pair<std::string, std::string>> env;  // [env]
  bool multicast = false;  // allow.multicast: NVLS, multimem, cuMulticast*
  bool gin = false;        // allow.gin
  bool lsa = true;         // allow.lsa: peers are load/store accessible

  [[nodiscard]] std::optional<double> number(std::string_view key) const;
};

[[nodiscard]] Result<Profile> load_profile(Files& files, const std::string& path);
// ROOT/<name>.toml of the first root that has it, or `name` itself where it is a path.
[[nodiscard]] Result<std::string> find_profile(Files& files, const std::vector<std::string>& roots,
                                               std::string_view name);

// Speed of light of one rank's work at nominal rates, µs: the largest of flops, vector, HBM and
// link times. `bound` names it.
struct SpeedOfLight {
  double us = 0, flops_us = 0, hbm_us = 0, link_us = 0, vec_us = 0;
  std::string bound;  // "flops", "hbm", "link", "vec"
};
// `products` (Task::precision_products) picks the rate of the tensor cores. kNotFound where the
// profile lacks a rate that the work needs.
[[nodiscard]] Result<SpeedOfLight> speed_of_light(const Profile& profile, const Work& work,
                                                  std::string_view products);

// The least time of `work` at the rates that programs were seen to reach on this machine
// ([measured] of a cpu profile, written by `sculler bench ceilings`), µs: the largest of three.
struct Ceiling {
  double us = 0, memory_us = 0, product_us = 0, vector_us = 0;
  std::string bound;  // "memory", "product", "vector"
};
// Nothing where the profile lacks one of memory_gbs, product_gflops and vector_gflops.
[[nodiscard]] std::optional<Ceiling> measured_ceiling(const Profile& profile, const Work& work);

}  // namespace sculler::task
