// GIN as NCCL's proxy backend presents it to device code: a queue of descriptors a context and
// peer, which the VM serves.
#include <nccl_device/gin/proxy/gin_proxy_device_host_common.h>

#include "library.h"

namespace sculler::emu::nccl {

ncclResult_t fill_gin(const ncclComm& comm, uint64_t window, const ncclDevCommRequirements_t& need,
                      ncclDevComm_t& out) {
  wire::GinInfo request;
  request.window = window;
  wire::GinReply info;
  if (const int code = client::call(request, info); code != 0) return result(code);
  const std::size_t n = info.queues.size();
  if (n == 0 || n > NCCL_GIN_MAX_CONTEXTS || info.produced.size() != n ||
      info.consumed.size() != n || info.counters.size() != n || info.signal_words.size() != n) {
    return ncclInternalError;
  }
  uint64_t contexts = 0;
  if (const ncclResult_t code = allocate_internal(n * sizeof(ncclGinProxyGpuCtx_t), contexts);
      code != ncclSuccess)
    return code;
  ncclGinProxyGpuCtx_t filled[NCCL_GIN_MAX_CONTEXTS] = {};
  for (std::size_t c = 0; c < n; ++c) {
    ncclGinProxyGpuCtx_t& context = filled[c];
    context.nranks = comm.info.n_ranks;
    context.queueSize = info.queue_size;
    context.queues = reinterpret_cast<ncclGinProxyGfd_t*>(info.queues[c]);
    context.pis = reinterpret_cast<uint32_t*>(info.produced[c]);
    context.cis = reinterpret_cast<uint32_t*>(info.consumed[c]);
    context.counters = reinterpret_cast<uint64_t*>(info.counters[c]);
    context.signals = reinterpret_cast<uint64_t*>(info.signal_words[c]);
    out.ginTypes[c] = static_cast<uint8_t>(NCCL_NET_DEVICE_GIN_PROXY);
    out.ginHandles[c] = reinterpret_cast<void*>(contexts + c * sizeof(ncclGinProxyGpuCtx_t));
  }
  out.ginContextCount = static_cast<uint8_t>(n);
  // Shadows have a stride of ginSignalCount, the barriers' signals included.
  out.ginSignalCount = static_cast<int>(info.signals);
  out.ginCounterCount = need.ginCounterCount;
  out.ginSignalShadows = reinterpret_cast<uint64_t*>(info.shadows);
  out.railGinBarrier.signal0 = info.barrier_signal;
  return write_internal(contexts, filled, n * sizeof(ncclGinProxyGpuCtx_t));
}

}  // namespace sculler::emu::nccl
