// What the emulator found, in words and as a verdict.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emu/check/observer.h"
#include "emu/device/machine.h"
#include "emu/server/server.h"
#include "verify/job.h"

namespace sculler::emu {

// "ring.cu:84", or the PTX line where there is no source line, "candidate.so+0x1a2b" for a call in
// host code, or empty for code that is none.
std::string place_of(const Machine& machine, CodeRef code);
// The checker's own accesses (Machine::harness_touch).
bool by_harness(const Finding::Side& side);
// One finding: who, where, against whom, what to do.
verify::FindingText describe(const Machine& machine, const Finding& finding);
std::vector<verify::FindingText> describe(const Machine& machine,
                                          const std::vector<Finding>& findings);

// The emulator's own verdict on what ran until now: races before faults before what libraries
// reported before uninitialised reads; nothing where there is nothing to say. `observer` may be
// null.
std::optional<verify::Outcome> judge(Machine& machine, const Observer* observer,
                                     const Server& server, int n_ranks);
// The read of memory that nobody ever writes properly, where that comes before the races and faults
// that it leads to; null where there is none.
const Finding* uninitialised_first(const Memory& memory, const std::vector<Finding>& findings);
// Adds what the machine knows of the launch, or other call, behind a LAUNCH_ERROR that a rank has
// told of.
void add_launch(const Machine& machine, const Server& server, verify::Outcome& outcome);
// Nothing can go on any more.
verify::Outcome deadlock(Machine& machine, const Observer* observer);

// Mangled names in a text as people write them; line breaks become spaces.
std::string readable(std::string_view text);
std::string hex(uint64_t value);
std::string schedule_text(const Schedule& schedule);  // "random:7"

}  // namespace sculler::emu
