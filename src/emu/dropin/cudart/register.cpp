// Registration of nvcc's fat binaries, and launches by host stub.
#include <cstdio>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime.h"

namespace sculler::emu::cudart {
namespace {

struct Binary {
  client::Module* module = nullptr;
  std::string why;      // why there is no module
  std::string managed;  // a managed variable's name
};
struct Stub {
  Binary* binary = nullptr;
  std::string name;
  client::Kernel* kernel = nullptr;
};
struct Shadow {
  Binary* binary = nullptr;
  std::string name;
  uint64_t bytes = 0;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<const void*, Stub> stubs;
  std::unordered_map<const void*, Shadow> shadows;
  std::unordered_set<const void*> kernels;  // handles that were given out
};
Table& table() {
  static auto* it = new Table;  // registrations outlive static destructors
  return *it;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> t_configurations;

client::Module* module_of(Binary& binary) {
  if (binary.module == nullptr) {
    std::fprintf(stderr, "sculler: a fat binary cannot be used: %s\n", binary.why.c_str());
  }
  return binary.module;
}

wire::Dim3 dim(dim3 d) { return {d.x, d.y, d.z}; }

}  // namespace

client::Kernel* kernel_of(const void* function, int& code) {
  Table& t = table();
  Stub* stub = nullptr;
  {
    const std::lock_guard lock(t.mutex);
    if (t.kernels.contains(function)) {
      code = client::kSuccess;
      return const_cast<client::Kernel*>(static_cast<const client::Kernel*>(function));
    }
    const auto at = t.stubs.find(function);
    if (at == t.stubs.end()) {
      code = cudaErrorInvalidDeviceFunction;
      return nullptr;
    }
    stub = &at->second;
  }
  client::Module* module = module_of(*stub->binary);
  if (module == nullptr) {
    code = cudaErrorNoKernelImageForDevice;
    return nullptr;
  }
  client::Kernel* kernel = nullptr;
  code = client::find_kernel(module, stub->name, kernel);
  if (code == cudaErrorSymbolNotFound) code = cudaErrorInvalidDeviceFunction;
  if (code != client::kSuccess) return nullptr;
  const std::lock_guard lock(t.mutex);
  t.kernels.insert(kernel);
  stub->kernel = kernel;
  return kernel;
}

int symbol_of(const void* symbol, uint64_t& address, uint64_t& bytes) {
  Table& t = table();
  Shadow shadow;
  {
    const std::lock_guard lock(t.mutex);
    const auto at = t.shadows.find(symbol);
    if (at == t.shadows.end()) return cudaErrorInvalidSymbol;
    shadow = at->second;
  }
  client::Module* module = module_of(*shadow.binary);
  if (module == nullptr) return cudaErrorNoKernelImageForDevice;
  const int code = client::find_global(module, shadow.name, address, bytes);
  return code == cudaErrorSymbolNotFound ? static_cast<int>(cudaErrorInvalidSymbol) : code;
}

SCULLER_EXPORT_C void** __cudaRegisterFatBinary(void* image) {
  auto* binary = new Binary;
  binary->module = client::add_module(image, binary->why);
  return reinterpret_cast<void**>(binary);
}
SCULLER_EXPORT_C void __cudaRegisterFatBinaryEnd(void**) {}
SCULLER_EXPORT_C void __cudaUnregisterFatBinary(void** handle) {
  auto* binary = reinterpret_cast<Binary*>(handle);
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  std::erase_if(t.stubs, [binary](const auto& entry) { return entry.second.binary == binary; });
  std::erase_if(t.shadows, [binary](const auto& entry) { return entry.second.binary == binary; });
  // The module stays in the VM: grids of it may still run, and a rank that ends takes it along.
}
SCULLER_EXPORT_C char __cudaInitModule(void** handle) {
  const auto* binary = reinterpret_cast<Binary*>(handle);
  if (!binary->managed.empty()) {
    not_supported("__managed__ variable", binary->managed.c_str());
    return 0;
  }
  return 1;
}
SCULLER_EXPORT_C void __cudaRegisterFunction(void** handle, const char* stub, char*,
                                             const char* name, int, uint3*, uint3*, dim3*, dim3*,
                                             int*) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  t.stubs[stub] = {reinterpret_cast<Binary*>(handle), name, nullptr};
}
SCULLER_EXPORT_C void __cudaRegisterVar(void** handle, char* shadow, char*, const char* name, int,
                                        size_t bytes, int, int) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  t.shadows[shadow] = {reinterpret_cast<Binary*>(handle), name, bytes};
}
SCULLER_EXPORT_C void __cudaRegisterManagedVar(void** handle, void** pointer, char*,
                                               const char* name, int, size_t bytes, int, int) {
  auto* binary = reinterpret_cast<Binary*>(handle);
  binary->managed = name;
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  t.shadows[pointer] = {binary, name, bytes};
}

