#include "emu/server/report.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "emu/check/deadlock.h"
#include "emu/check/report.h"

namespace sculler::emu {
namespace {

namespace status = verify::status;
constexpr std::size_t kMaxFindings = 64;

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// "ring.cu:84" of the first "path:84:" in a text, empty where there is none.
std::string place_in(std::string_view text) {
  for (std::size_t colon = text.find(':'); colon != std::string_view::npos;
       colon = text.find(':', colon + 1)) {
    std::size_t end = colon + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end == colon + 1 || end >= text.size() || text[end] != ':') continue;
    const std::size_t begin = text.find_last_of(" \n", colon);
    const std::size_t from = begin == std::string_view::npos ? 0 : begin + 1;
    return base_name(std::string(text.substr(from, end - from)));
  }
  return {};
}

// "candidate.so+0x1a2b" in what a rank says of itself, empty where there is none.
std::string host_place_in(std::string_view text) {
  const std::size_t begin = text.find(std::string(wire::kCandidateName) + "+0x");
  if (begin == std::string_view::npos) return {};
  const std::size_t digits = text.find('x', begin) + 1;
  const std::size_t end = text.find_first_not_of("0123456789abcdef", digits);
  return std::string(text.substr(begin, end == std::string_view::npos ? end : end - begin));
}

constexpr std::string_view kHarness = "the harness";  // Machine::harness_touch

// Outputs that nobody wrote are told by the comparison, which counts them.
bool told_elsewhere(const Finding& finding) {
  return finding.kind == Finding::Kind::kUninitialised && finding.now.what == kHarness;
}

LocateCode locator(const Machine& machine) {
  return [&machine](CodeRef code) { return machine.locate(code); };
}

// The other side is an access that the completion of a rank's stream does not wait for.
bool is_late(const Finding& finding) { return by_harness(finding.now); }

std::string late_text(const Finding& finding, const SourcePlace& before, const SourcePlace& wait) {
  const Finding::Side& side = finding.before;
  std::string text =
      (finding.now.access == Access::kLoad ? "the check of rank " : "the refill of rank ") +
      std::to_string(finding.now.rank) +
      (finding.now.access == Access::kLoad
           ? "'s outputs, made when its stream has completed, reads "
           : "'s buffers, made when its stream has completed, writes ") +
      finding.place + ", and " +
      (finding.kind == Finding::Kind::kRelaxedOrder
           ? "only relaxed accesses lie between it and what rank "
           : "nothing orders it after what rank ") +
      std::to_string(side.rank);
  if (side.block >= 0) text += " block " + std::to_string(side.block);
  if (side.warp >= 0) text += " warp " + std::to_string(side.warp);
  text += side.access == Access::kLoad ? " reads" : " writes";
  if (side.async == AsyncKind::kPut) text += " by a GIN put";
  if (!side.what.empty()) text += " in " + side.what;
  if (before.known()) text += " at " + before.text();
  if (!finding.note.empty()) text += ": " + finding.note;
  if (wait.known()) text += ", at " + wait.full();
  if (finding.count > 1) text += ", " + std::to_string(finding.count) + " times";
  return text;
}

verify::Outcome make(const char* word, std::string message, std::string advice, int rank,
                     std::string where) {
  verify::Outcome outcome;
  outcome.status = word;
  outcome.message = readable(message);
  outcome.advice = std::move(advice);
  outcome.rank = rank;
  outcome.where = std::move(where);
  return outcome;
}

verify::Outcome of_finding(const Machine& machine, const Finding& finding, const char* word) {
  const ReportedFinding text = report(finding, locator(machine));
  const bool late = is_late(finding);
  const SourcePlace& at = late ? text.before : text.now;
  return make(word, describe(machine, finding).text,
              late ? "Let each rank's stream wait for what its peers store: a closing barrier or "
                     "flags with release and acquire."
                   : text.advice,
              late ? text.other_rank : text.rank, at.known() ? at.text() : "");
}

const char* status_of(const MachineFault& fault) {
  switch (fault.kind) {
    case MachineFault::Kind::kBadAccess: return status::kOutOfBounds;
    case MachineFault::Kind::kMismatch: return status::kLaunchError;
    case MachineFault::Kind::kUnsupported: return status::kUnsupported;
    case MachineFault::Kind::kStepLimit: return status::kTimeout;
    case MachineFault::Kind::kKernel: break;
  }
  switch (fault.fault.kind) {
    case Fault::Kind::kIllegalAddress: return status::kOutOfBounds;
    case Fault::Kind::kDeadlock: return status::kDeadlock;
    case Fault::Kind::kStepLimit: return status::kTimeout;
    case Fault::Kind::kUnsupported: return status::kUnsupported;
    case Fault::Kind::kLaunch: return status::kLaunchError;
    default: return status::kCrash;
  }
}

const char* advice_of(const MachineFault& fault) {
  const std::string_view word = status_of(fault);
  if (word == status::kOutOfBounds) return "check the index against the size of the allocation";
  if (word == status::kUnsupported) return "avoid it, or judge this candidate on hardware";
  if (word == status::kTimeout) return "find the loop that does not end, or raise step_limit";
  if (fault.kind == MachineFault::Kind::kMismatch) {
    return "let all ranks of the communicator make the same calls in the same order, with counts "
           "and types that match";
  }
  switch (fault.fault.kind) {
    case Fault::Kind::kLaunch:
      return "launch with a configuration that fits the device: threads, registers and shared "
             "memory of a block";
    case Fault::Kind::kMisaligned:
      return "align the address to the width of the access, or use narrower accesses";
    case Fault::Kind::kAssert: return "find out why the assertion does not hold there";
    case Fault::Kind::kTrap:
      return "find out what leads to __trap() there: a wait that took too long, a value that the "
             "kernel refuses";
    case Fault::Kind::kIllegalInstruction:
      return "change the operands or the threads that reach this instruction: see the message for "
             "what it needs";
    default: return "find what breaks the kernel at this line";
  }
}

// The first line of a kernel.
std::string beginning_of(const Machine& machine, const Engine& engine, KernelId kernel) {
  const std::string& name = engine.info(kernel).name;
  for (uint32_t function = 1;; ++function) {
    CodeRef code{function, 0};
    Location at = engine.locate(code);
    if (at.function.empty()) return {};
    if (at.function != name) continue;
    while (at.line == 0 && at.ptx_line != 0) {
      ++code.instruction;
      at = engine.locate(code);
    }
    return place_of(machine, at.line != 0 ? code : CodeRef{function, 0});
  }
}

std::string launch_advice(int code, const DeviceLimits& limits) {
  switch (code) {
    case kCudaCooperativeLaunchTooLarge:
      return "launch at most as many blocks as "
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor gives times the " +
             std::to_string(limits.sms) +
             " multiprocessors, or use less shared memory, fewer registers or threads a block";
    case kCudaLaunchOutOfResources:
      return "use fewer threads or registers a block: __launch_bounds__ makes the compiler obey";
    case kCudaInvalidConfiguration:
      return "give every dimension of grid and block at least 1, and a block at most " +
             std::to_string(limits.threads_per_block) + " threads";
    default:
      return "fit the launch to the device and to the kernel's parameters, launch bounds and "
             "shared memory (at most " +
             std::to_string(limits.shared_per_block) + " bytes a block)";
  }
}

const Finding* first_of(const std::vector<Finding>& findings,
                        std::initializer_list<Finding::Kind> kinds) {
  for (const Finding::Kind kind : kinds) {
    for (const Finding& f : findings) {
      if (f.kind == kind && !told_elsewhere(f)) return &f;
    }
  }
  return nullptr;
}

}  // namespace

