// Allocation, copies, fills, symbols and what is known of a pointer.
#include <algorithm>

#include "runtime.h"

namespace sculler::emu::cudart {
namespace {

cudaError_t allocate(void** out, size_t bytes, wire::MemoryKind kind, bool ordered = false,
                     cudaStream_t stream = nullptr) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  if (const cudaError_t error = use_device(); error != cudaSuccess) return finish(error);
  if (bytes == 0) {
    *out = nullptr;
    return finish(cudaSuccess);
  }
  wire::Allocate request;
  request.kind = kind;
  request.bytes = bytes;
  request.ordered = ordered;
  request.stream = number(stream);
  wire::AddressReply reply;
  const int code = client::call(request, reply);
  *out = reinterpret_cast<void*>(reply.address);
  return finish(code);
}

cudaError_t release(void* pointer, bool ordered = false, cudaStream_t stream = nullptr) {
  if (pointer == nullptr) return finish(cudaSuccess);
  wire::Free request;
  request.address = address(pointer);
  request.ordered = ordered;
  request.stream = number(stream);
  return finish(client::call(request));
}

// The direction that the caller names must fit; cudaMemcpyDefault infers it, and so do we in every
// other case.
bool direction_fits(const void* to, const void* from, cudaMemcpyKind kind) {
  const bool to_device = client::is_device(address(to)),
             from_device = client::is_device(address(from));
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return !from_device;
    case cudaMemcpyDeviceToHost: return !to_device;
    case cudaMemcpyDeviceToDevice:
    case cudaMemcpyDefault: return true;
    default: return false;
  }
}

cudaError_t copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                 size_t height, cudaMemcpyKind kind, cudaStream_t stream, bool blocking) {
  if (!direction_fits(to, from, kind)) return finish(cudaErrorInvalidMemcpyDirection);
  return finish(client::copy(address(to), to_pitch, address(from), from_pitch, width, height,
                             number(stream), blocking));
}

cudaError_t fill(void* to, size_t pitch, int value, size_t width, size_t height,
                 cudaStream_t stream, bool blocking) {
  if (width == 0 || height == 0) return finish(cudaSuccess);
  wire::Fill request;
  request.to = address(to);
  request.pitch = pitch;
  request.width = width;
  request.height = height;
  request.value = static_cast<uint8_t>(value);
  request.stream = number(stream);
  request.blocking = blocking;
  return finish(client::call(request));
}

cudaError_t to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                      cudaMemcpyKind kind, cudaStream_t stream, bool blocking) {
  uint64_t at = 0, size = 0;
  if (const int code = symbol_of(symbol, at, size); code != client::kSuccess) return finish(code);
  if (offset > size || bytes > size - offset) return finish(cudaErrorInvalidValue);
  return copy(reinterpret_cast<void*>(at + offset), bytes, from, bytes, bytes, 1, kind, stream,
              blocking);
}
cudaError_t from_symbol(void* to, const void* symbol, size_t bytes, size_t offset,
                        cudaMemcpyKind kind, cudaStream_t stream, bool blocking) {
  uint64_t at = 0, size = 0;
  if (const int code = symbol_of(symbol, at, size); code != client::kSuccess) return finish(code);
  if (offset > size || bytes > size - offset) return finish(cudaErrorInvalidValue);
  return copy(to, bytes, reinterpret_cast<const void*>(at + offset), bytes, bytes, 1, kind, stream,
              blocking);
}

}  // namespace

SCULLER_EXPORT_C cudaError_t cudaMalloc(void** out, size_t bytes) {
  return allocate(out, bytes, wire::MemoryKind::kDevice);
}
SCULLER_EXPORT_C cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) {
  return allocate(out, bytes, wire::MemoryKind::kDevice, true, stream);
}
SCULLER_EXPORT_C cudaError_t cudaMallocHost(void** out, size_t bytes) {
  return allocate(out, bytes, wire::MemoryKind::kPinned);
}
SCULLER_EXPORT_C cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) {
  return allocate(out, bytes, wire::MemoryKind::kPinned);
}
SCULLER_EXPORT_C cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned) {
  return allocate(out, bytes, wire::MemoryKind::kManaged);
}
SCULLER_EXPORT_C cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width,
                                             size_t height) {
  if (pitch == nullptr) return finish(cudaErrorInvalidValue);
  *pitch = (width + 511) / 512 * 512;
  return allocate(out, *pitch * height, wire::MemoryKind::kDevice);
}
SCULLER_EXPORT_C cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr)
    return finish(client::world() == nullptr ? cudaErrorNoDevice : cudaSuccess);
  return release(pointer);
}
SCULLER_EXPORT_C cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return release(pointer, true, stream);
}
SCULLER_EXPORT_C cudaError_t cudaFreeHost(void* pointer) { return release(pointer); }

SCULLER_EXPORT_C cudaError_t cudaHostGetDevicePointer(void** out, void* host, unsigned) {
  if (!client::is_host(address(host))) return finish(cudaErrorInvalidValue);
  *out = host;  // the VM maps host memory at the same address
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  if (!client::is_host(address(host))) return finish(cudaErrorInvalidValue);
  *flags = cudaHostAllocMapped;
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaHostRegister(void*, size_t, unsigned) {
  return not_supported("cudaHostRegister", "take memory from cudaHostAlloc");
}

SCULLER_EXPORT_C cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  wire::MemoryReply reply;
  const int code = client::call(wire::MemoryInfo{}, reply);
  *free_bytes = reply.free_bytes;
  *total_bytes = reply.total_bytes;
  return finish(code);
}

