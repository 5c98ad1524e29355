// Devices: as many as the job has ranks, all alike; a process computes on one of them, its rank's
// own.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "runtime.h"

namespace sculler::emu::cudart {
namespace {
thread_local int t_device = 0;
std::atomic<int> g_used{-1};

bool valid(int device) {
  const wire::HelloReply* w = client::world();
  return w != nullptr && device >= 0 && device < w->n_ranks;
}
}  // namespace

int current_device() { return t_device; }

cudaError_t use_device() {
  if (client::world() == nullptr) return cudaErrorNoDevice;
  int none = -1;
  if (g_used.compare_exchange_strong(none, t_device) || none == t_device) return cudaSuccess;
  return not_supported("cudaSetDevice",
                       "a second device in one process; start one process a device");
}

SCULLER_EXPORT_C cudaError_t cudaGetDeviceCount(int* count) {
  const wire::HelloReply* w = client::world();
  *count = w != nullptr ? w->n_ranks : 0;
  return finish(w != nullptr ? cudaSuccess : cudaErrorNoDevice);
}
SCULLER_EXPORT_C cudaError_t cudaSetDevice(int device) {
  if (client::world() == nullptr) return finish(cudaErrorNoDevice);
  if (!valid(device)) return finish(cudaErrorInvalidDevice);
  t_device = device;
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return finish(valid(device) ? cudaSuccess : cudaErrorInvalidDevice);
}
SCULLER_EXPORT_C cudaError_t cudaGetDevice(int* device) {
  *device = t_device;
  return finish(client::world() != nullptr ? cudaSuccess : cudaErrorNoDevice);
}
SCULLER_EXPORT_C cudaError_t cudaSetDeviceFlags(unsigned) { return finish(cudaSuccess); }
SCULLER_EXPORT_C cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceScheduleAuto;
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return finish(cudaSuccess);
}

SCULLER_EXPORT_C cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                                    int device) {
  if (!valid(device)) return finish(cudaErrorInvalidDevice);
  const wire::HelloReply& w = *client::world();
  const auto i = [](auto v) { return static_cast<int>(v); };
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = i(w.threads_per_block); break;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
    case cudaDevAttrTotalConstantMemory: *value = 64 << 10; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxPitch: *value = 2147483647; break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = i(w.registers_per_sm); break;
    case cudaDevAttrClockRate: *value = i(w.clock_khz); break;
    case cudaDevAttrMemoryClockRate: *value = i(w.memory_clock_khz); break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = i(w.memory_bus_bits); break;
    case cudaDevAttrTextureAlignment: *value = 512; break;
    case cudaDevAttrTexturePitchAlignment: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = i(w.sms); break;
    case cudaDevAttrL2CacheSize: *value = i(w.l2_bytes); break;
    case cudaDevAttrMaxPersistingL2CacheSize: *value = i(w.l2_bytes / 8 * 5); break;
    case cudaDevAttrMaxAccessPolicyWindowSize: *value = 128 << 20; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = i(w.warps_per_sm * 32); break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = i(w.blocks_per_sm); break;
    case cudaDevAttrAsyncEngineCount: *value = i(w.copy_engines); break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = i(w.shared_per_sm); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = i(w.shared_per_block); break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = i(w.shared_reserved); break;
    case cudaDevAttrComputeCapabilityMajor: *value = w.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = w.minor; break;
    case cudaDevAttrPciBusId: *value = device; break;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId: *value = 0; break;
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrClusterLaunch:
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrTccDriver:
    case cudaDevAttrIsMultiGpuBoard:
    case cudaDevAttrMultiGpuBoardGroupID:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
    case cudaDevAttrDirectManagedMemAccessFromHost:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrSparseCudaArraySupported:
    case cudaDevAttrHostRegisterReadOnlySupported:
    case cudaDevAttrTimelineSemaphoreInteropSupported:
    case cudaDevAttrGPUDirectRDMASupported:
    case cudaDevAttrGPUDirectRDMAFlushWritesOptions:
    case cudaDevAttrGPUDirectRDMAWritesOrdering:
    case cudaDevAttrMemoryPoolSupportedHandleTypes:
    case cudaDevAttrIpcEventSupport:
    case cudaDevAttrDeferredMappingCudaArraySupported:
    case cudaDevAttrMpsEnabled: *value = 0; break;
    case cudaDevAttrMemSyncDomainCount: *value = 4; break;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: *value = 2; break;
    case cudaDevAttrNumaConfig: *value = cudaDeviceNumaConfigNone; break;
    case cudaDevAttrNumaId:
    case cudaDevAttrHostNumaId: *value = -1; break;
    default:
      return not_supported("cudaDeviceGetAttribute",
                           ("attribute " + std::to_string(attribute)).c_str());
  }
  return finish(cudaSuccess);
}

