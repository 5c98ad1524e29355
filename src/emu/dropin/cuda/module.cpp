// Modules, libraries and kernels' attributes. A CUmodule or CUlibrary is a module of the client
// library.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "driver.h"

namespace sculler::emu::cuda {
namespace {
template <class Handle>
client::Module* module_of(Handle handle) {
  return reinterpret_cast<client::Module*>(handle);
}
CUresult load(const void* image, client::Module*& out) {
  std::string why;
  out = client::add_module(image, why);
  if (out == nullptr) {
    std::fprintf(stderr, "sculler: a module cannot be used: %s\n", why.c_str());
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  return result(client::load_module(out));
}
CUresult load_file(const char* path, client::Module*& out) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  bytes.push_back('\0');
  return load(bytes.data(), out);
}
template <class Handle>
CUresult kernel(Handle* out, client::Module* module, const char* name) {
  client::Kernel* found = nullptr;
  const int code = client::find_kernel(module, name, found);
  *out = reinterpret_cast<Handle>(code == 0 ? found : nullptr);
  return result(code);
}
CUresult global(CUdeviceptr* address, size_t* bytes, client::Module* module, const char* name) {
  uint64_t at = 0, n = 0;
  const int code = client::find_global(module, name, at, n);
  if (address != nullptr) *address = at;
  if (bytes != nullptr) *bytes = n;
  return result(code);
}
}  // namespace

SCULLER_EXPORT_C CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  client::Module* module = nullptr;
  const CUresult code = load(image, module);
  *out = reinterpret_cast<CUmodule>(module);
  return code;
}
SCULLER_EXPORT_C CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned,
                                             CUjit_option*, void**) {
  return cuModuleLoadData(out, image);
}
SCULLER_EXPORT_C CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadData(out, image);
}
SCULLER_EXPORT_C CUresult cuModuleLoad(CUmodule* out, const char* path) {
  client::Module* module = nullptr;
  const CUresult code = load_file(path, module);
  *out = reinterpret_cast<CUmodule>(module);
  return code;
}
SCULLER_EXPORT_C CUresult cuModuleUnload(CUmodule module) {
  client::remove_module(module_of(module));
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  return kernel(out, module_of(module), name);
}
SCULLER_EXPORT_C CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module,
                                               const char* name) {
  return global(address, bytes, module_of(module), name);
}
SCULLER_EXPORT_C CUresult cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*,
                                            void**, unsigned, CUlibraryOption*, void**, unsigned) {
  client::Module* module = nullptr;
  const CUresult code = load(image, module);
  *out = reinterpret_cast<CUlibrary>(module);
  return code;
}
SCULLER_EXPORT_C CUresult cuLibraryUnload(CUlibrary library) {
  client::remove_module(module_of(library));
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) {
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  return kernel(out, module_of(library), name);
}
SCULLER_EXPORT_C CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                                             const char* name) {
  return global(address, bytes, module_of(library), name);
}
SCULLER_EXPORT_C CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult kernel_attribute(int* value, CUfunction_attribute attribute,
                          const client::Kernel* kernel) {
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const wire::KernelReply& info = kernel->info;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(info.max_threads);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(info.static_shared); break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = static_cast<int>(info.local_bytes); break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = static_cast<int>(info.registers); break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = kernel->max_dynamic_shared;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = kernel->carveout; break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = kernel->non_portable_cluster ? 1 : 0;
      break;
    default:
      return not_supported("cuFuncGetAttribute",
                           ("attribute " + std::to_string(attribute)).c_str());
  }
  return CUDA_SUCCESS;
}
CUresult set_kernel_attribute(client::Kernel* kernel, CUfunction_attribute attribute, int value) {
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int64_t limit =
          static_cast<int64_t>(client::world()->shared_per_block) - kernel->info.static_shared;
      if (value < 0 || value > limit) return CUDA_ERROR_INVALID_VALUE;
      kernel->max_dynamic_shared = value;
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      kernel->carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      kernel->non_portable_cluster = value != 0;
      return CUDA_SUCCESS;
    default:
      return not_supported("cuFuncSetAttribute",
                           ("attribute " + std::to_string(attribute)).c_str());
  }
}
SCULLER_EXPORT_C CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                             CUfunction function) {
  return kernel_attribute(value, attribute, kernel_of(function));
}
SCULLER_EXPORT_C CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                             int value) {
  return set_kernel_attribute(kernel_of(function), attribute, value);
}
SCULLER_EXPORT_C CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute,
                                               CUkernel kernel, CUdevice) {
  return kernel_attribute(value, attribute, kernel_of(kernel));
}
SCULLER_EXPORT_C CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                               CUkernel kernel, CUdevice) {
  return set_kernel_attribute(kernel_of(kernel), attribute, value);
}
SCULLER_EXPORT_C CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

}  // namespace sculler::emu::cuda
