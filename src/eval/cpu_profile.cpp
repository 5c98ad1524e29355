#include "eval/cpu_profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sculler::eval {
namespace {

// From this share of a rate on, that rate is what holds a program back.
constexpr double kSaturated = 0.5;
// A float32 machine does about so many operations in the time of one byte, where nothing better is
// known.
constexpr double kBalance = 8;
// Above this a figure is no noise of the ceiling.
constexpr double kAbove = 1.02;

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * part);
  return text;
}

double rounded(double value) {
  const double scale = std::pow(10.0, 3 - std::ceil(std::log10(std::max(std::abs(value), 1e-9))));
  return std::round(value * scale) / scale;
}

void name_bottleneck(const CpuMeasurement& m, CpuProfile& out) {
  const double flops = m.work.flops + m.work.flops_vec;
  const auto scalar = m.facts.find("vector_bits");
  const bool vectors = scalar != m.facts.end() && scalar->second >= 256;
  if (m.latency_bound) {
    out.bottleneck = "latency";
    out.why = "each step of the task needs the one before it, so full rates cannot be reached";
    return;
  }
  if (!m.ceiling) {
    const bool memory = flops < kBalance * m.work.hbm_bytes;
    out.bottleneck = memory ? "memory" : "compute";
    out.why = std::string("by operations a byte alone: no rates of this machine are known") +
              " (sculler bench ceilings measures them)";
    return;
  }
  const double memory = m.ceiling->memory_us / m.us;
  const double compute = std::max(m.ceiling->product_us, m.ceiling->vector_us) / m.us;
  if (memory >= compute && memory >= kSaturated) {
    out.bottleneck = "memory";
    out.why = percent(memory) + " of the memory's measured rate";
  } else if (compute >= kSaturated) {
    out.bottleneck = "compute";
    out.why = percent(compute) + " of the arithmetic units' measured rate";
  } else if (!vectors) {
    out.bottleneck = "compute";
    out.why = percent(compute) + " of the arithmetic units' rate and " + percent(memory) +
              " of the memory's: the code uses no wide vectors";
  } else {
    out.bottleneck = "latency";
    out.why = percent(memory) + " of the memory's measured rate and " + percent(compute) +
              " of the arithmetic units': neither is busy, so something waits (dependent steps, "
              "misses, calls, idle threads)";
  }
}

}  // namespace

CpuProfile profile_cpu(const CpuMeasurement& m) {
  CpuProfile out;
  if (!(m.us > 0)) return out;
  out.gbps = m.work.hbm_bytes / m.us / 1e3;
  out.gflops = (m.work.flops + m.work.flops_vec) / m.us / 1e3;
  if (m.ceiling) {
    out.percent_peak = 100 * m.ceiling->us / m.us;
    out.above = m.ceiling->us > kAbove * m.us;
  }
  out.remarks = m.remarks;
  name_bottleneck(m, out);
  return out;
}

std::string CpuProfile::json() const {
  nlohmann::json object{{"bottleneck", bottleneck},
                        {"why", why},
                        {"gb_s", rounded(gbps)},
                        {"gflop_s", rounded(gflops)},
                        {"remarks", remarks}};
  if (percent_peak) object["percent_peak"] = rounded(*percent_peak);
  return dump_json(object);
}

}  // namespace sculler::eval
