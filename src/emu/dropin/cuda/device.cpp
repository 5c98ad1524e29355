// Devices and contexts: one context, that of the process' rank.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "driver.h"

namespace sculler::emu::cuda {
namespace {
thread_local int t_device = 0;
constexpr uint64_t kContext = 1;
bool valid(int device) {
  const wire::HelloReply* w = client::world();
  return w != nullptr && device >= 0 && device < w->n_ranks;
}
}  // namespace

SCULLER_EXPORT_C CUresult cuInit(unsigned) {
  return client::world() != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
SCULLER_EXPORT_C CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuDeviceGetCount(int* count) {
  const wire::HelloReply* w = client::world();
  *count = w != nullptr ? w->n_ranks : 0;
  return w != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
SCULLER_EXPORT_C CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return valid(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
SCULLER_EXPORT_C CUresult cuDeviceGetName(char* name, int n, CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(std::max(n, 0)), "%s",
                client::world()->device_name.c_str());
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, "sculler-emulated", 16);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = client::world()->total_memory;
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                               CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  const wire::HelloReply& w = *client::world();
  const auto i = [](auto v) { return static_cast<int>(v); };
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = i(w.threads_per_block); break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = i(w.shared_per_block);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = i(w.shared_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = i(w.shared_reserved); break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *value = 64 << 10; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      *value = i(w.registers_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = i(w.clock_khz); break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = i(w.memory_clock_khz); break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = i(w.memory_bus_bits); break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = i(w.sms); break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = i(w.l2_bytes); break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = i(w.warps_per_sm * 32); break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = i(w.blocks_per_sm); break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = w.major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = w.minor; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = i(w.copy_engines); break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = device; break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: *value = w.multicast_allowed ? 1 : 0; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED: *value = 0; break;
    default:
      return not_supported("cuDeviceGetAttribute",
                           ("attribute " + std::to_string(attribute)).c_str());
  }
  return CUDA_SUCCESS;
}

SCULLER_EXPORT_C CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = handle_of<CUcontext>(kContext);
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
SCULLER_EXPORT_C CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags,
                                                     int* active) {
  *flags = 0;
  *active = 1;
  return valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
SCULLER_EXPORT_C CUresult cuCtxGetCurrent(CUcontext* context) {
  if (client::world() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  *context = handle_of<CUcontext>(kContext);
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
SCULLER_EXPORT_C CUresult cuCtxPushCurrent_v2(CUcontext) { return CUDA_SUCCESS; }
SCULLER_EXPORT_C CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (context != nullptr) *context = handle_of<CUcontext>(kContext);
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuCtxGetDevice(CUdevice* device) {
  *device = t_device;
  return client::world() != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
SCULLER_EXPORT_C CUresult cuCtxSynchronize() {
  return result(client::call(wire::DeviceSynchronize{}));
}
SCULLER_EXPORT_C CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  *can = a != b ? 1 : 0;
  return valid(a) && valid(b) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace sculler::emu::cuda
