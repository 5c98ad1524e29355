#include "eval/noise.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::eval {
namespace {

constexpr const char* kPlantedCpu = R"(
#undef sculler_run
#include <ctime>
namespace sculler_planted {
// In ticks: what is read must not cost what is planted, with cold caches least of all.
inline long long now() {
#if defined(__x86_64__)
  return static_cast<long long>(__builtin_ia32_rdtsc());
#endif
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
}
extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  const long long start = sculler_planted::now();
  const int code = sculler_run_of_candidate(state, problem, set);
  const long long spent = sculler_planted::now() - start;
  const long long until = start + spent + static_cast<long long>(SCULLER_PLANTED * static_cast<double>(spent));
  while (sculler_planted::now() < until) {}
  return code;
}
)";

// The event times of earlier runs say how long the candidate takes; the kernel's own launch costs
// about 1.5 us of what is to be spent.
constexpr const char* kPlantedCuda = R"(
#undef sculler_run
#undef sculler_setup
#include <cuda_runtime.h>
#include <algorithm>
#include <vector>
namespace sculler_planted {
static cudaStream_t stream = nullptr;
static cudaEvent_t before = nullptr, after = nullptr;
static bool recorded = false;
static std::vector<float> seen;
__global__ void wait(unsigned long long ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - begin < ns);
}
}
extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  namespace p = sculler_planted;
  p::stream = static_cast<cudaStream_t>(rank->stream);
  if (cudaEventCreate(&p::before) != cudaSuccess || cudaEventCreate(&p::after) != cudaSuccess) return SCULLER_ERROR;
  return sculler_setup_of_candidate(rank, problem, pool, state);
}
extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  namespace p = sculler_planted;
  float ms = 0;
  if (p::recorded && cudaEventElapsedTime(&ms, p::before, p::after) == cudaSuccess && p::seen.size() < 64) p::seen.push_back(ms);
  if (cudaEventRecord(p::before, p::stream) != cudaSuccess) return SCULLER_ERROR;
  const int code = sculler_run_of_candidate(state, problem, set);
  if (code != SCULLER_OK) return code;
  if (cudaEventRecord(p::after, p::stream) != cudaSuccess) return SCULLER_ERROR;
  p::recorded = true;
  if (p::seen.empty()) return code;
  std::vector<float> sorted = p::seen;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<long>(sorted.size() / 2), sorted.end());
  const double ns = SCULLER_PLANTED * 1e6 * static_cast<double>(sorted[sorted.size() / 2]) - 1500.0;
  if (ns > 0) p::wait<<<1, 1, 0, p::stream>>>(static_cast<unsigned long long>(ns));
  return cudaGetLastError() == cudaSuccess ? SCULLER_OK : SCULLER_ERROR;
}
)";

std::string percent(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * fraction);
  return text;
}

std::string rate_line(const NoiseReport& report, std::string_view kind, std::string_view what) {
  const CallRate r = call_rate(report, kind);
  if (r.n == 0) return {};
  std::vector<double> rounds, ms, points;
  for (const auto& one : report.cases) {
    if (one.kind != kind) continue;
    rounds.push_back(one.rounds);
    ms.push_back(one.ms);
    points.push_back(std::abs(std::log(one.ratio.median)));
  }
  const double most = *std::max_element(points.begin(), points.end());
  double total = 0;
  for (const double one : ms) total += one;
  char text[320];
  std::snprintf(
      text, sizeof text,
      "%-28s %3d of %3d called (%5.1f %%, Wilson 95 %%: %.1f to %.1f %%)%s; |ln ratio| "
      "median %s, largest %s; rounds median %.0f; %.2f s a verdict",
      std::string(what).c_str(), r.called, r.n, 100 * r.rate.median, 100 * r.rate.low,
      100 * r.rate.high,
      r.wrong_way > 0 ? (", " + std::to_string(r.wrong_way) + " the wrong way").c_str() : "",
      percent(median(points)).c_str(), percent(most).c_str(), median(rounds),
      total / 1000 / static_cast<double>(r.n));
  return std::string(text) + "\n";
}

}  // namespace

