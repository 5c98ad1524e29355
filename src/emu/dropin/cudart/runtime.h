// What the files of the runtime drop-in share: error state, handles, the table of registered
// kernels and variables.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "emu/client/client.h"

#define SCULLER_EXPORT_C extern "C" __attribute__((visibility("default")))

namespace sculler::emu::cudart {

// Records the error for cudaGetLastError and returns it.
cudaError_t finish(int code);
// As finish(), after telling the VM that `function` is not known.
cudaError_t not_supported(const char* function, const char* why = "");
inline cudaError_t finish(cudaError_t code) { return finish(static_cast<int>(code)); }

// The device that cudaSetDevice chose for this thread. use_device() refuses a second one: a process
// is one rank.
int current_device();
cudaError_t use_device();

// Kernel of a host stub, cudaKernel_t or cudaFunction_t; resolved in the VM. Null: `code` says why.
client::Kernel* kernel_of(const void* function, int& code);
// Variable of a host shadow.
int symbol_of(const void* symbol, uint64_t& address, uint64_t& bytes);

template <class Handle>
uint64_t number(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}
template <class Handle>
Handle handle_of(uint64_t number) {
  return reinterpret_cast<Handle>(number);
}
inline uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace sculler::emu::cudart
