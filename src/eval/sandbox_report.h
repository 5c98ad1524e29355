// What a job's sandbox refused or found, for the verdict. Lines come from inside the sandbox, so
// they may be forged: they only ever speak against the candidate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eval/sandbox_cgroup.h"

namespace sculler::eval {

struct Incidents {
  std::vector<std::string> calls;  // refused system calls, each once: "ptrace", "socket(AF_INET)"
  std::vector<std::string> notes;  // everything else, as sentences
  uint64_t left = 0;               // processes that outlived their rank
  std::string out_of_memory;       // why memory ran out; empty where it did not
};

// Takes what is in the pipe now, bounded; never blocks.
[[nodiscard]] Incidents read_report(int fd);
[[nodiscard]] Incidents parse_report(std::string_view text);
// `ended`: the ranks had ended by themselves, so what is in the group was left behind.
void add_cgroup_events(Incidents& incidents, const CgroupEvents& events, bool ended);

struct RunResult;
// Refused calls make a CHEAT of anything but INTERNAL; memory that ran out an OOM of a CRASH.
void judge_incidents(const Incidents& incidents, RunResult& result);

}  // namespace sculler::eval