Result<NoisePlan> parse_noise(std::string_view job_text, std::string_view origin) {
  auto object = parse_json(job_text, origin);
  if (!object) return fail(object.error());
  NoisePlan plan;
  const auto* noise = find_member(*object, "noise");
  if (noise == nullptr || !noise->is_object()) return plan;
  const auto count = [&](std::string_view key, int fallback, int most) {
    return static_cast<int>(std::clamp<int64_t>(int_or(*noise, key, fallback), 0, most));
  };
  plan.calibrate = count("calibrate", plan.calibrate, 10'000);
  plan.aa = count("aa", plan.aa, 100'000);
  plan.planted_n = count("planted_n", plan.planted_n, 100'000);
  plan.per_pair = std::max(1, count("per_pair", plan.per_pair, 1000));
  plan.planted = std::clamp(number_or(*noise, "planted", 0), 0.0, 10.0);
  plan.seconds = std::max(0.0, number_or(*noise, "seconds", 0));
  plan.programs = bool_or(*noise, "programs", false);
  if (plan.planted_n > 0 && plan.planted <= 0) {
    return fail(Error{ErrorCode::kBadInput, "planted_n asks for a slowdown that is not given",
                      std::string(origin), "noise.planted", "Give a fraction, 0.05 for 5 %."});
  }
  return plan;
}

std::string print_noise(const NoisePlan& p) {
  return dump_json({{"calibrate", p.calibrate},
                    {"aa", p.aa},
                    {"planted", p.planted},
                    {"planted_n", p.planted_n},
                    {"per_pair", p.per_pair},
                    {"seconds", p.seconds},
                    {"programs", p.programs}});
}

CallRate call_rate(const NoiseReport& report, std::string_view kind) {
  CallRate out;
  for (const auto& one : report.cases) {
    if (one.kind != kind) continue;
    ++out.n;
    const bool planted = kind == "planted";
    if (one.call == "SLOWER" || (!planted && one.call == "FASTER")) ++out.called;
    if (planted && one.call == "FASTER") ++out.wrong_way;
  }
  out.rate = wilson(out.called, out.n);
  return out;
}

std::string noise_text(const NoiseReport& r, const NoisePlan& plan, std::string_view target,
                       std::string_view task, std::string_view size) {
  if (!r.problem.empty()) return "no measurement: " + r.problem + "\n";
  std::string out = "target " + std::string(target) + ", task " + std::string(task) + " at size " +
                    std::string(size) + "; clocks " + r.clocks + "\n";
  out += "margin " + percent(r.margin) + " (" + r.margin_from + ")\n";
  out += rate_line(r, "calibrate", "A/A, calibration");
  out += rate_line(r, "aa", "A/A");
  out += rate_line(r, "planted", "planted " + percent(plan.planted));
  double start = 0;
  for (const double ms : r.pair_start_ms) start += ms;
  char text[160];
  const double n = std::max<double>(1, static_cast<double>(r.cases.size()));
  std::snprintf(text, sizeof text,
                "%zu pairs of groups, %.1f s to start one; %.1f s in all, %.3f min a verdict\n",
                r.pair_start_ms.size(),
                start / 1000 / std::max<double>(1, static_cast<double>(r.pair_start_ms.size())),
                r.ms / 1000, r.ms / 60'000 / n);
  return out + text;
}

std::string noise_json(const NoiseReport& r, const NoisePlan& plan) {
  nlohmann::json cases = nlohmann::json::array();
  for (const auto& c : r.cases) {
    cases.push_back({{"kind", c.kind},
                     {"program", c.program},
                     {"pair", c.pair},
                     {"ratio", c.ratio.median},
                     {"low", c.ratio.low},
                     {"high", c.ratio.high},
                     {"call", c.call},
                     {"rounds", c.rounds},
                     {"ms", c.ms}});
  }
  nlohmann::json rates = nlohmann::json::object();
  for (const char* kind : {"calibrate", "aa", "planted"}) {
    const CallRate rate = call_rate(r, kind);
    if (rate.n == 0) continue;
    rates[kind] = {{"called", rate.called},       {"n", rate.n},
                   {"wrong_way", rate.wrong_way}, {"rate", rate.rate.median},
                   {"low", rate.rate.low},        {"high", rate.rate.high}};
  }
  return dump_json({{"version", 1},
                    {"problem", r.problem},
                    {"plan", nlohmann::json::parse(print_noise(plan))},
                    {"margin", r.margin},
                    {"calibrated", r.calibrated},
                    {"rates", rates},
                    {"pair_start_ms", r.pair_start_ms},
                    {"ms", r.ms},
                    {"clocks", nlohmann::json::parse(r.clocks, nullptr, false)},
                    {"cases", cases}});
}

std::string planted_source(std::string_view text, double fraction, bool cuda) {
  char number[32];
  std::snprintf(number, sizeof number, "%.6f", fraction);
  std::string out = "#define SCULLER_PLANTED " + std::string(number) + "\n";
  out += "#define sculler_run sculler_run_of_candidate\n";
  if (cuda) out += "#define sculler_setup sculler_setup_of_candidate\n";
  out += "#line 1\n";
  out += text;
  return out + (cuda ? kPlantedCuda : kPlantedCpu);
}

}  // namespace sculler::eval
