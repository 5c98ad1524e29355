// Attributes of kernels and occupancy.
#include <algorithm>

#include "runtime.h"

namespace sculler::emu::cudart {
namespace {
int blocks_per_sm(const client::Kernel& kernel, int threads, size_t shared, int& code) {
  wire::Occupancy request;
  request.kernel = kernel.info.kernel;
  request.threads = static_cast<uint32_t>(std::max(threads, 0));
  request.dynamic_shared = static_cast<uint32_t>(std::min<size_t>(shared, UINT32_MAX));
  wire::OccupancyReply reply;
  code = client::call(request, reply);
  return static_cast<int>(reply.blocks_per_sm);
}
}  // namespace

SCULLER_EXPORT_C cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  int code = 0;
  const client::Kernel* kernel = kernel_of(function, code);
  if (kernel == nullptr) return finish(code);
  *out = {};
  const wire::KernelReply& info = kernel->info;
  out->sharedSizeBytes = info.static_shared;
  out->localSizeBytes = info.local_bytes;
  out->maxThreadsPerBlock = static_cast<int>(info.max_threads);
  out->numRegs = static_cast<int>(info.registers);
  out->ptxVersion = out->binaryVersion = 90;
  out->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared;
  out->preferredShmemCarveout = kernel->carveout;
  out->clusterDimMustBeSet = info.cluster[0] != 0 ? 1 : 0;
  out->requiredClusterWidth = static_cast<int>(info.cluster[0]);
  out->requiredClusterHeight = static_cast<int>(info.cluster[1]);
  out->requiredClusterDepth = static_cast<int>(info.cluster[2]);
  out->nonPortableClusterSizeAllowed = kernel->non_portable_cluster ? 1 : 0;
  return finish(cudaSuccess);
}

SCULLER_EXPORT_C cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                                  int value) {
  int code = 0;
  client::Kernel* kernel = kernel_of(function, code);
  if (kernel == nullptr) return finish(code);
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize: {
      const int64_t limit =
          static_cast<int64_t>(client::world()->shared_per_block) - kernel->info.static_shared;
      if (value < 0 || value > limit) return finish(cudaErrorInvalidValue);
      kernel->max_dynamic_shared = value;
      return finish(cudaSuccess);
    }
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      kernel->carveout = value;
      return finish(cudaSuccess);
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      kernel->non_portable_cluster = value != 0;
      return finish(cudaSuccess);
    default:
      return not_supported("cudaFuncSetAttribute",
                           ("attribute " + std::to_string(attribute)).c_str());
  }
}
SCULLER_EXPORT_C cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) {
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaFuncGetName(const char** name, const void* function) {
  int code = 0;
  const client::Kernel* kernel = kernel_of(function, code);
  *name = kernel != nullptr ? kernel->name.c_str() : nullptr;
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaFuncGetParamInfo(const void* function, size_t index,
                                                  size_t* offset, size_t* bytes) {
  int code = 0;
  const client::Kernel* kernel = kernel_of(function, code);
  if (kernel == nullptr) return finish(code);
  if (index >= kernel->info.param_offsets.size()) return finish(cudaErrorInvalidValue);
  *offset = kernel->info.param_offsets[index];
  if (bytes != nullptr) *bytes = kernel->info.param_bytes[index];
  return finish(cudaSuccess);
}

SCULLER_EXPORT_C cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, size_t shared, unsigned) {
  int code = 0;
  const client::Kernel* kernel = kernel_of(function, code);
  if (kernel == nullptr) return finish(code);
  *blocks = blocks_per_sm(*kernel, threads, shared, code);
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                           const void* function,
                                                                           int threads,
                                                                           size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}
SCULLER_EXPORT_C cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes,
                                                                       const void* function,
                                                                       int blocks, int threads) {
  int code = 0;
  const client::Kernel* kernel = kernel_of(function, code);
  if (kernel == nullptr) return finish(code);
  size_t low =
      0;  // largest that still lets `blocks` live on an SM; occupancy falls as shared memory grows
  size_t high = client::world()->shared_per_block - kernel->info.static_shared;
  if (blocks_per_sm(*kernel, threads, 0, code) < blocks) high = 0;
  while (low < high && code == client::kSuccess) {
    const size_t middle = low + (high - low + 1) / 2;
    if (blocks_per_sm(*kernel, threads, middle, code) >= blocks) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  *bytes = low;
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                            const cudaLaunchConfig_t* config) {
  int code = 0;
  const client::Kernel* kernel = kernel_of(function, code);
  if (kernel == nullptr) return finish(code);
  const dim3 block = config->blockDim;
  const int per_sm = blocks_per_sm(*kernel, static_cast<int>(block.x * block.y * block.z),
                                   config->dynamicSmemBytes, code);
  unsigned size = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& a = config->attrs[i];
    if (a.id == cudaLaunchAttributeClusterDimension)
      size = a.val.clusterDim.x * a.val.clusterDim.y * a.val.clusterDim.z;
  }
  if (size == 0) return finish(cudaErrorInvalidValue);
  *clusters = per_sm * static_cast<int>(client::world()->sms) / static_cast<int>(size);
  return finish(code);
}

}  // namespace sculler::emu::cudart