SCULLER_EXPORT_C cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (!valid(device)) return finish(cudaErrorInvalidDevice);
  const wire::HelloReply& w = *client::world();
  const auto i = [](auto v) { return static_cast<int>(v); };
  *p = {};
  std::snprintf(p->name, sizeof p->name, "%s", w.device_name.c_str());
  std::memcpy(p->uuid.bytes, "sculler-emulated", 16);
  p->uuid.bytes[15] = static_cast<char>(device);
  p->totalGlobalMem = w.total_memory;
  p->sharedMemPerBlock = 48 << 10;
  p->regsPerBlock = p->regsPerMultiprocessor = i(w.registers_per_sm);
  p->warpSize = 32;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = i(w.threads_per_block);
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 64 << 10;
  p->major = w.major;
  p->minor = w.minor;
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = i(w.sms);
  p->canMapHostMemory = p->concurrentKernels = p->ECCEnabled = p->unifiedAddressing = 1;
  p->pciBusID = device;
  p->asyncEngineCount = i(w.copy_engines);
  p->memoryBusWidth = i(w.memory_bus_bits);
  p->l2CacheSize = i(w.l2_bytes);
  p->persistingL2CacheMaxSize = i(w.l2_bytes / 8 * 5);
  p->maxThreadsPerMultiProcessor = i(w.warps_per_sm * 32);
  p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->sharedMemPerMultiprocessor = w.shared_per_sm;
  p->managedMemory = p->concurrentManagedAccess = p->computePreemptionSupported =
      p->cooperativeLaunch = 1;
  p->sharedMemPerBlockOptin = w.shared_per_block;
  p->maxBlocksPerMultiProcessor = i(w.blocks_per_sm);
  p->accessPolicyMaxWindowSize = 128 << 20;
  p->reservedSharedMemPerBlock = w.shared_reserved;
  p->memoryPoolsSupported = p->clusterLaunch = 1;
  p->deviceNumaConfig = cudaDeviceNumaConfigNone;
  p->deviceNumaId = p->hostNumaId = -1;
  return finish(cudaSuccess);
}

SCULLER_EXPORT_C cudaError_t cudaDeviceGetPCIBusId(char* text, int n, int device) {
  if (!valid(device)) return finish(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(std::max(n, 0)), "0000:%02x:00.0",
                static_cast<unsigned>(device));
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x", &domain, &bus) != 2 || !valid(static_cast<int>(bus)))
    return finish(cudaErrorInvalidValue);
  *device = static_cast<int>(bus);
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return finish(cudaSuccess);
}

// Peers' memory is reached where NCCL made it reachable; direct peer access between processes does
// not exist on hardware either.
SCULLER_EXPORT_C cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!valid(device) || !valid(peer)) return finish(cudaErrorInvalidDevice);
  *can = device != peer ? 1 : 0;
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (!valid(peer) || peer == t_device) return finish(cudaErrorInvalidDevice);
  return finish(flags == 0 ? cudaSuccess : cudaErrorInvalidValue);
}
SCULLER_EXPORT_C cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return finish(valid(peer) ? cudaSuccess : cudaErrorInvalidDevice);
}

// Limits and preferences that have no effect on results: kept, so that they read back.
namespace {
size_t g_limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
}
SCULLER_EXPORT_C cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  if (limit < 0 || limit >= 7) return finish(cudaErrorInvalidValue);
  g_limits[limit] = value;
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (limit < 0 || limit >= 7) return finish(cudaErrorInvalidValue);
  *value = g_limits[limit];
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return finish(cudaSuccess); }
SCULLER_EXPORT_C cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  *config = cudaFuncCachePreferNone;
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaCtxResetPersistingL2Cache() { return finish(cudaSuccess); }
SCULLER_EXPORT_C cudaError_t cudaProfilerStart() { return finish(cudaSuccess); }
SCULLER_EXPORT_C cudaError_t cudaProfilerStop() { return finish(cudaSuccess); }

// What is left of a reset when a process ends with it: all work is over.
SCULLER_EXPORT_C cudaError_t cudaDeviceReset() {
  return finish(client::call(wire::DeviceSynchronize{}));
}

}  // namespace sculler::emu::cudart
