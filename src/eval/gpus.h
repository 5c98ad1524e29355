// GPUs of this machine, asked of the driver in a child process: a context or a crash of the driver
// stays out of here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sculler::eval {

struct Gpu {
  std::string name;
  int major = 0, minor = 0;
  int sms = 0;
  uint64_t bytes = 0;
};

struct GpuReport {
  std::vector<Gpu> gpus;
  int driver = 0;       // CUDA version that the driver supports: 13000
  std::string problem;  // why there is none
};

// Call before threads are started: it forks.
[[nodiscard]] GpuReport probe_gpus();
// "90a" of compute capability 9.0; empty where there is no GPU.
[[nodiscard]] std::string gpu_arch(const GpuReport& report);

}  // namespace sculler::eval
