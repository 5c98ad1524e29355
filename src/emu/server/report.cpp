#include "emu/server/report.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

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

const char* verb(Access access) {
  switch (access) {
    case Access::kLoad: return "reads";
    case Access::kStore: return "writes";
    case Access::kAtomic: return "updates";
  }
  return "touches";
}

const char* kind_name(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kRace: return "race";
    case Finding::Kind::kRelaxedOrder: return "relaxed-order";
    case Finding::Kind::kUninitialised: return "uninitialised";
    case Finding::Kind::kBounds: return "bounds";
    case Finding::Kind::kWrongRank: return "wrong-rank";
    case Finding::Kind::kUseAfterFree: return "use-after-free";
    case Finding::Kind::kMisaligned: return "misaligned";
    case Finding::Kind::kMisuse: return "misuse";
  }
  return "finding";
}

const char* cure(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kRace:
      return "order them: a barrier, or a release store that the other side acquires";
    case Finding::Kind::kRelaxedOrder:
      return "give the barrier or flag between them release and acquire order; relaxed orders "
             "nothing";
    case Finding::Kind::kUninitialised:
      return "write it before it is read, or wait for the peer that writes it";
    case Finding::Kind::kBounds: return "check the index against the size of the allocation";
    case Finding::Kind::kWrongRank: return "reach peers' memory through a registered window";
    case Finding::Kind::kUseAfterFree: return "free it after the last kernel that uses it";
    case Finding::Kind::kMisaligned: return "align the address to the width of the access";
    case Finding::Kind::kMisuse: return "see the documentation of the call";
  }
  return "";
}

constexpr std::string_view kHarness = "the harness";  // Machine::harness_touch

// Outputs that nobody wrote are told by the comparison, which counts them.
bool told_elsewhere(const Finding& finding) {
  return finding.kind == Finding::Kind::kUninitialised && finding.now.what == kHarness;
}

std::string who(const Engine& engine, const Finding::Side& side) {
  if (side.what == kHarness && side.access == Access::kLoad) {
    return "the check of rank " + std::to_string(side.rank) +
           "'s outputs, made when its stream has completed, reads";
  }
  std::string text =
      side.rank >= 0 ? "rank " + std::to_string(side.rank) : std::string("the harness");
  if (side.block >= 0) text += " block " + std::to_string(side.block);
  if (side.warp >= 0) text += " warp " + std::to_string(side.warp);
  text += std::string(" ") + verb(side.access);
  const std::string place = place_of(engine, side.code);
  if (!place.empty()) return text + " at " + place;
  return side.what.empty() ? text : text + " in " + side.what;
}

