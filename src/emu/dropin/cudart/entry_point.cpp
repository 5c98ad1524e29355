// Driver functions by name: the drop-in libcuda beside this library answers.
#include <cuda.h>
#include <dlfcn.h>

#include "runtime.h"

namespace sculler::emu::cudart {
namespace {
cudaError_t look_up(const char* name, void** out, unsigned version, unsigned long long flags,
                    cudaDriverEntryPointQueryResult* result) {
  if (name == nullptr || out == nullptr) return finish(cudaErrorInvalidValue);
  *out = nullptr;
  using GetProcAddress =
      CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  static const auto get = [] {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return driver != nullptr
               ? reinterpret_cast<GetProcAddress>(::dlsym(driver, "cuGetProcAddress_v2"))
               : nullptr;
  }();
  if (get == nullptr) return finish(cudaErrorInsufficientDriver);
  CUdriverProcAddressQueryResult query{};
  const CUresult code = get(name, out, static_cast<int>(version), flags, &query);
  if (result != nullptr) *result = static_cast<cudaDriverEntryPointQueryResult>(query);
  // A name that is not known is told by `result`, where there is one.
  if (code == CUDA_ERROR_NOT_FOUND)
    return finish(result != nullptr ? cudaSuccess : cudaErrorSymbolNotFound);
  return finish(static_cast<int>(code));
}
}  // namespace

SCULLER_EXPORT_C cudaError_t cudaGetDriverEntryPoint(const char* name, void** out,
                                                     unsigned long long flags,
                                                     cudaDriverEntryPointQueryResult* result) {
  return look_up(name, out, CUDART_VERSION, flags, result);
}
SCULLER_EXPORT_C cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** out, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* result) {
  return look_up(name, out, version, flags, result);
}

}  // namespace sculler::emu::cudart