// A read of what nobody ever writes properly comes before the races and faults that it leads to.
// Where the same memory is raced for as well, somebody writes it, too late: that is the race. A
// counter is written by those who count: only who else would clear it, a copy or the host, can race
// for it in that sense.
const Finding* uninitialised_first(const Memory& memory, const std::vector<Finding>& findings) {
  const auto is_race = [](const Finding& f) {
    return f.kind == Finding::Kind::kRace || f.kind == Finding::Kind::kRelaxedOrder;
  };
  const auto same_memory = [&](const Finding& a, const Finding& b) {
    const Allocation* of_a = memory.find(a.address);
    const Allocation* of_b = memory.find(b.address);
    if (of_a == nullptr && of_b == nullptr)  // shared memory: of the same kernel
      return a.now.code.function == b.now.code.function;
    return of_a == of_b;
  };
  for (const Finding& f : findings) {
    if (is_race(f)) return nullptr;
    if (f.kind != Finding::Kind::kUninitialised || told_elsewhere(f)) continue;
    const bool raced = std::any_of(findings.begin(), findings.end(), [&](const Finding& other) {
      // Races of the ranks at the same two places are one finding: the instruction says it too.
      const auto reads_there = [&f](const Finding::Side& side) {
        return side.code.function == f.now.code.function &&
               side.code.instruction == f.now.code.instruction;
      };
      if (!is_race(other) ||
          (!same_memory(f, other) && !reads_there(other.now) && !reads_there(other.before))) {
        return false;
      }
      return f.now.access != Access::kAtomic || other.now.block < 0 || other.before.block < 0;
    });
    if (!raced) return &f;
  }
  return nullptr;
}

