#include "eval/gpus.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::eval {
namespace {

constexpr int kProbeMs = 30'000;
// CUdevice_attribute values of cuda.h.
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

// In the child: one JSON line.
std::string ask_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return R"({"problem":"no NVIDIA driver: libcuda.so.1 is not here"})";
  const auto init = symbol<int (*)(unsigned)>(driver, "cuInit");
  const auto version = symbol<int (*)(int*)>(driver, "cuDriverGetVersion");
  const auto count = symbol<int (*)(int*)>(driver, "cuDeviceGetCount");
  const auto name = symbol<int (*)(char*, int, int)>(driver, "cuDeviceGetName");
  const auto attribute = symbol<int (*)(int*, int, int)>(driver, "cuDeviceGetAttribute");
  const auto memory = symbol<int (*)(size_t*, int)>(driver, "cuDeviceTotalMem_v2");
  if (init == nullptr || version == nullptr || count == nullptr || name == nullptr ||
      attribute == nullptr || memory == nullptr) {
    return R"({"problem":"libcuda.so.1 lacks entry points"})";
  }
  if (const int error = init(0); error != 0) {
    return dump_json({{"problem", "cuInit failed with error " + std::to_string(error)}});
  }
  int driver_version = 0, n = 0;
  version(&driver_version);
  count(&n);
  nlohmann::json list = nlohmann::json::array();
  for (int i = 0; i < n; ++i) {
    std::array<char, 128> text{};
    int major = 0, minor = 0, sms = 0;
    size_t bytes = 0;
    name(text.data(), static_cast<int>(text.size()) - 1, i);
    attribute(&major, kMajor, i);
    attribute(&minor, kMinor, i);
    attribute(&sms, kMultiprocessors, i);
    memory(&bytes, i);
    list.push_back({{"name", text.data()},
                    {"major", major},
                    {"minor", minor},
                    {"sms", sms},
                    {"bytes", bytes}});
  }
  return dump_json({{"driver", driver_version}, {"gpus", list}});
}

}  // namespace

GpuReport probe_gpus() {
  GpuReport report;
  std::array<int, 2> fds{};
  if (::pipe(fds.data()) != 0) {
    report.problem = std::strerror(errno);
    return report;
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(fds[0]);
    ::close(fds[1]);
    report.problem = std::strerror(errno);
    return report;
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::close(fds[0]);
    const std::string line = ask_driver();
    std::size_t done = 0;
    while (done < line.size()) {
      const auto n = ::write(fds[1], line.data() + done, line.size() - done);
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    ::_exit(0);
  }
  ::close(fds[1]);
  std::string text;
  for (;;) {
    pollfd wait{fds[0], POLLIN, 0};
    if (::poll(&wait, 1, kProbeMs) <= 0) {
      report.problem = "the driver did not answer within 30 s";
      break;
    }
    std::array<char, 4096> buffer;
    const auto n = ::read(fds[0], buffer.data(), buffer.size());
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > 65536) break;
  }
  ::close(fds[0]);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (!report.problem.empty()) return report;
  auto parsed = parse_json(text, "driver");
  if (!parsed) {
    report.problem = "the driver crashed when it was asked for devices";
    return report;
  }
  report.problem = string_or(*parsed, "problem", "");
  report.driver = static_cast<int>(int_or(*parsed, "driver", 0));
  if (const auto* list = find_member(*parsed, "gpus"); list != nullptr && list->is_array()) {
    for (const auto& g : *list) {
      report.gpus.push_back(
          {printable(string_or(g, "name", "")), static_cast<int>(int_or(g, "major", 0)),
           static_cast<int>(int_or(g, "minor", 0)), static_cast<int>(int_or(g, "sms", 0)),
           static_cast<uint64_t>(int_or(g, "bytes", 0))});
    }
  }
  if (report.problem.empty() && report.gpus.empty()) report.problem = "the driver sees no GPU";
  return report;
}

std::string gpu_arch(const GpuReport& report) {
  if (report.gpus.empty()) return "";
  const auto& gpu = report.gpus[0];
  const std::string number = std::to_string(gpu.major * 10 + gpu.minor);
  return gpu.major >= 9 ? number + "a"
                        : number;  // the architecture-specific features are what kernels are for
}

}  // namespace sculler::eval
