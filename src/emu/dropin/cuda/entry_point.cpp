#include <string>

#include "driver.h"

namespace sculler::emu::cuda {

// The newest version of a function that the headers of CUDA 13 know: cuMemAlloc is cuMemAlloc_v2.
SCULLER_EXPORT_C CUresult cuGetProcAddress_v2(const char* name, void** out, int, cuuint64_t flags,
                                              CUdriverProcAddressQueryResult* query) {
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  const std::string base = name;
  const wire::HelloReply* w = client::world();
  if (base.starts_with("cuMulticast") && (w == nullptr || !w->multicast_allowed)) {
    client::unsupported(base, "multicast is off: the hardware profile does not allow it");
    if (query != nullptr) *query = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_ERROR_NOT_FOUND;
  }
  if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0) {
    for (const char* suffix : {"_v2_ptsz", "_ptsz", "_v2_ptds", "_ptds"}) {
      if ((*out = exported(base + suffix)) != nullptr) break;
    }
  }
  for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
    if (*out != nullptr) break;
    *out = exported(base + suffix);
  }
  if (query != nullptr)
    *query = *out != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
#undef cuGetProcAddress
SCULLER_EXPORT_C CUresult cuGetProcAddress(const char* name, void** out, int version,
                                           cuuint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}

}  // namespace sculler::emu::cuda
