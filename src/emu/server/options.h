// How a VM is set up: device, schedule, checks; from a job's "emu" object or from the command line.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "emu/check/footprint.h"
#include "emu/check/observer.h"
#include "emu/device/machine.h"
#include "emu/wire/op.h"

namespace sculler::emu {

struct VmOptions {
  Schedule schedule{};
  bool race = true, init = true, bounds = true, deadlock = true;
  bool footprint = false;  // keep what each operation reads and writes (operations.h)
  uint64_t step_limit = 0;
  uint64_t memory_bytes = uint64_t{4} << 30;       // of a rank's heap
  int nodes = 1;                                   // the ranks lie on so many, the same number each
  std::string profile;                             // path of a hardware profile, empty: H200
  std::string host_object = wire::kCandidateName;  // what calls in host code are said to lie in
};

// {"schedule":{"kind":"random","seed":7,"delayed_rank":0},"checks":["race","init","bounds","deadlock"],"profile":"...",
//  "step_limit":N,"memory_bytes":N,"nodes":N,"footprint":true}
Result<VmOptions> parse_vm_options(std::string_view json, std::string_view origin);
// "race,init,deadlock"
Status set_checks(VmOptions& options, const std::vector<std::string>& names);
// "round_robin", "random:7", "priority:7", "delay_rank:1:7"
Result<Schedule> parse_schedule(std::string_view text);

// A machine with its checker, which outlives it and names addresses by its memory.
struct Vm {
  std::unique_ptr<Observer> observer;    // null where no check needs one
  std::unique_ptr<Footprint> footprint;  // in front of it, where asked
  const Memory* memory = nullptr;
  std::unique_ptr<Machine> machine;
};
// Errors: the profile, nodes that do not divide the ranks.
Result<std::unique_ptr<Vm>> make_vm(const VmOptions& options, int n_ranks, bool keep_trace);

}  // namespace sculler::emu
