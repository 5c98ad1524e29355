#include "eval/weaken.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace sculler::eval {
namespace {

constexpr std::array<std::string_view, 4> kNames{"naive", "races", "poison", "delays"};
constexpr uint64_t kDelayNs = 300'000;

}  // namespace

bool is_weak_checker(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void weaken(std::string_view name, int n_ranks, nlohmann::json& spec) {
  const bool fresh = name == "delays";
  nlohmann::json iterations = nlohmann::json::array();
  for (int i = 0; i < 12; ++i) {
    nlohmann::json entry{{"set", 0}, {"content", fresh ? i % 4 : 0}, {"warm_up", i == 0}};
    if (name == "delays" && i > 0) entry["delay_inside_ns"] = kDelayNs;
    iterations.push_back(std::move(entry));
  }
  spec["iterations"] = std::move(iterations);
  spec["checker"] = {{"poison", name == "poison"}, {"every", name == "poison"}};
  if (const auto emu = spec.find("emu"); emu != spec.end()) {
    nlohmann::json checks = nlohmann::json::array({"deadlock"});
    if (name == "races") checks.push_back("race");
    (*emu)["checks"] = std::move(checks);
    if (name == "delays") {
      (*emu)["schedule"] = {{"kind", "delay_rank"}, {"seed", 1}, {"delayed_rank", n_ranks - 1}};
    } else {
      (*emu)["schedule"] = {{"kind", "random"}, {"seed", 3}, {"delayed_rank", 0}};
    }
  }
}

}  // namespace sculler::eval