SCULLER_EXPORT_C unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                      CUstream_st* stream) {
  t_configurations.push_back({grid, block, shared, stream});
  return 0;
}
SCULLER_EXPORT_C cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                        void* stream) {
  if (t_configurations.empty()) return finish(cudaErrorMissingConfiguration);
  const Configuration& c = t_configurations.back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  t_configurations.pop_back();
  return cudaSuccess;
}

SCULLER_EXPORT_C cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* stub) {
  // Called once a call site, and its failure is ignored there: a handle that carries the stub keeps
  // the error for the launch.
  int code = 0;
  client::Kernel* kernel = kernel_of(stub, code);
  *out = kernel != nullptr ? reinterpret_cast<cudaKernel_t>(kernel)
                           : reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaGetKernel(cudaKernel_t* out, const void* stub) {
  int code = 0;
  *out = reinterpret_cast<cudaKernel_t>(kernel_of(stub, code));
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* stub) {
  int code = 0;
  *out = reinterpret_cast<cudaFunction_t>(kernel_of(stub, code));
  return finish(code);
}

static cudaError_t launch(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                          cudaStream_t stream, bool cooperative) {
  if (const cudaError_t error = use_device(); error != cudaSuccess) return finish(error);
  int code = 0;
  client::Kernel* kernel = kernel_of(function, code);
  if (kernel == nullptr) return finish(code);
  if (shared > UINT32_MAX) return finish(cudaErrorInvalidValue);
  client::LaunchShape shape;
  shape.grid = dim(grid);
  shape.block = dim(block);
  shape.dynamic_shared = static_cast<uint32_t>(shared);
  shape.cooperative = cooperative;
  shape.stream = number(stream);
  return finish(client::launch(*kernel, shape, args));
}

SCULLER_EXPORT_C cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                void** args, size_t shared, cudaStream_t stream) {
  return launch(kernel, grid, block, args, shared, stream, false);
}
SCULLER_EXPORT_C cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                     void** args, size_t shared,
                                                     cudaStream_t stream) {
  return launch(kernel, grid, block, args, shared, stream == nullptr ? cudaStreamPerThread : stream,
                false);
}
SCULLER_EXPORT_C cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block,
                                              void** args, size_t shared, cudaStream_t stream) {
  return launch(function, grid, block, args, shared, stream, false);
}
SCULLER_EXPORT_C cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid,
                                                         dim3 block, void** args, size_t shared,
                                                         cudaStream_t stream) {
  return launch(function, grid, block, args, shared, stream, true);
}

SCULLER_EXPORT_C cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                                 const void* function, void** args) {
  if (config == nullptr) return finish(cudaErrorInvalidValue);
  if (const cudaError_t error = use_device(); error != cudaSuccess) return finish(error);
  int code = 0;
  client::Kernel* kernel = kernel_of(function, code);
  if (kernel == nullptr) return finish(code);
  client::LaunchShape shape;
  shape.grid = dim(config->gridDim);
  shape.block = dim(config->blockDim);
  shape.dynamic_shared = static_cast<uint32_t>(config->dynamicSmemBytes);
  shape.stream = number(config->stream);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeClusterDimension:
        shape.cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y,
                         attribute.val.clusterDim.z};
        break;
      case cudaLaunchAttributeCooperative:
        shape.cooperative = attribute.val.cooperative != 0;
        break;
      // Hints, and permissions to overlap: a machine that makes no use of them is within its
      // rights.
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeProgrammaticStreamSerialization:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributeSynchronizationPolicy: break;
      default:
        return not_supported("cudaLaunchKernelExC",
                             ("launch attribute " + std::to_string(attribute.id)).c_str());
    }
  }
  return finish(client::launch(*kernel, shape, args));
}

SCULLER_EXPORT_C cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  uint64_t at = 0, bytes = 0;
  const int code = symbol_of(symbol, at, bytes);
  *out = reinterpret_cast<void*>(at);
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaGetSymbolSize(size_t* out, const void* symbol) {
  uint64_t at = 0, bytes = 0;
  const int code = symbol_of(symbol, at, bytes);
  *out = bytes;
  return finish(code);
}

}  // namespace sculler::emu::cudart
