#include "eval/spread.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::eval {
namespace {

constexpr double kCpuFloor = 0.01, kCudaFloor = 0.003;

std::string path_of(const std::string& cache) { return cache + "/noise.json"; }

std::string key_of(const std::string& machine, Target target) {
  return std::string(target_name(target)) + ": " + machine;
}

}  // namespace

double default_spread(Target target) { return target == Target::kCuda ? 0.005 : 0.02; }

StopRule stop_rule(Target target) {
  StopRule rule;
  rule.margin = default_spread(target);
  if (target == Target::kCuda) {
    rule.looks = {8, 16, 32};
    rule.target = 0.015;
  } else {
    rule.looks = {8, 16, 32, 64};
    rule.target = 0.05;
    // Processors of shared machines are slowed in bursts, and one process for as long as it has the
    // worse place; to start a pair of groups costs half a second.
    rule.parts = 5;
    rule.fresh = true;
  }
  return rule;
}

double spread_of(const std::map<int, std::vector<double>>& log_ratios, Target target) {
  std::vector<double> off;
  for (const auto& [pair, values] : log_ratios) off.push_back(std::abs(median(values)));
  return std::max(target == Target::kCuda ? kCudaFloor : kCpuFloor, std::expm1(3 * median(off)));
}

std::optional<Spread> load_spread(Files& files, const std::string& cache,
                                  const std::string& machine, Target target) {
  auto text = files.read(path_of(cache), uint64_t{1} << 20);
  if (!text) return std::nullopt;
  auto object = parse_json(*text, path_of(cache));
  if (!object) return std::nullopt;
  const auto* entry = find_member(*object, key_of(machine, target));
  if (entry == nullptr || !entry->is_object()) return std::nullopt;
  Spread s;
  s.fraction = number_or(*entry, "fraction", 0);
  s.comparisons = static_cast<int>(std::clamp<int64_t>(int_or(*entry, "comparisons", 0), 0, 1e9));
  s.pairs = static_cast<int>(std::clamp<int64_t>(int_or(*entry, "pairs", 0), 0, 1e9));
  s.task = string_or(*entry, "task", "");
  s.size = string_or(*entry, "size", "");
  s.date = string_or(*entry, "date", "");
  if (!(s.fraction > 0) || s.fraction > 0.5) return std::nullopt;
  return s;
}

Status save_spread(Files& files, const std::string& cache, const std::string& machine,
                   Target target, const Spread& s) {
  nlohmann::json object = nlohmann::json::object();
  if (auto text = files.read(path_of(cache), uint64_t{1} << 20)) {
    if (auto known = parse_json(*text, path_of(cache)); known && known->is_object())
      object = std::move(*known);
  }
  object[key_of(machine, target)] = {{"fraction", s.fraction}, {"comparisons", s.comparisons},
                                     {"pairs", s.pairs},       {"task", s.task},
                                     {"size", s.size},         {"date", s.date}};
  return files.write_atomic(path_of(cache), pretty_json(object) + "\n");
}

std::string cpu_key(Files& files, int cores) {
  std::string model = "unknown processor";
  if (auto text = files.read("/proc/cpuinfo", uint64_t{4} << 20)) {
    for (const auto line : split(*text, '\n')) {
      const auto colon = line.find(':');
      if (!line.starts_with("model name") || colon == std::string_view::npos) continue;
      model = printable(shorten(trim(line.substr(colon + 1)), 100));
      break;
    }
  }
  return model + ", " + std::to_string(cores) + " cores";
}

}  // namespace sculler::eval
