#include "eval/clocks.h"

#include <dlfcn.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::eval {
namespace {

// nvml.h's numbers: part of its binary interface since NVML 2.
constexpr int kSmClock = 1, kMemoryClock = 2, kTemperatureOfGpu = 0;
constexpr uint64_t kPowerCap = 0x4, kSlowdown = 0x8, kHeat = 0x20, kHardHeat = 0x40,
                   kPowerBrake = 0x80;

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

void read_cpuinfo(std::string_view text, ClockReading& into) {
  int n = 0;
  double sum = 0;
  for (const auto line : split(text, '\n')) {
    if (!line.starts_with("cpu MHz")) continue;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto mhz = parse_double(trim(line.substr(colon + 1)));
    if (!mhz || *mhz <= 0) continue;
    into.mhz_low = n == 0 ? *mhz : std::min(into.mhz_low, *mhz);
    into.mhz_high = std::max(into.mhz_high, *mhz);
    sum += *mhz;
    ++n;
  }
  if (n > 0) into.mhz_mean = sum / n;
}

SystemClocks::~SystemClocks() {
  if (nvml_ == nullptr) return;
  if (auto* shutdown = symbol<int (*)()>(nvml_, "nvmlShutdown"); shutdown != nullptr) shutdown();
  // Stays mapped: the library keeps threads of its own.
}

std::vector<GpuClocks> SystemClocks::read_gpus() {
  if (!tried_) {
    tried_ = true;
    nvml_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml_ != nullptr) {
      auto* init = symbol<int (*)()>(nvml_, "nvmlInit_v2");
      if (init == nullptr || init() != 0) nvml_ = nullptr;
    }
  }
  if (nvml_ == nullptr) return {};
  using Device = void*;
  auto* count = symbol<int (*)(unsigned*)>(nvml_, "nvmlDeviceGetCount_v2");
  auto* handle = symbol<int (*)(unsigned, Device*)>(nvml_, "nvmlDeviceGetHandleByIndex_v2");
  auto* clock = symbol<int (*)(Device, int, unsigned*)>(nvml_, "nvmlDeviceGetClockInfo");
  auto* heat = symbol<int (*)(Device, int, unsigned*)>(nvml_, "nvmlDeviceGetTemperature");
  auto* why = symbol<int (*)(Device, unsigned long long*)>(
      nvml_, "nvmlDeviceGetCurrentClocksThrottleReasons");
  unsigned n = 0;
  std::vector<GpuClocks> out;
  if (count == nullptr || handle == nullptr || clock == nullptr || count(&n) != 0) return out;
  for (unsigned i = 0; i < std::min(n, 16U); ++i) {
    Device device = nullptr;
    if (handle(i, &device) != 0) continue;
    GpuClocks g;
    unsigned value = 0;
    unsigned long long reasons = 0;
    if (clock(device, kSmClock, &value) == 0) g.sm_mhz = static_cast<int>(value);
    if (clock(device, kMemoryClock, &value) == 0) g.memory_mhz = static_cast<int>(value);
    if (heat != nullptr && heat(device, kTemperatureOfGpu, &value) == 0)
      g.celsius = static_cast<int>(value);
    if (why != nullptr && why(device, &reasons) == 0) g.slowdown = reasons;
    out.push_back(g);
  }
  return out;
}

ClockReading SystemClocks::read(bool gpus) {
  ClockReading out;
  if (auto text = files_.read("/proc/cpuinfo", uint64_t{4} << 20)) read_cpuinfo(*text, out);
  if (auto text = files_.read("/proc/loadavg", 4096))
    out.load = parse_double(text->substr(0, text->find(' '))).value_or(0);
  if (gpus) out.gpus = read_gpus();
  return out;
}

std::string slowdown_text(const ClockReading& reading) {
  uint64_t all = 0;
  for (const auto& g : reading.gpus) all |= g.slowdown;
  std::vector<std::string> why;
  if ((all & (kHeat | kHardHeat)) != 0) why.emplace_back("heat");
  if ((all & (kPowerCap | kPowerBrake)) != 0) why.emplace_back("power");
  if ((all & kSlowdown) != 0) why.emplace_back("hardware slowdown");
  return join(why, ", ");
}

std::string clocks_json(const ClockReading& r) {
  nlohmann::json object{{"load", r.load}};
  if (r.mhz_mean > 0)
    object["cpu_mhz"] = {{"low", r.mhz_low}, {"mean", r.mhz_mean}, {"high", r.mhz_high}};
  for (const auto& g : r.gpus) {
    object["gpus"].push_back({{"sm_mhz", g.sm_mhz},
                              {"memory_mhz", g.memory_mhz},
                              {"celsius", g.celsius},
                              {"slowdown", g.slowdown}});
  }
  return dump_json(object);
}

}  // namespace sculler::eval
