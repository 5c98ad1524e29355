// What the machine's clocks and its load were around a measurement: recorded, never set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"

namespace sculler::eval {

struct GpuClocks {
  int sm_mhz = 0, memory_mhz = 0;  // 0: not known
  int celsius = 0;
  uint64_t slowdown = 0;  // NVML's reasons: kPowerCap ... of what holds the clock down now
};

struct ClockReading {
  double mhz_low = 0, mhz_mean = 0, mhz_high = 0;  // of the cores, /proc/cpuinfo; 0: not known
  double load = 0;                                 // of the last minute, /proc/loadavg
  std::vector<GpuClocks> gpus{};
};

class ClockReader {
 public:
  virtual ~ClockReader() = default;
  [[nodiscard]] virtual ClockReading read(bool gpus) = 0;
};

// /proc and, for GPUs, NVML where the driver brings it.
class SystemClocks final : public ClockReader {
 public:
  explicit SystemClocks(Files& files) : files_(files) {}
  ~SystemClocks() override;
  SystemClocks(const SystemClocks&) = delete;
  SystemClocks& operator=(const SystemClocks&) = delete;
  [[nodiscard]] ClockReading read(bool gpus) override;

 private:
  [[nodiscard]] std::vector<GpuClocks> read_gpus();
  Files& files_;
  void* nvml_ = nullptr;
  bool tried_ = false;
};

// The "cpu MHz" lines of /proc/cpuinfo into a reading.
void read_cpuinfo(std::string_view text, ClockReading& into);
// One JSON object.
[[nodiscard]] std::string clocks_json(const ClockReading& reading);
// Why the clocks were held down, "power, heat"; empty: they were not.
[[nodiscard]] std::string slowdown_text(const ClockReading& reading);

}  // namespace sculler::eval
