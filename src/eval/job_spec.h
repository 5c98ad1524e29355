// Builds what the two sides of a group read: job.json for the trusted process, rank.json for the
// ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "eval/job.h"
#include "eval/sandbox.h"
#include "task/profile.h"
#include "task/task.h"

namespace sculler::eval {

struct Iteration {
  int set = 0;
  bool warm_up = false;
  int content = -1;       // which inputs; -1: drawn
  int delayed_rank = -1;  // this rank alone sleeps, for the whole of the bounds
  uint64_t delay_before_ns = 0, delay_inside_ns = 0;  // upper bounds that ranks draw below
};

// One run of one artifact.
struct RunPlan {
  Target target = Target::kEmu;  // of the group: the emulate stage of a cuda job runs on emu
  bool bench = false;
  task::Problem problem;
  std::string family = "normal";
  uint64_t seed = 1;
  std::vector<Iteration> iterations;
  int n_sets = 8;
  bool flush_l2 = false;
  uint64_t shift = 0;  // bytes by which every buffer lies behind the begin of its allocation
  std::string schedule = "random";  // emu: round_robin, random, priority, delay_rank
  int delayed_rank = 0;
  std::vector<std::string> checks{"race", "init", "bounds", "deadlock"};
  const task::Problem* predict = nullptr;
  Environment env{};  // of the ranks, added
};

struct RunPaths {
  std::string candidate, rank_backend, verify_backend, reference;
  std::string expected_cache;
  std::string profile;
  std::vector<std::string> libraries;
};

struct RunSpecs {
  std::string job_json, rank_json;
  int64_t timeout_ms = 0;  // for the whole of a check; bench: until the group is ready
};

// Fails where a formula of the task does.
[[nodiscard]] Result<RunSpecs> build_specs(const Job& job, const task::Task& task,
                                           const RunPlan& plan, const RunPaths& paths,
                                           int nccl_version, bool multicast_allowed, int n_threads);

// `n` iterations over sets drawn from `seed`, never the same set twice in a row, the last
// that of the first where it can be; the first `warm_up` are marked.
[[nodiscard]] std::vector<Iteration> draw_iterations(uint64_t seed, int n_sets, int warm_up, int n);

}  // namespace sculler::eval
