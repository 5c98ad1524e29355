#include "emu/server/options.h"

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/strings.h"
#include "emu/check/checker.h"
#include "task/profile.h"

namespace sculler::emu {

namespace {
Result<ScheduleKind> schedule_kind(std::string_view name) {
  if (name == "round_robin") return ScheduleKind::kRoundRobin;
  if (name == "random") return ScheduleKind::kRandom;
  if (name == "priority") return ScheduleKind::kPriority;
  if (name == "delay_rank") return ScheduleKind::kDelayRank;
  return fail(ErrorCode::kBadInput, "unknown schedule '" + std::string(name) + "'",
              "use round_robin, random, priority or delay_rank");
}
}  // namespace

Status set_checks(VmOptions& options, const std::vector<std::string>& names) {
  options.race = options.init = options.bounds = options.deadlock = false;
  for (const std::string& name : names) {
    if (name == "race") {
      options.race = true;
    } else if (name == "init") {
      options.init = true;
    } else if (name == "bounds" || name == "memory") {
      options.bounds = true;
    } else if (name == "deadlock") {
      options.deadlock = true;
    } else {
      return fail(ErrorCode::kBadInput, "unknown check '" + name + "'",
                  "use race, init, memory, deadlock");
    }
  }
  return {};
}

Result<Schedule> parse_schedule(std::string_view text) {
  const auto parts = split(text, ':');
  auto kind = schedule_kind(parts.empty() ? text : parts[0]);
  if (!kind) return fail(kind.error());
  Schedule schedule;
  schedule.kind = *kind;
  std::size_t at = 1;
  if (schedule.kind == ScheduleKind::kDelayRank && parts.size() > at) {
    const auto rank = parse_int(parts[at++]);
    if (!rank || *rank < 0 || *rank >= kMaxRanks)
      return fail(ErrorCode::kBadInput, "delay_rank:RANK[:SEED]: bad rank");
    schedule.delayed_rank = static_cast<int>(*rank);
  }
  if (parts.size() > at) {
    const auto seed = parse_int(parts[at++]);
    if (!seed)
      return fail(ErrorCode::kBadInput,
                  "schedule '" + std::string(text) + "': the seed is no number");
    schedule.seed = static_cast<uint64_t>(*seed);
  }
  return schedule;
}

Result<VmOptions> parse_vm_options(std::string_view text, std::string_view origin) {
  VmOptions options;
  if (text.empty()) return options;
  auto json = parse_json(text, origin);
  if (!json) return fail(json.error());
  if (!json->is_object())
    return fail(ErrorCode::kBadInput, std::string(origin) + ": emu is no object");
  if (const auto schedule = json->find("schedule");
      schedule != json->end() && schedule->is_object()) {
    auto kind = schedule_kind(string_or(*schedule, "kind", "round_robin"));
    if (!kind) return fail(kind.error());
    options.schedule.kind = *kind;
    options.schedule.seed = static_cast<uint64_t>(int_or(*schedule, "seed", 1));
    options.schedule.delayed_rank = static_cast<int>(int_or(*schedule, "delayed_rank", 0));
  }
  if (const auto checks = json->find("checks"); checks != json->end() && checks->is_array()) {
    std::vector<std::string> names;
    for (const auto& name : *checks)
      names.push_back(name.is_string() ? name.get<std::string>() : "?");
    if (auto set = set_checks(options, names); !set) return fail(set.error());
  }
  options.footprint = bool_or(*json, "footprint", false);
  options.profile = string_or(*json, "profile", "");
  options.step_limit = static_cast<uint64_t>(std::max<int64_t>(0, int_or(*json, "step_limit", 0)));
  options.memory_bytes = static_cast<uint64_t>(std::max<int64_t>(
      1 << 20, int_or(*json, "memory_bytes", static_cast<int64_t>(options.memory_bytes))));
  options.nodes = static_cast<int>(std::clamp<int64_t>(int_or(*json, "nodes", 1), 0, kMaxRanks));
  return options;
}

Result<std::unique_ptr<Vm>> make_vm(const VmOptions& options, int n_ranks, bool keep_trace) {
  if (options.nodes < 1 || n_ranks % options.nodes != 0) {
    return fail(ErrorCode::kBadInput,
                std::to_string(n_ranks) + " ranks cannot lie on " + std::to_string(options.nodes) +
                    " nodes, as many on each",
                "give a number of nodes that divides the ranks");
  }
  MachineConfig config;
  config.engine.ranks_per_node = n_ranks / options.nodes;
  if (!options.profile.empty()) {
    auto profile = task::load_profile(real_files(), options.profile);
    if (!profile) return fail(profile.error());
    DeviceLimits& limits = config.device.limits;
    const auto set = [&](const char* key, uint32_t& value) {
      if (const auto number = profile->number(key);
          number && *number >= 0 && *number < 4294967296.0) {
        value = static_cast<uint32_t>(*number);
      }
    };
    set("limits.sms", limits.sms);
    set("limits.shared_per_sm", limits.shared_per_sm);
    set("limits.shared_per_block", limits.shared_per_block);
    set("limits.registers_per_sm", limits.registers_per_sm);
    set("limits.warps_per_sm", limits.warps_per_sm);
    set("limits.blocks_per_sm", limits.blocks_per_sm);
    set("limits.l2_bytes", config.device.l2_bytes);
    config.device.multicast = profile->multicast;
  }
  config.device.limits.memory_bytes = options.memory_bytes;
  config.engine.n_ranks = n_ranks;
  config.engine.limits = config.device.limits;
  config.engine.schedule = options.schedule;
  config.engine.step_limit = options.step_limit;
  config.keep_trace = keep_trace;
  config.host_object = options.host_object;
  auto vm = std::make_unique<Vm>();
  if (options.race || options.init || options.footprint) {
    CheckerConfig checks;
    checks.races = options.race;
    checks.init = options.init;
    checks.describe = [raw = vm.get()](Address address) {
      return raw->memory != nullptr ? raw->memory->describe(address) : std::string("address");
    };
    vm->observer = make_checker(std::move(checks));
  }
  config.engine.observer = vm->observer.get();
  if (options.footprint) {
    vm->footprint = std::make_unique<Footprint>(*vm->observer);
    config.engine.observer = vm->footprint.get();
  }
  vm->machine = std::make_unique<Machine>(config);
  vm->memory = &vm->machine->memory();
  return vm;
}

}  // namespace sculler::emu
