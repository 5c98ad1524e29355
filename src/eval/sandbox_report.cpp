#include "eval/sandbox_report.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "eval/outcome.h"
#include "rank/seccomp.h"

namespace sculler::eval {
namespace {

constexpr std::size_t kBytes = 8192, kCalls = 16;

void add_line(std::string_view line, Incidents& into) {
  const auto words = split(line, ' ');
  const auto number = [&](std::size_t i) {
    return i < words.size() ? parse_int(words[i]).value_or(-1) : -1;
  };
  if (words[0] == "syscall" && words.size() == 3) {
    const std::string name = rank::refused_call_name(number(1), number(2));
    const bool known = std::find(into.calls.begin(), into.calls.end(), name) != into.calls.end();
    if (!name.empty() && !known && into.calls.size() < kCalls) into.calls.push_back(name);
  } else if (words[0] == "left" && number(1) > 0) {
    into.left = std::max(into.left, static_cast<uint64_t>(number(1)));
  } else if (words[0] == "full" && words.size() == 2 &&
             (words[1] == "/tmp" || words[1] == "/dev/shm")) {
    into.notes.push_back("the candidate filled " + std::string(words[1]) +
                         ", which was its own and is gone");
  } else if (words[0] == "memory" && number(1) >= 0 && number(2) > 0 && number(3) > 0) {
    into.out_of_memory = "rank " + std::to_string(number(1)) + " held " +
                         bytes_text(static_cast<uint64_t>(number(2))) + " of the " +
                         bytes_text(static_cast<uint64_t>(number(3))) + " that a rank may have";
  }
}

}  // namespace

Incidents read_report(int fd) {
  std::string text;
  std::array<char, 4096> chunk;
  while (fd >= 0 && text.size() < kBytes) {
    const auto n = ::read(fd, chunk.data(), chunk.size());
    if (n <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
  return parse_report(std::string_view(text).substr(0, kBytes));
}

Incidents parse_report(std::string_view text) {
  Incidents incidents;
  for (const auto line : split(text, '\n')) {
    if (incidents.notes.size() < 8) add_line(line, incidents);
  }
  return incidents;
}

void add_cgroup_events(Incidents& incidents, const CgroupEvents& events, bool ended) {
  if (events.forks_refused > 0) {
    incidents.notes.push_back("the candidate started more processes than a job may have: " +
                              std::to_string(events.forks_refused) + " were refused");
  }
  if (events.memory_kills > 0 && incidents.out_of_memory.empty()) {
    incidents.out_of_memory = "the job held more memory than its control group allows, and " +
                              std::to_string(events.memory_kills) + " processes were killed";
  }
  if (ended) incidents.left = std::max(incidents.left, events.left);
}

void judge_incidents(const Incidents& incidents, RunResult& result) {
  result.notes.insert(result.notes.end(), incidents.notes.begin(), incidents.notes.end());
  if (incidents.left > 0) {
    result.notes.push_back("processes that outlived their rank were killed: " +
                           std::to_string(incidents.left));
  }
  if (!incidents.out_of_memory.empty()) {
    result.notes.push_back(incidents.out_of_memory);
    if (result.status == "CRASH") {
      result.status = "OOM";
      result.message = incidents.out_of_memory + " (" + result.message + ")";
      result.advice = "allocate less host memory";
    }
  }
  if (incidents.calls.empty() || result.status == "INTERNAL") return;
  const std::string before = result.status + (result.message.empty() ? "" : ": " + result.message);
  result.status = "CHEAT";
  result.message = "the candidate tried " + join(incidents.calls, ", ") +
                   ", which the sandbox refused (rule 8: banned calls); otherwise " + before;
  result.advice =
      "compute; a candidate has no business with other processes, the kernel or the "
      "network";
}

}  // namespace sculler::eval
