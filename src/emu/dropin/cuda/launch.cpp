#include <cstring>

#include "driver.h"

namespace sculler::emu::cuda {
namespace {
CUresult launch(CUfunction function, const client::LaunchShape& shape, void** args, void** extra) {
  client::Kernel* kernel = kernel_of(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (extra == nullptr) return result(client::launch(*kernel, shape, args));
  const void* data = nullptr;
  size_t bytes = 0;
  for (std::size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      data = extra[i + 1];
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      std::memcpy(&bytes, extra[i + 1], sizeof bytes);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return result(client::launch_packed(*kernel, shape, data, bytes));
}
}  // namespace

SCULLER_EXPORT_C CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                         unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                         CUstream stream, void** args, void** extra) {
  client::LaunchShape shape;
  shape.grid = {gx, gy, gz};
  shape.block = {bx, by, bz};
  shape.dynamic_shared = shared;
  shape.stream = number(stream);
  return launch(f, shape, args, extra);
}
SCULLER_EXPORT_C CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy,
                                                    unsigned gz, unsigned bx, unsigned by,
                                                    unsigned bz, unsigned shared, CUstream stream,
                                                    void** args) {
  client::LaunchShape shape;
  shape.grid = {gx, gy, gz};
  shape.block = {bx, by, bz};
  shape.dynamic_shared = shared;
  shape.cooperative = true;
  shape.stream = number(stream);
  return launch(f, shape, args, nullptr);
}
SCULLER_EXPORT_C CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** args,
                                           void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  client::LaunchShape shape;
  shape.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  shape.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  shape.dynamic_shared = config->sharedMemBytes;
  shape.stream = number(config->hStream);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& a = config->attrs[i];
    switch (a.id) {
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        shape.cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: shape.cooperative = a.value.cooperative != 0; break;
      // Hints, and permissions to overlap that a machine need not use.
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: break;
      default:
        return not_supported("cuLaunchKernelEx",
                             ("launch attribute " + std::to_string(a.id)).c_str());
    }
  }
  return launch(f, shape, args, extra);
}

SCULLER_EXPORT_C CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction f, int threads, size_t shared, unsigned) {
  const client::Kernel* kernel = kernel_of(f);
  if (kernel == nullptr || threads <= 0 || shared > UINT32_MAX) return CUDA_ERROR_INVALID_VALUE;
  wire::Occupancy request;
  request.kernel = kernel->info.kernel;
  request.threads = static_cast<uint32_t>(threads);
  request.dynamic_shared = static_cast<uint32_t>(shared);
  wire::OccupancyReply reply;
  const int code = client::call(request, reply);
  *blocks = static_cast<int>(reply.blocks_per_sm);
  return result(code);
}
SCULLER_EXPORT_C CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f,
                                                                      int threads, size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, shared, 0);
}

}  // namespace sculler::emu::cuda
