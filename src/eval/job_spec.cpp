#include "eval/job_spec.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/random.h"
#include "eval/weaken.h"

namespace sculler::eval {
namespace {

constexpr int64_t kStartMs = 20'000, kCudaStartMs = 60'000, kTeardownMs = 10'000;
constexpr uint64_t kStepLimit = 2'000'000'000;

nlohmann::json work_json(const task::Work& work) {
  return {{"flops", work.flops}, {"hbm_bytes", work.hbm_bytes}, {"link_bytes", work.link_bytes}};
}

}  // namespace

std::vector<Iteration> draw_iterations(uint64_t seed, int n_sets, int warm_up, int n) {
  Random random(seed, "sets");
  std::vector<Iteration> list;
  int previous = -1;
  for (int i = 0; i < warm_up + n; ++i) {
    int set = 0;
    if (n_sets > 1) {
      set = static_cast<int>(random.below(static_cast<uint64_t>(n_sets)));
      if (set == previous) set = (set + 1) % n_sets;
    }
    previous = set;
    list.push_back({.set = set, .warm_up = i < warm_up});
  }
  // The last comes back to the first one's set, with other inputs: what was kept from then is
  // wrong.
  if (list.size() >= 3 && list[list.size() - 2].set != list.front().set)
    list.back().set = list.front().set;
  return list;
}

Result<RunSpecs> build_specs(const Job& job, const task::Task& task, const RunPlan& plan,
                             const RunPaths& paths, int nccl_version, bool multicast_allowed,
                             int n_threads) {
  auto buffers = task.buffers(plan.problem);
  if (!buffers) return fail(buffers.error());
  auto tolerance = task.tolerance(plan.problem);
  if (!tolerance) return fail(tolerance.error());
  const bool workload = task.kind == task::Kind::kWorkload;
  const bool emu = plan.target == Target::kEmu;
  double budget_s = emu ? task.timeouts.emulate_s : task.timeouts.run_s;
  if (job.limit_s > 0) budget_s = std::min(budget_s, static_cast<double>(job.limit_s));
  const auto budget_ms = static_cast<int64_t>(budget_s * 1000);
  const int64_t start_ms = plan.target == Target::kCuda ? kCudaStartMs : kStartMs;

  nlohmann::json trusted_buffers = nlohmann::json::array(), rank_buffers = nlohmann::json::array();
  for (const auto& b : *buffers) {
    trusted_buffers.push_back({{"name", b.name},
                               {"role", task::role_name(b.role)},
                               {"dtype", task::dtype_name(b.dtype)},
                               {"elements", b.elements},
                               {"row_elements", b.row_elements},
                               {"bytes", b.bytes},
                               {"content", b.replicated ? "replicated" : "per_rank"},
                               {"family", plan.family}});
    if (b.positive) trusted_buffers.back()["positive"] = true;
    if (b.scale_milli != 0) trusted_buffers.back()["scale_milli"] = b.scale_milli;
    rank_buffers.push_back({{"name", b.name}, {"bytes", b.bytes}});
  }
  nlohmann::json iterations = nlohmann::json::array();
  const bool own_count = emu && job.schedule.iterations > 0;
  for (const auto& it : own_count
                            ? draw_iterations(plan.seed, plan.n_sets, 1, job.schedule.iterations)
                            : plan.iterations) {
    nlohmann::json entry{{"set", it.set}};
    if (it.warm_up) entry["warm_up"] = true;
    if (it.content >= 0) entry["content"] = it.content;
    if (it.delayed_rank >= 0) entry["delayed_rank"] = it.delayed_rank;
    if (it.delay_before_ns != 0) entry["delay_before_ns"] = it.delay_before_ns;
    if (it.delay_inside_ns != 0) entry["delay_inside_ns"] = it.delay_inside_ns;
    iterations.push_back(std::move(entry));
  }
  nlohmann::json spec{
      {"version", 1},
      {"job", job.id},
      {"target", target_name(plan.target)},
      {"mode", plan.bench ? "bench" : "check"},
      {"task", task.name},
      {"workload", workload},
      {"n_ranks", plan.problem.n_ranks},
      {"problem", {{"dims", plan.problem.dims}, {"names", task.dims}}},
      {"buffers", std::move(trusted_buffers)},
      {"n_sets", plan.n_sets},
      {"shift", plan.shift},
      {"seed", plan.seed >> 1},  // parsers take signed integers
      {"iterations", std::move(iterations)},
      {"tolerance", {{"relative_l2", tolerance->relative_l2}, {"max_abs", tolerance->max_abs}}},
      {"reference", paths.reference},
      {"reference_key", task.sha256},
      {"expected", paths.verify_backend},
      {"expected_cache", paths.expected_cache},
      {"deadlines_ms",
       {{"start", start_ms},
        {"setup", start_ms + budget_ms},
        {"iteration", budget_ms},
        {"teardown", kTeardownMs}}}};
  if (emu) {
    nlohmann::json schedule{
        {"kind", plan.schedule}, {"seed", plan.seed >> 1}, {"delayed_rank", plan.delayed_rank}};
    if (const JobSchedule& asked = job.schedule; !asked.kind.empty()) {
      schedule = {{"kind", asked.kind}, {"seed", asked.seed}, {"delayed_rank", asked.delayed_rank}};
    }
    spec["emu"] = {{"schedule", std::move(schedule)},
                   {"checks", plan.checks},
                   {"profile", paths.profile},
                   {"step_limit", kStepLimit}};
    if (job.nodes > 1) spec["emu"]["nodes"] = job.nodes;
    if (job.operations) spec["emu"]["footprint"] = true;
    if (plan.predict != nullptr) {
      auto there = task.work(*plan.predict);
      auto here = task.work(plan.problem);
      if (!there) return fail(there.error());
      if (!here) return fail(here.error());
      spec["emu"]["predict"] = {{"size", plan.predict->size},
                                {"dims", plan.predict->dims},
                                {"work", work_json(*there)},
                                {"work_emulated", work_json(*here)}};
    }
  } else if (plan.target == Target::kCuda) {
    nlohmann::json devices = nlohmann::json::array();
    for (int i = 0; i < plan.problem.n_ranks; ++i) devices.push_back(i);
    spec["cuda"] = {
        {"libraries", paths.libraries}, {"devices", devices}, {"flush_l2", plan.flush_l2}};
  }

  if (!job.checker.empty()) weaken(job.checker, plan.problem.n_ranks, spec);

  nlohmann::json rank{{"version", 1},
                      {"target", target_name(plan.target)},
                      {"n_ranks", plan.problem.n_ranks},
                      {"candidate", paths.candidate},
                      {"problem", {{"dims", plan.problem.dims}}},
                      {"n_sets", plan.n_sets},
                      {"shift", plan.shift},
                      {"buffers", std::move(rank_buffers)},
                      {"workload", workload},
                      {"n_threads", n_threads},
                      {"multicast_allowed", multicast_allowed}};
  if (plan.target != Target::kCpu) {
    rank["backend"] = paths.rank_backend;
    rank["expect_nccl"] = nccl_version;
    rank["libraries"] = paths.libraries;
  }
  RunSpecs out;
  out.job_json = dump_json(spec);
  out.rank_json = dump_json(rank);
  // Every step has its own deadline on the trusted side; this one catches the trusted side itself.
  out.timeout_ms = start_ms + (start_ms + budget_ms) + budget_ms + kTeardownMs;
  return out;
}

}  // namespace sculler::eval
