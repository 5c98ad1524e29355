#include "rank/multicast.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace sculler::rank {
namespace {

constexpr std::pair<const char*, const char*> kOff[] = {{"NCCL_NVLS_ENABLE", "0"},
                                                        {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"},
                                                        {"NVSHMEM_DISABLE_NVLS", "1"}};

// Every function that makes, binds or joins a multicast object.
constexpr const char* kFunctions[] = {
    "cuMulticastCreate",   "cuMulticastAddDevice",   "cuMulticastBindMem", "cuMulticastBindMem_v2",
    "cuMulticastBindAddr", "cuMulticastBindAddr_v2", "cuMulticastUnbind"};

}  // namespace

Status require_multicast_off() {
  for (const auto& [name, value] : kOff) {
    const char* set = std::getenv(name);
    if (set == nullptr || std::strcmp(set, value) != 0) {
      return fail(ErrorCode::kUsage,
                  std::string(name) + " is not " + value + ": refusing to load NCCL",
                  "start ranks through sculler-eval, or allow multicast in the hardware profile");
    }
  }
  return {};
}

void set_multicast_off() {
  for (const auto& [name, value] : kOff) ::setenv(name, value, 1);
}

Status refuse_function(void* function) {
#if defined(__x86_64__)
  // endbr64; mov eax, 800 (CUDA_ERROR_NOT_PERMITTED); ret
  constexpr unsigned char kCode[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 0x20, 0x03, 0x00, 0x00, 0xc3};
#elif defined(__aarch64__)
  // bti c; mov w0, #800; ret
  constexpr unsigned char kCode[] = {0x5f, 0x24, 0x03, 0xd5, 0x00, 0x64,
                                     0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6};
#else
#error "say how a function returns 800 here"
#endif
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(function) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(function) + sizeof kCode + page - 1) / page * page;
  auto* pages = reinterpret_cast<void*>(begin);
  if (::mprotect(pages, end - begin, PROT_READ | PROT_WRITE) != 0) {
    return fail(ErrorCode::kIo, std::string("mprotect of code: ") + std::strerror(errno));
  }
  std::memcpy(function, kCode, sizeof kCode);
  if (::mprotect(pages, end - begin, PROT_READ | PROT_EXEC) != 0) {
    return fail(ErrorCode::kIo, std::string("mprotect of code: ") + std::strerror(errno));
  }
  __builtin___clear_cache(static_cast<char*>(function),
                          static_cast<char*>(function) + sizeof kCode);
  return {};
}

Status refuse_multicast_calls() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return {};
  // cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, status)
  using GetProcAddress = int (*)(const char*, void**, int, uint64_t, int*);
  auto lookup = reinterpret_cast<GetProcAddress>(::dlsym(driver, "cuGetProcAddress_v2"));
  for (const char* name : kFunctions) {
    void* exported = ::dlsym(driver, name);
    void* handed_out = nullptr;
    int found = 0;
    if (lookup != nullptr && lookup(name, &handed_out, 13000, 0, &found) != 0) handed_out = nullptr;
    if (exported != nullptr) {
      if (auto done = refuse_function(exported); !done) return done;
    }
    if (handed_out != nullptr && handed_out != exported) {
      if (auto done = refuse_function(handed_out); !done) return done;
    }
  }
  return {};
}

}  // namespace sculler::rank
