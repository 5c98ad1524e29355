#include "driver.h"

namespace sculler::emu::cuda {
namespace {
CUresult allocate(uint64_t& out, size_t bytes, wire::MemoryKind kind, bool ordered = false,
                  CUstream stream = nullptr) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  wire::Allocate request;
  request.kind = kind;
  request.bytes = bytes;
  request.ordered = ordered;
  request.stream = number(stream);
  wire::AddressReply reply;
  const int code = client::call(request, reply);
  out = reply.address;
  return result(code);
}
CUresult release(uint64_t address, bool ordered = false, CUstream stream = nullptr) {
  wire::Free request;
  request.address = address;
  request.ordered = ordered;
  request.stream = number(stream);
  return result(client::call(request));
}
CUresult copy(uint64_t to, uint64_t from, size_t n, CUstream stream, bool blocking) {
  return result(client::copy(to, n, from, n, n, 1, number(stream), blocking));
}
CUresult fill(uint64_t to, size_t pitch, uint32_t value, uint8_t element, size_t width,
              size_t height, CUstream stream, bool blocking) {
  wire::Fill request;
  request.to = to;
  request.pitch = height == 1 ? width * element : pitch;
  request.width = width * element;
  request.height = height;
  request.value = value;
  request.element_bytes = element;
  request.stream = number(stream);
  request.blocking = blocking;
  return result(client::call(request));
}
int pointer_info(uint64_t address, wire::PointerReply& reply) {
  wire::PointerInfo request;
  request.address = address;
  return client::call(request, reply);
}
}  // namespace

SCULLER_EXPORT_C CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t n) {
  uint64_t at = 0;
  const CUresult code = allocate(at, n, wire::MemoryKind::kDevice);
  *out = at;
  return code;
}
SCULLER_EXPORT_C CUresult cuMemAllocAsync(CUdeviceptr* out, size_t n, CUstream stream) {
  uint64_t at = 0;
  const CUresult code = allocate(at, n, wire::MemoryKind::kDevice, true, stream);
  *out = at;
  return code;
}
SCULLER_EXPORT_C CUresult cuMemFree_v2(CUdeviceptr p) { return release(p); }
SCULLER_EXPORT_C CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
  return release(p, true, stream);
}
SCULLER_EXPORT_C CUresult cuMemAllocHost_v2(void** out, size_t n) {
  uint64_t at = 0;
  const CUresult code = allocate(at, n, wire::MemoryKind::kPinned);
  *out = reinterpret_cast<void*>(at);
  return code;
}
SCULLER_EXPORT_C CUresult cuMemHostAlloc(void** out, size_t n, unsigned) {
  return cuMemAllocHost_v2(out, n);
}
SCULLER_EXPORT_C CUresult cuMemFreeHost(void* p) { return release(number(p)); }
SCULLER_EXPORT_C CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* p, unsigned) {
  *out = number(p);
  return client::is_host(number(p)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SCULLER_EXPORT_C CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  wire::MemoryReply reply;
  const int code = client::call(wire::MemoryInfo{}, reply);
  *free_bytes = reply.free_bytes;
  *total_bytes = reply.total_bytes;
  return result(code);
}
SCULLER_EXPORT_C CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* n, CUdeviceptr p) {
  wire::PointerReply reply;
  if (const int code = pointer_info(p, reply); code != 0) return result(code);
  if (reply.kind == wire::MemoryKind::kNone) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = reply.begin;
  if (n != nullptr) *n = reply.bytes;
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute,
                                                CUdeviceptr p) {
  wire::PointerReply reply;
  if (const int code = pointer_info(p, reply); code != 0) return result(code);
  if (reply.kind == wire::MemoryKind::kNone) return CUDA_ERROR_INVALID_VALUE;
  const bool on_host =
      reply.kind == wire::MemoryKind::kPinned || reply.kind == wire::MemoryKind::kManaged;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = handle_of<CUcontext>(1);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(out) = on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(out) = p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!on_host) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(out) = reinterpret_cast<void*>(p);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<bool*>(out) = reply.kind == wire::MemoryKind::kManaged;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = reply.rank;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(out) = reply.begin;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(out) = reply.bytes;
      return CUDA_SUCCESS;
    default:
      return not_supported("cuPointerGetAttribute",
                           ("attribute " + std::to_string(attribute)).c_str());
  }
}

SCULLER_EXPORT_C CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy(to, from, n, nullptr, true);
}
SCULLER_EXPORT_C CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(to, from, n, s, false);
}
SCULLER_EXPORT_C CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t n) {
  return copy(to, number(from), n, nullptr, true);
}
SCULLER_EXPORT_C CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t n) {
  return copy(number(to), from, n, nullptr, true);
}
SCULLER_EXPORT_C CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy(to, from, n, nullptr, true);
}
SCULLER_EXPORT_C CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t n,
                                               CUstream s) {
  return copy(to, number(from), n, s, false);
}
SCULLER_EXPORT_C CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(number(to), from, n, s, false);
}
SCULLER_EXPORT_C CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n,
                                               CUstream s) {
  return copy(to, from, n, s, false);
}

SCULLER_EXPORT_C CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n) {
  return fill(to, n, v, 1, n, 1, nullptr, true);
}
SCULLER_EXPORT_C CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short v, size_t n) {
  return fill(to, n, v, 2, n, 1, nullptr, true);
}
SCULLER_EXPORT_C CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned v, size_t n) {
  return fill(to, n, v, 4, n, 1, nullptr, true);
}
SCULLER_EXPORT_C CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
  return fill(to, n, v, 1, n, 1, s, false);
}
SCULLER_EXPORT_C CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream s) {
  return fill(to, n, v, 2, n, 1, s, false);
}
SCULLER_EXPORT_C CUresult cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream s) {
  return fill(to, n, v, 4, n, 1, s, false);
}
SCULLER_EXPORT_C CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned v, size_t width,
                                             size_t height, CUstream s) {
  return fill(to, pitch, v, 4, width, height, s, false);
}

}  // namespace sculler::emu::cuda
