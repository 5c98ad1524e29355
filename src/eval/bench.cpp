#include "eval/bench.h"

#include <algorithm>

namespace sculler::eval {
namespace {

struct Runner {
  std::string name;
  std::unique_ptr<Group> group;
};

// What a dead group's end says, or the failure itself. Without a deadline it is the trusted process
// that went away: one that sees a rank die says so.
RunResult failure(Group& group, const Error& error) {
  auto outcome = group.finish(200);
  outcome.timed_out = outcome.timed_out || error.code == ErrorCode::kTimeout;
  RunResult result = result_of(outcome);
  if (result.passed()) {  // the last line was a good one: what failed came after it
    result.status = error.code == ErrorCode::kTimeout ? "TIMEOUT" : "INTERNAL";
    result.message = error.text();
    if (!outcome.timed_out) result.message += " (" + outcome.trusted.text() + ")";
  }
  return result;
}

}  // namespace

BenchOutcome run_bench(Launcher& launcher, const std::vector<Contestant>& contestants,
                       const BenchPlan& plan) {
  BenchOutcome out;
  std::vector<Runner> runners;
  const auto lose = [&](const std::string& name, RunResult result) {
    if (name == contestants[0].name) {
      out.candidate = std::move(result);
    } else {
      out.failed[name] = result.status + ": " + result.message;
    }
  };
  // Asks one group for `n` iterations; true where all were verified. Samples are kept where `keep`.
  const auto turn = [&](Runner& runner, int n, int64_t timeout_ms, bool keep) {
    auto line = runner.group->ask("go " + std::to_string(n), timeout_ms);
    RunResult result = line ? parse_result(*line) : failure(*runner.group, line.error());
    if (!line && result.status == "INTERNAL") out.our_failure = true;
    if (!result.passed()) {
      lose(runner.name, std::move(result));
      return false;
    }
    if (keep) {
      auto& samples = out.samples_us[runner.name];
      samples.insert(samples.end(), result.latency_us.begin(), result.latency_us.end());
      if (runner.name == contestants[0].name) {
        out.rank_us.insert(out.rank_us.end(), result.rank_us.begin(), result.rank_us.end());
      }
    }
    if (runner.name == contestants[0].name) out.candidate = std::move(result);
    return true;
  };

  for (const auto& contestant : contestants) {
    auto group = launcher.start(contestant.spec);
    if (!group) {
      RunResult result;
      result.message = group.error().text();
      lose(contestant.name, std::move(result));
    } else {
      Runner runner{contestant.name, std::move(*group)};
      if (turn(runner, std::max(1, plan.warm_up), plan.ready_ms, false))
        runners.push_back(std::move(runner));
    }
    if (runners.empty())
      return out;  // the candidate is first: without it there is nothing to compare
  }
  for (int round = 0; round < plan.rounds; ++round) {
    if (round % 2 == 1) std::reverse(runners.begin(), runners.end());
    for (auto at = runners.begin(); at != runners.end();) {
      if (turn(*at, plan.iterations, plan.round_ms, true)) {
        ++at;
        continue;
      }
      if (at->name == contestants[0].name) return out;
      out.samples_us.erase(at->name);
      at = runners.erase(at);
    }
    if (round % 2 == 1) std::reverse(runners.begin(), runners.end());
  }
  for (auto& runner : runners) {
    (void)runner.group->ask("quit", 1000);
    const auto ended = runner.group->finish(3000);
    if (runner.name == contestants[0].name) judge_incidents(ended.incidents, out.candidate);
  }
  return out;
}

}  // namespace sculler::eval
