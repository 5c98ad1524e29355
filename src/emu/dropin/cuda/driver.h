// What the files of the driver drop-in share.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string_view>

#include "emu/client/client.h"

#define SCULLER_EXPORT_C extern "C" __attribute__((visibility("default")))

namespace sculler::emu::cuda {

inline CUresult result(int code) { return static_cast<CUresult>(code); }
CUresult not_supported(const char* function, const char* why = "");

template <class Handle>
uint64_t number(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}
template <class Handle>
Handle handle_of(uint64_t number) {
  return reinterpret_cast<Handle>(number);
}

// An exported function of this library, by its exact name; null where there is none.
void* exported(std::string_view name);

// A CUfunction or CUkernel is a kernel of the client library.
inline client::Kernel* kernel_of(const void* handle) {
  return const_cast<client::Kernel*>(static_cast<const client::Kernel*>(handle));
}
CUresult kernel_attribute(int* value, CUfunction_attribute attribute, const client::Kernel* kernel);
CUresult set_kernel_attribute(client::Kernel* kernel, CUfunction_attribute attribute, int value);

}  // namespace sculler::emu::cuda
