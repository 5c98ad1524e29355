// What the files of the NCCL drop-in share. Compiled against the real headers: the layouts of
// ncclDevComm and ncclWindow_vidmem are known here and nowhere else in the emulator.
#pragma once

#include <nccl.h>
#include <nccl_device.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "emu/client/client.h"

#if NCCL_VERSION_CODE != NCCL_VERSION(2, 28, 9)
#error \
    "the emulator's libnccl follows the structures of NCCL 2.28.9: give its headers with -DSCULLER_NCCL_INCLUDE=DIR"
#endif

// Defines `name` and the profiling alias p`name` that NCCL exports beside it.
#define SCULLER_NCCL_ALIAS(name) \
  extern "C" decltype(name) p##name __attribute__((alias(#name), visibility("default")))
#define SCULLER_EXPORT_C extern "C" __attribute__((visibility("default")))

// NCCL's opaque communicator.
struct ncclComm {
  struct Window {
    uint64_t base = 0, bytes = 0;
    ncclWindow_t window = nullptr;
  };
  uint64_t id = 0;
  bool known = false;  // `info` was asked for: not inside the group that made the communicator
  sculler::emu::wire::CommReply info;
  std::vector<Window> windows;  // registered and alive
  uint64_t table =
      0;  // ncclDevCommWindowTable in device memory, from the first device communicator on
};

namespace sculler::emu::nccl {

inline ncclResult_t result(int code) {
  // The VM answers with ncclResult_t, the client library with CUDA codes of 100 and more.
  return code < ncclNumResults           ? static_cast<ncclResult_t>(code)
         : code == client::kNotSupported ? ncclInternalError
                                         : ncclUnhandledCudaError;
}
template <class Handle>
uint64_t number(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

// Rank, size and members; false where the communicator is not there (yet).
bool know(ncclComm_t comm);

// Work that needs the outcome of a collective call: at once outside of a group, else after the
// group's end.
ncclResult_t after_group(std::function<ncclResult_t()> then);

ncclResult_t write_internal(uint64_t address, const void* data, std::size_t bytes);
// Brings the table of the communicator's windows in device memory up to date, if there is one.
ncclResult_t write_table(ncclComm& comm);
// A library-internal allocation in device memory.
ncclResult_t allocate_internal(uint64_t bytes, uint64_t& address);
// What device code needs of GIN: contexts, signals, counters, shadows, the barriers' first signal.
ncclResult_t fill_gin(const ncclComm& comm, uint64_t window, const ncclDevCommRequirements_t& need,
                      ncclDevComm_t& out);
// The structure at `handle`, filled with what the VM says.
ncclResult_t fill_window(uint64_t handle, ncclWindow_vidmem& out);

}  // namespace sculler::emu::nccl
