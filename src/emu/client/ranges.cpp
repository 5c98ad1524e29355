// The rank's view of the VM's address ranges, and the handler that names a host access to device
// memory.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emu/client/client.h"
#include "emu/client/connection.h"
#include "emu/vm/memory.h"

namespace sculler::emu::client {
namespace {

int g_rank = -1;
struct sigaction g_previous[2];

// Sends ReportHostAccess from a fixed buffer and waits a moment for the answer, so that the VM has
// it before the death.
void report(uint64_t address, bool is_write, const char* where) {
  const int fd = any_socket();
  if (fd < 0) return;
  uint8_t buffer[sizeof(wire::Header) + 8 + 1 + 4 + 256];
  const auto text = static_cast<uint32_t>(std::min<std::size_t>(std::strlen(where), 256));
  wire::Header header;
  header.op = wire::Op::kReportHostAccess;
  header.bytes = 8 + 1 + 4 + text;
  uint8_t* at = buffer;
  const auto put = [&at](const void* data, std::size_t bytes) {
    std::memcpy(at, data, bytes);
    at += bytes;
  };
  put(&header, sizeof header);
  put(&address, sizeof address);
  const uint8_t write_byte = is_write ? 1 : 0;
  put(&write_byte, 1);
  put(&text, sizeof text);
  put(where, text);
  if (::send(fd, buffer, static_cast<std::size_t>(at - buffer), MSG_NOSIGNAL) < 0) return;
  pollfd poll_one{fd, POLLIN, 0};
  ::poll(&poll_one, 1, 2000);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (is_device(address)) {
    const auto* uc = static_cast<const ucontext_t*>(context);
    const bool is_write = (uc->uc_mcontext.gregs[REG_ERR] & 2) != 0;
    const auto pc = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_RIP]);
    char where[256] = "unknown code";
    Dl_info module{};
    if (::dladdr(reinterpret_cast<void*>(pc), &module) != 0 && module.dli_fname != nullptr) {
      const char* slash = std::strrchr(module.dli_fname, '/');
      const char* name = slash != nullptr ? slash + 1 : module.dli_fname;
      if (is_candidate(module.dli_fname)) name = wire::kCandidateName;
      // One further, as if it were a return address.
      std::snprintf(
          where, sizeof where, "%s in %s+0x%llx",
          module.dli_sname != nullptr ? module.dli_sname : "code", name,
          static_cast<unsigned long long>(pc + 1 - reinterpret_cast<uint64_t>(module.dli_fbase)));
    }
    char line[400];
    const int n =
        std::snprintf(line, sizeof line, "sculler: host %s of device memory at 0x%llx (%s)\n",
                      is_write ? "write" : "read", static_cast<unsigned long long>(address), where);
    [[maybe_unused]] const auto written = ::write(2, line, static_cast<std::size_t>(n));
    report(address, is_write, where);
  }
  // The faulting instruction runs again under whatever handled faults before us.
  ::sigaction(signal, &g_previous[signal == SIGBUS ? 1 : 0], nullptr);
}

}  // namespace

void set_up_ranges(const wire::HelloReply& world, int host_fd) {
  g_rank = world.rank;
  // Addresses that the kernel does not hand out by itself; the reservation keeps explicit mappings
  // away. Where a limit on address space forbids it, an access faults all the same.
  ::mmap(reinterpret_cast<void*>(kDeviceBase), kRankStride * kMaxRanks, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (host_fd >= 0) {
    struct stat info{};
    if (::fstat(host_fd, &info) == 0 && info.st_size > 0) {
      const auto bytes = std::min<uint64_t>(static_cast<uint64_t>(info.st_size), kRankStride);
      auto* want =
          reinterpret_cast<void*>(kHostBase + static_cast<uint64_t>(world.rank) * kRankStride);
      void* got = ::mmap(want, bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, host_fd, 0);
      if (got != want)
        std::fprintf(stderr,
                     "sculler: pinned memory cannot be mapped at its address in this process\n");
    }
    ::close(host_fd);
  }
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, &g_previous[0]);
  ::sigaction(SIGBUS, &action, &g_previous[1]);
}

bool is_device(uint64_t address) {
  return address >= kDeviceBase && address < kDeviceBase + kRankStride * kMaxRanks;
}

bool is_host(uint64_t address) {
  if (g_rank < 0) return false;
  const uint64_t begin = kHostBase + static_cast<uint64_t>(g_rank) * kRankStride;
  return address >= begin && address < begin + kRankStride;
}

}  // namespace sculler::emu::client
