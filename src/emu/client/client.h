// The rank's side of the VM: one shared object that all drop-in libraries link with, so that they
// share the connection, the modules and the reserved address ranges. Numbers returned are
// cudaError_t's; those that both APIs know are equal in CUresult.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emu/wire/message.h"

#define SCULLER_EMU_API __attribute__((visibility("default")))

namespace sculler::emu::client {

enum Code : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidConfiguration = 9,
  kInvalidSymbol = 13,
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinaryForDevice = 209,
  kUnsupportedPtx = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailure = 719,
  kCooperativeTooLarge = 720,
  kInvalidClusterSize = 912,
  kNotSupported = 801,
  kUnknown = 999,
};

// Who this rank is and what its device has; connects on first use. Null: there is no VM, and a line
// on stderr said so.
SCULLER_EMU_API const wire::HelloReply* world();

// One request and its reply, on the calling thread's own connection. `fd` travels beside the
// request.
SCULLER_EMU_API int exchange(wire::Op op, std::span<const uint8_t> request,
                             std::vector<uint8_t>& reply, int fd = -1);

template <class Request>
int call(const Request& request, typename Request::Reply& reply) {
  std::vector<uint8_t> bytes;
  const int status = exchange(Request::kOp, wire::encode(request), bytes);
  if (status != kSuccess) return status;
  return wire::decode(bytes, reply) ? kSuccess : kUnknown;
}
template <class Request>
int call(const Request& request) {
  typename Request::Reply reply;
  return call(request, reply);
}

// The sentence behind the calling thread's last failed call, empty if the VM gave none.
SCULLER_EMU_API const std::string& last_failure();

// Tells the VM, which then gives the verdict UNSUPPORTED, and stderr. Returns kNotSupported.
SCULLER_EMU_API int unsupported(std::string_view function, std::string_view why = {});

// ---- address ranges (vm/memory.h)
SCULLER_EMU_API bool is_device(uint64_t address);  // in some rank's device range
SCULLER_EMU_API bool is_host(uint64_t address);    // in this rank's pinned or managed range

// ---- copies that choose the way by address: device, pinned or pageable on either side. Rows of
// `width` bytes.
SCULLER_EMU_API int copy(uint64_t to, uint64_t to_pitch, uint64_t from, uint64_t from_pitch,
                         uint64_t width, uint64_t height, uint64_t stream, bool blocking);

// ---- modules
class Module;
struct Kernel {
  Module* module = nullptr;
  std::string name;
  wire::KernelReply info;
  bool resolved = false;
  int32_t max_dynamic_shared = 48 << 10;
  int32_t carveout = -1;
  bool non_portable_cluster = false;
};

// Registers a fat binary (or its wrapper), or PTX text; nothing is sent yet. `why` says what is
// wrong when null.
SCULLER_EMU_API Module* add_module(const void* image, std::string& why);
SCULLER_EMU_API void remove_module(Module* module);
SCULLER_EMU_API int load_module(Module* module);
// Finds or makes the kernel; sends what is needed. Its address is stable.
SCULLER_EMU_API int find_kernel(Module* module, std::string_view name, Kernel*& kernel);
SCULLER_EMU_API int find_global(Module* module, std::string_view name, uint64_t& address,
                                uint64_t& bytes);

struct LaunchShape {
  wire::Dim3 grid, block, cluster;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  uint64_t stream = 0;
};
// `args[i]` points at the i-th parameter's value.
SCULLER_EMU_API int launch(Kernel& kernel, const LaunchShape& shape, void* const* args);
// As cuLaunchKernel's `extra`: the parameters as one block.
SCULLER_EMU_API int launch_packed(Kernel& kernel, const LaunchShape& shape, const void* params,
                                  uint64_t bytes);

// Runs `function(argument)` in stream order on a helper thread.
SCULLER_EMU_API int host_function(uint64_t stream, void (*function)(void*), void* argument);

}  // namespace sculler::emu::client