SCULLER_EXPORT_C cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out,
                                                      const void* pointer) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  *out = {};
  out->type = cudaMemoryTypeUnregistered;
  out->device = -2;  // cudaInvalidDeviceId
  if (!client::is_device(address(pointer)) && !client::is_host(address(pointer)))
    return finish(cudaSuccess);
  wire::PointerInfo request;
  request.address = address(pointer);
  wire::PointerReply reply;
  if (const int code = client::call(request, reply); code != client::kSuccess) return finish(code);
  auto* const same = const_cast<void*>(pointer);
  switch (reply.kind) {
    case wire::MemoryKind::kDevice:
    case wire::MemoryKind::kNccl:
      out->type = cudaMemoryTypeDevice;
      out->device = reply.rank;
      out->devicePointer = same;
      break;
    case wire::MemoryKind::kPinned:
      out->type = cudaMemoryTypeHost;
      out->device = current_device();
      out->devicePointer = out->hostPointer = same;
      break;
    case wire::MemoryKind::kManaged:
      out->type = cudaMemoryTypeManaged;
      out->device = current_device();
      out->devicePointer = out->hostPointer = same;
      break;
    case wire::MemoryKind::kNone: break;
  }
  return finish(cudaSuccess);
}

SCULLER_EXPORT_C cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                                        cudaMemcpyKind kind) {
  return copy(to, bytes, from, bytes, bytes, 1, kind, nullptr, true);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                             cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, bytes, from, bytes, bytes, 1, kind, stream, false);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from,
                                          size_t from_pitch, size_t width, size_t height,
                                          cudaMemcpyKind kind) {
  return copy(to, to_pitch, from, from_pitch, width, height, kind, nullptr, true);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                               size_t from_pitch, size_t width, size_t height,
                                               cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, to_pitch, from, from_pitch, width, height, kind, stream, false);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return copy(to, bytes, from, bytes, bytes, 1, cudaMemcpyDefault, nullptr, true);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                                 cudaStream_t stream) {
  return copy(to, bytes, from, bytes, bytes, 1, cudaMemcpyDefault, stream, false);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes,
                                                size_t offset, cudaMemcpyKind kind) {
  return to_symbol(symbol, from, bytes, offset, kind, nullptr, true);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from,
                                                     size_t bytes, size_t offset,
                                                     cudaMemcpyKind kind, cudaStream_t stream) {
  return to_symbol(symbol, from, bytes, offset, kind, stream, false);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes,
                                                  size_t offset, cudaMemcpyKind kind) {
  return from_symbol(to, symbol, bytes, offset, kind, nullptr, true);
}
SCULLER_EXPORT_C cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes,
                                                       size_t offset, cudaMemcpyKind kind,
                                                       cudaStream_t stream) {
  return from_symbol(to, symbol, bytes, offset, kind, stream, false);
}

SCULLER_EXPORT_C cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return fill(to, bytes, value, bytes, 1, nullptr, true);
}
SCULLER_EXPORT_C cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                                             cudaStream_t stream) {
  return fill(to, bytes, value, bytes, 1, stream, false);
}
SCULLER_EXPORT_C cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width,
                                          size_t height) {
  return fill(to, pitch, value, width, height, nullptr, true);
}
SCULLER_EXPORT_C cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width,
                                               size_t height, cudaStream_t stream) {
  return fill(to, pitch, value, width, height, stream, false);
}

// Advice on managed memory: there are no pages to move.
SCULLER_EXPORT_C cudaError_t cudaMemAdvise(const void* pointer, size_t, cudaMemoryAdvise,
                                           cudaMemLocation) {
  return finish(client::is_host(address(pointer)) ? cudaSuccess : cudaErrorInvalidValue);
}
SCULLER_EXPORT_C cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t, cudaMemLocation,
                                                  unsigned, cudaStream_t) {
  return finish(client::is_host(address(pointer)) ? cudaSuccess : cudaErrorInvalidValue);
}

// The default pool: one that keeps nothing, so its release threshold means nothing.
SCULLER_EXPORT_C cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  const wire::HelloReply* w = client::world();
  if (w == nullptr || device < 0 || device >= w->n_ranks) return finish(cudaErrorInvalidDevice);
  *pool = handle_of<cudaMemPool_t>(1);
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}
SCULLER_EXPORT_C cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                     void*) {
  if (number(pool) != 1) return finish(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
    case cudaMemPoolAttrReleaseThreshold: return finish(cudaSuccess);
    default:
      return not_supported("cudaMemPoolSetAttribute",
                           ("attribute " + std::to_string(attribute)).c_str());
  }
}
SCULLER_EXPORT_C cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  return finish(number(pool) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

SCULLER_EXPORT_C cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return not_supported("cudaIpcGetMemHandle", "peers reach memory through NCCL windows");
}
SCULLER_EXPORT_C cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return not_supported("cudaIpcOpenMemHandle", "peers reach memory through NCCL windows");
}

}  // namespace sculler::emu::cudart