void put_place(const Engine& engine, CodeRef code, std::string& file, int& line) {
  if (code.function == 0) return;
  const Location at = engine.locate(code);
  if (at.line != 0) {
    file = base_name(at.file);
    line = static_cast<int>(at.line);
  } else if (at.ptx_line != 0) {
    file = "PTX of " + at.function;
    line = static_cast<int>(at.ptx_line);
  }
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

verify::Outcome of_finding(const Engine& engine, const Finding& finding, const char* word) {
  const verify::FindingText text = describe(engine, finding);
  const bool late = finding.now.what == kHarness;
  std::string where = place_of(engine, late ? finding.before.code : finding.now.code);
  return make(word, text.text,
              late ? "let each rank's stream wait for what its peers store: a closing barrier or "
                     "flags with release and acquire"
                   : cure(finding.kind),
              late ? finding.before.rank : finding.now.rank, std::move(where));
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
  if (word == status::kOutOfBounds) return cure(Finding::Kind::kBounds);
  if (word == status::kUnsupported) return "avoid it, or judge this candidate on hardware";
  if (word == status::kTimeout) return "find the loop that does not end, or raise step_limit";
  return "see the message";
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

const char* wait_name(WarpState::Wait wait) {
  switch (wait) {
    case WarpState::Wait::kRunning: return "runs";
    case WarpState::Wait::kBarrier: return "waits at a barrier";
    case WarpState::Wait::kSpin: return "spins";
    case WarpState::Wait::kGridSync: return "waits for the whole grid";
    case WarpState::Wait::kNotResident: return "is not resident";
    case WarpState::Wait::kMbarrier: return "waits at an mbarrier";
  }
  return "waits";
}

std::string describe(Machine& machine, const WarpState& w) {
  std::string text = "rank " + std::to_string(w.rank) + " kernel " + readable(w.kernel) +
                     " block " + std::to_string(w.block) + " warp " + std::to_string(w.warp) + " " +
                     wait_name(w.wait);
  const std::string place = place_of(machine.engine(), w.code);
  if (!place.empty()) text += " at " + place;
  if (w.wait == WarpState::Wait::kSpin) {
    text += " reading " + std::to_string(w.value) + " from " + machine.memory().describe(w.address);
  }
  if (w.wait == WarpState::Wait::kBarrier) {
    text += " " + std::to_string(w.barrier) + " (" + std::to_string(w.arrived) + " of " +
            std::to_string(w.expected) + " arrived)";
  }
  return text;
}

}  // namespace

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

std::string place_of(const Engine& engine, CodeRef code) {
  std::string file;
  int line = 0;
  put_place(engine, code, file, line);
  return file.empty() ? file : file + ":" + std::to_string(line);
}

verify::FindingText describe(const Engine& engine, const Finding& finding) {
  verify::FindingText text;
  text.kind = kind_name(finding.kind);
  text.rank = finding.now.rank;
  put_place(engine, finding.now.code, text.file, text.line);
  put_place(engine, finding.before.code, text.other_file, text.other_line);
  text.text = who(engine, finding.now) + " " + finding.place;
  const bool two =
      finding.before.rank >= 0 || finding.before.code.function != 0 || !finding.before.what.empty();
  switch (finding.kind) {
    case Finding::Kind::kRace:
      if (two)
        text.text += ", and nothing orders it after " + who(engine, finding.before) + " there";
      break;
    case Finding::Kind::kRelaxedOrder:
      if (two)
        text.text += ", and only relaxed atomics lie between it and " +
                     who(engine, finding.before) + " there";
      break;
    case Finding::Kind::kUninitialised: text.text += ", which nothing has written"; break;
    case Finding::Kind::kBounds: text.text += ", outside of any allocation"; break;
    case Finding::Kind::kWrongRank:
      text.text += ", which belongs to another rank and is in no window";
      break;
    case Finding::Kind::kUseAfterFree: text.text += ", which has been freed"; break;
    case Finding::Kind::kMisaligned: text.text += ", which is not aligned for this access"; break;
    case Finding::Kind::kMisuse: break;
  }
  if (!finding.note.empty()) text.text += "; " + finding.note;
  if (finding.count > 1) text.text += " (" + std::to_string(finding.count) + " times)";
  return text;
}

std::vector<verify::FindingText> describe(const Engine& engine,
                                          const std::vector<Finding>& findings) {
  std::vector<verify::FindingText> texts;
  for (const Finding& finding : findings) {
    if (texts.size() == kMaxFindings) break;
    if (told_elsewhere(finding)) continue;
    texts.push_back(describe(engine, finding));
  }
  return texts;
}

std::optional<verify::Outcome> judge(Machine& machine, const Observer* observer,
                                     const Server& server, int n_ranks) {
  const Engine& engine = machine.engine();
  static const std::vector<Finding> kNone;
  const std::vector<Finding>& findings = observer != nullptr ? observer->findings() : kNone;
  const auto finish = [&](verify::Outcome outcome) {
    outcome.findings = describe(engine, findings);
    return outcome;
  };
  if (const Finding* f = first_of(findings, {Finding::Kind::kRace, Finding::Kind::kRelaxedOrder})) {
    return finish(of_finding(engine, *f, status::kRace));
  }
  for (int r = 0; r < n_ranks; ++r) {
    const RankReport& report = server.report(r);
    if (!report.host_access.empty()) {
      return finish(make(status::kCrash, "rank " + std::to_string(r) + ": " + report.host_access,
                         "device memory is out of the host's reach: use cudaMemcpy", r, ""));
    }
  }
  if (!machine.faults().empty()) {
    const MachineFault& fault = machine.faults().front();
    return finish(make(status_of(fault),
                       fault.message.empty() ? fault.fault.message : fault.message,
                       advice_of(fault), fault.rank, place_of(engine, fault.fault.code)));
  }
  if (const Finding* f = first_of(findings, {Finding::Kind::kBounds, Finding::Kind::kWrongRank,
                                             Finding::Kind::kUseAfterFree})) {
    return finish(of_finding(engine, *f, status::kOutOfBounds));
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
    return finish(of_finding(engine, *f, status::kUninitialised));
  }
  if (const Finding* f = first_of(findings, {Finding::Kind::kMisaligned, Finding::Kind::kMisuse})) {
    return finish(of_finding(engine, *f, status::kLaunchError));
  }
  return std::nullopt;
}

verify::Outcome deadlock(Machine& machine, const Observer* observer) {
  const DeadlockReport report = machine.deadlock();
  verify::Outcome outcome =
      make(status::kDeadlock, "", "find who should have signalled, arrived or called, and did not",
           -1, "");
  const Engine& engine = machine.engine();
  // The spinning warps first: they say what is missing.
  std::vector<const WarpState*> warps;
  for (const WarpState& w : report.warps) warps.push_back(&w);
  std::stable_sort(warps.begin(), warps.end(), [](const WarpState* a, const WarpState* b) {
    return (a->wait == WarpState::Wait::kSpin) > (b->wait == WarpState::Wait::kSpin);
  });
  for (const WarpState* w : warps) {
    const std::string place = place_of(engine, w->code);
    if (outcome.message.empty()) {
      outcome.message = describe(machine, *w);
      outcome.rank = w->rank;
      outcome.where = place;
    }
    verify::FindingText text;
    text.kind = "deadlock";
    text.rank = w->rank;
    put_place(engine, w->code, text.file, text.line);
    text.text = describe(machine, *w);
    const bool seen = std::any_of(
        outcome.findings.begin(), outcome.findings.end(), [&](const verify::FindingText& f) {
          return f.rank == text.rank && f.file == text.file && f.line == text.line;
        });
    if (!seen && outcome.findings.size() < kMaxFindings)
      outcome.findings.push_back(std::move(text));
  }
  for (const DeadlockReport::Rank& r : report.ranks) {
    for (const std::string& host : r.hosts) {
      verify::FindingText text;
      text.kind = "deadlock";
      text.rank = r.rank;
      text.text = "rank " + std::to_string(r.rank) + " host: " + host;
      for (const DeadlockReport::Stream& s : r.streams) {
        text.text += "; stream " + std::to_string(s.index) + ": " + readable(s.head) +
                     (s.why.empty() ? "" : ", " + readable(s.why));
      }
      if (outcome.message.empty()) {
        outcome.message = text.text;
        outcome.rank = r.rank;
      }
      if (outcome.findings.size() < kMaxFindings) outcome.findings.push_back(std::move(text));
    }
  }
  if (outcome.message.empty()) outcome.message = report.text.substr(0, report.text.find('\n'));
  if (observer != nullptr) {
    for (verify::FindingText& text : describe(engine, observer->findings()))
      outcome.findings.push_back(std::move(text));
  }
  return outcome;
}

}  // namespace sculler::emu