bool by_harness(const Finding::Side& side) { return side.what == kHarness; }

std::string readable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool starts = text.substr(i).starts_with("_Z") &&
                        (i == 0 || (std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0 &&
                                    text[i - 1] != '_'));
    if (!starts) {
      out += text[i] == '\n' ? ' ' : text[i];
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                                 text[end] == '_' || text[end] == '$' || text[end] == '.')) {
      ++end;
    }
    const std::string mangled(text.substr(i, end - i));
    int status = 0;
    char* plain = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
    std::string name = status == 0 && plain != nullptr ? plain : mangled;
    std::free(plain);
    // Without what is no part of the name: anonymous namespaces, parameters, the return type of a
    // template.
    for (std::size_t at; (at = name.find("(anonymous namespace)::")) != std::string::npos;)
      name.erase(at, 23);
    for (std::size_t at; (at = name.find("_GLOBAL__N__")) != std::string::npos;) {
      const std::size_t colon = name.find("::", at);
      if (colon == std::string::npos) break;
      name.erase(at, colon + 2 - at);
    }
    name = name.substr(0, name.find('('));
    if (const std::size_t space = name.find(' ');
        space != std::string::npos && space < name.find('<')) {
      name.erase(0, space + 1);
    }
    out += name;
    i = end;
  }
  return out;
}

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string schedule_text(const Schedule& schedule) {
  const std::string seed = std::to_string(schedule.seed);
  switch (schedule.kind) {
    case ScheduleKind::kRoundRobin: return "round_robin";
    case ScheduleKind::kRandom: return "random:" + seed;
    case ScheduleKind::kPriority: return "priority:" + seed;
    case ScheduleKind::kDelayRank:
      return "delay_rank:" + std::to_string(schedule.delayed_rank) + ":" + seed;
  }
  return "?";
}

std::string place_of(const Machine& machine, CodeRef code) {
  const SourcePlace place = place_of(code, locator(machine));
  return place.known() ? place.text() : std::string();
}

verify::FindingText describe(const Machine& machine, const Finding& finding) {
  const ReportedFinding reported = report(finding, locator(machine));
  verify::FindingText text;
  text.kind = reported.kind;
  text.rank = reported.rank;
  text.text = readable(is_late(finding) ? late_text(finding, reported.before,
                                                    place_of(finding.wait, locator(machine)))
                                        : reported.text);
  text.file = reported.now.file;
  text.line = static_cast<int>(reported.now.line);
  text.other_file = reported.before.file;
  text.other_line = static_cast<int>(reported.before.line);
  return text;
}

std::vector<verify::FindingText> describe(const Machine& machine,
                                          const std::vector<Finding>& findings) {
  std::vector<verify::FindingText> texts;
  for (const Finding& finding : findings) {
    if (texts.size() == kMaxFindings) break;
    if (told_elsewhere(finding)) continue;
    texts.push_back(describe(machine, finding));
  }
  return texts;
}

std::optional<verify::Outcome> judge(Machine& machine, const Observer* observer,
                                     const Server& server, int n_ranks) {
  static const std::vector<Finding> kNone;
  const std::vector<Finding>& findings = observer != nullptr ? observer->findings() : kNone;
  const auto finish = [&](verify::Outcome outcome) {
    outcome.findings = describe(machine, findings);
    return outcome;
  };
  if (const Finding* f = uninitialised_first(machine.memory(), findings))
    return finish(of_finding(machine, *f, status::kUninitialised));
  if (const Finding* f = first_of(findings, {Finding::Kind::kRace, Finding::Kind::kRelaxedOrder})) {
    return finish(of_finding(machine, *f, status::kRace));
  }
  // What two kinds of updates of one signal do to each other is as little defined as a race.
  if (const Finding* f = first_of(findings, {Finding::Kind::kMisuse}))
    return finish(of_finding(machine, *f, status::kRace));
  for (int r = 0; r < n_ranks; ++r) {
    const RankReport& report = server.report(r);
    if (!report.host_access.empty()) {
      return finish(make(status::kCrash, "rank " + std::to_string(r) + ": " + report.host_access,
                         "device memory is out of the host's reach: use cudaMemcpy", r,
                         host_place_in(report.host_access)));
    }
  }
  if (!machine.faults().empty()) {
    const MachineFault& fault = machine.faults().front();
    return finish(make(status_of(fault),
                       fault.message.empty() ? fault.fault.message : fault.message,
                       advice_of(fault), fault.rank, place_of(machine, fault.fault.code)));
  }
  if (const Finding* f = first_of(findings, {Finding::Kind::kBounds, Finding::Kind::kWrongRank,
                                             Finding::Kind::kUseAfterFree})) {
    return finish(of_finding(machine, *f, status::kOutOfBounds));
  }
  for (int r = 0; r < n_ranks; ++r) {
    const RankReport& report = server.report(r);
    if (!report.unsupported.empty()) {
      return finish(make(status::kUnsupported,
                         "rank " + std::to_string(r) + ": " + report.unsupported.front(),
                         "avoid it, or judge this candidate on hardware", r,
                         place_in(report.unsupported.front())));
    }
    if (!report.broken.empty()) {
      return finish(make(status::kCrash,
                         "rank " + std::to_string(r) + " sent the emulator " + report.broken,
                         "leave the harness's descriptors alone", r, ""));
    }
  }
  if (const Finding* f = first_of(findings, {Finding::Kind::kUninitialised})) {
    return finish(of_finding(machine, *f, status::kUninitialised));
  }
  if (const Finding* f = first_of(findings, {Finding::Kind::kMisaligned})) {
    return finish(of_finding(machine, *f, status::kLaunchError));
  }
  return std::nullopt;
}

