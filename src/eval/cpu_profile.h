// Where the time of a cpu candidate goes: counted bytes and operations against the measured rates
// of the machine, and exactly one bottleneck.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "task/profile.h"
#include "task/task.h"

namespace sculler::eval {

struct CpuMeasurement {
  double us = 0;  // median latency
  task::Work work{};
  bool latency_bound = false;              // as the task says
  std::optional<task::Ceiling> ceiling{};  // missing: no rates of this machine are known
  std::map<std::string, int64_t> facts{};  // of the compiler (vector_report.h)
  std::vector<std::string> remarks{};
};

struct CpuProfile {
  std::string bottleneck;  // "memory", "compute" or "latency"
  std::string why;         // one sentence
  double gbps = 0, gflops = 0;
  std::optional<double> percent_peak{};  // 100 * ceiling / us
  bool above = false;                    // the measured peak was exceeded: the ceiling is wrong
  std::vector<std::string> remarks{};

  [[nodiscard]] std::string json() const;  // an object as text, for the verdict's `profile`
};

[[nodiscard]] CpuProfile profile_cpu(const CpuMeasurement& measured);

}  // namespace sculler::eval
