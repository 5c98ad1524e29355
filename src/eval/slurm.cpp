#include "eval/slurm.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/sha256.h"
#include "base/strings.h"
#include "eval/stopwatch.h"

namespace sculler::eval {
namespace {

constexpr int64_t kAskEveryMs = 5000;    // the states of nodes
constexpr int64_t kAskLaterMs = 20'000;  // where they cannot be asked
constexpr int64_t kAskTimeoutMs = 2000;  // a slot says nothing meanwhile
constexpr unsigned kCancelSeconds = 10;

bool is_srun(const std::string& word) { return word == "srun" || word.ends_with("/srun"); }

void replace_all(std::string& text, std::string_view what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// What Slurm's programs and the template's may need; what srun is given goes on to the nodes.
std::vector<std::pair<std::string, std::string>> step_environment() {
  std::vector<std::pair<std::string, std::string>> env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    env.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

}  // namespace

Result<std::vector<std::string>> srun_line(const SlurmOptions& options, int slot) {
  const auto bad = [&](std::string message, std::string cure) {
    return fail(
        Error{ErrorCode::kBadInput, std::move(message), "", "evaluator.srun", std::move(cure)});
  };
  const auto words = split_words(options.srun);
  if (!words) return bad("a quote is not closed", "close it");
  std::vector<std::string> line;
  bool found = false, placed = false;
  for (const auto& word : *words) {
    if (word == "{command}") {
      line.insert(line.end(), options.command.begin(), options.command.end());
      placed = true;
      continue;
    }
    std::string text = word;
    replace_all(text, "{slot}", std::to_string(slot));
    replace_all(text, "{name}", options.name);
    line.push_back(std::move(text));
    if (found || !is_srun(word)) continue;
    found = true;
    line.insert(line.end(), {"--nodes=1", "--ntasks=1", "--job-name=" + options.name});
  }
  if (!found)
    return bad("\"" + printable(shorten(options.srun, 80)) + "\" holds no word srun",
               "write srun with its options, as in docs/slurm.md");
  if (!placed) line.insert(line.end(), options.command.begin(), options.command.end());
  return line;
}

std::set<std::string> leaving_nodes(std::string_view sinfo) {
  std::set<std::string> out;
  for (const auto line : split(sinfo, '\n')) {
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string state = to_lower(trim(line.substr(blank)));
    for (const std::string_view word :
         {"drain", "down", "fail", "reboot", "maint", "powering_down", "power_down"}) {
      if (state.find(word) != std::string::npos) out.emplace(line.substr(0, blank));
    }
  }
  return out;
}

std::string steps_name(const std::string& spool) {
  // One name for guardian and worker: first asked for before they part.
  static const std::string unique = std::to_string(::getpid()) + " " + std::to_string(now_ms());
  return "sculler-" + sha256_hex(spool.empty() ? unique : spool).substr(0, 12);
}

void cancel_steps(const std::string& name) {
  const std::string option = "--name=" + name, user = std::to_string(::getuid());
  const std::string of = "--user=" + user;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kCancelSeconds);  // slurmctld may be away
    ::execlp("scancel", "scancel", "--quiet", option.c_str(), of.c_str(), nullptr);
    ::_exit(127);
  }
  if (child < 0) return;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
}

Result<std::unique_ptr<Child>> SlurmStarter::start(int slot) {
  auto line = srun_line(options_, slot);
  if (!line) return fail(line.error());
  cancel_dead();  // it may hold the place
  SpawnOptions step;
  step.argv = std::move(*line);
  step.env = step_environment();
  step.in = Stdio::pipe();
  return processes_.spawn(step);
}

bool SlurmStarter::leaving(const std::string& node) {
  {
    const std::lock_guard lock(mutex_);
    if (asking_ || now_ms() - asked_ms_ < wait_ms_) return leaving_.contains(node);
    asking_ = true;
  }
  SpawnOptions ask;
  ask.argv = {"sinfo", "--noheader", "--Node", "--format=%N %T"};
  ask.env = step_environment();
  auto answer = run_command(processes_, ask, "", kAskTimeoutMs, uint64_t{4} << 20);
  const bool known = answer && answer->status.ok();
  if (known) cancel_dead();
  const std::lock_guard lock(mutex_);
  asking_ = false;
  asked_ms_ = now_ms();
  wait_ms_ = known ? kAskEveryMs : kAskLaterMs;
  if (known) leaving_ = leaving_nodes(answer->out);
  return leaving_.contains(node);
}

void SlurmStarter::failed(const SlotHello& hello) {
  if (hello.step.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    dead_.insert(hello.step);
  }
  cancel_dead();
}

// Where a node died, nobody else tells the controller that the allocation is worth nothing.
void SlurmStarter::cancel_dead() {
  std::set<std::string> dead;
  {
    const std::lock_guard lock(mutex_);
    dead.swap(dead_);
  }
  for (const auto& step : dead) {
    // Its own allocation has our name; one that was there before has not, and keeps its other
    // steps.
    const std::vector<std::vector<std::string>> lines{
        {"scancel", step}, {"scancel", "--name=" + options_.name, step.substr(0, step.find('.'))}};
    for (const auto& words : lines) {
      SpawnOptions cancel;
      cancel.argv = words;
      cancel.env = step_environment();
      const auto done = run_command(processes_, cancel, "", kAskTimeoutMs, 4096);
      if (!done || (!done->status.timed_out && !may_pass(done->err))) continue;
      const std::lock_guard lock(mutex_);
      dead_.insert(step);  // the controller is away: again later
      break;
    }
  }
}

// Words of Slurm 20 to 24 where its controller, a node or the network is away for a while.
bool SlurmStarter::may_pass(const std::string& words) const {
  static constexpr std::array<std::string_view, 9> kAway{
      "unable to contact", "connection refused", "connection timed out",
      "timed out",         "unable to connect",  "zero bytes",
      "communication",     "try again",          "node failure"};
  const std::string text = to_lower(words);
  return std::any_of(kAway.begin(), kAway.end(),
                     [&](const auto word) { return text.find(word) != std::string::npos; });
}

}  // namespace sculler::eval