void add_launch(const Machine& machine, const Server& server, verify::Outcome& outcome) {
  if (outcome.rank < 0) return;
  const RankReport& report = server.report(outcome.rank);
  const std::string why = readable(report.launch_error);
  if (why.empty() || report.launch_code == 0) {
    const std::string other = readable(report.failed_call);
    const std::string at = place_of(machine, host_code(report.failed_site));
    if (at.empty() || other.empty()) return;
    outcome.message += ": " + other;
    outcome.where = at;
    outcome.advice = "correct the arguments of that call, or what it is called after";
    return;
  }
  if (outcome.message.find(why) == std::string::npos) outcome.message += ": " + why;
  const Engine& engine = const_cast<Machine&>(machine).engine();
  const std::string call = place_of(machine, host_code(report.launch_site));
  if (!call.empty()) outcome.where = call;
  if (outcome.where.empty()) outcome.where = beginning_of(machine, engine, report.launch_kernel);
  outcome.advice = launch_advice(report.launch_code, engine.config().limits);
}

verify::Outcome deadlock(Machine& machine, const Observer* observer) {
  const DeadlockReport report = machine.deadlock();
  const DeadlockText warps =
      explain_deadlock(report.warps, locator(machine),
                       [&machine](Address address) { return machine.memory().describe(address); });
  verify::Outcome outcome =
      make(status::kDeadlock, "", "Find who should have signalled, arrived or called, and did not.",
           -1, "");
  const auto add = [&outcome](int rank, std::string text, const SourcePlace& at) {
    if (outcome.findings.size() >= kMaxFindings) return;
    verify::FindingText finding;
    finding.kind = "deadlock";
    finding.rank = rank;
    finding.text = std::move(text);
    finding.file = at.file;
    finding.line = static_cast<int>(at.line);
    outcome.findings.push_back(std::move(finding));
  };
  if (!warps.groups.empty()) {
    outcome.message = readable(warps.message);
    outcome.advice = readable(warps.advice);
    outcome.rank = warps.rank;
    if (warps.at.known()) outcome.where = warps.at.text();
  }
  for (const StuckWarps& group : warps.groups) add(group.rank, readable(group.text), group.at);
  const auto at_call = [&machine](CodeRef code) {
    const std::string place = place_of(machine, code);
    return place.empty() ? place : " (" + place + ")";
  };
  for (const DeadlockReport::Rank& r : report.ranks) {
    for (std::size_t i = 0; i < r.hosts.size(); ++i) {
      std::string text =
          "rank " + std::to_string(r.rank) + " host: " + r.hosts[i] + at_call(r.host_code[i]);
      // What the host waits for is the place to look at, where a call of the candidate asked for
      // it.
      SourcePlace at = place_of(r.host_code[i], locator(machine));
      for (const DeadlockReport::Stream& s : r.streams) {
        text += "; stream " + std::to_string(s.index) + ": " + readable(s.head) + at_call(s.code) +
                (s.why.empty() ? "" : ", " + readable(s.why));
        if (const SourcePlace head = place_of(s.code, locator(machine)); head.known()) at = head;
      }
      if (outcome.message.empty()) {
        outcome.message = text;
        outcome.rank = r.rank;
        if (at.known()) outcome.where = at.text();
      }
      add(r.rank, std::move(text), at);
    }
  }
  if (outcome.message.empty()) outcome.message = report.text.substr(0, report.text.find('\n'));
  if (observer != nullptr) {
    for (verify::FindingText& text : describe(machine, observer->findings()))
      outcome.findings.push_back(std::move(text));
  }
  return outcome;
}

}  // namespace sculler::emu
