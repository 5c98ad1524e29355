// Communicators, groups, versions, errors, memory.
#include <cstdio>
#include <cstring>
#include <new>

#include "library.h"

namespace sculler::emu::nccl {
namespace {
thread_local int t_depth = 0;
thread_local std::vector<std::function<ncclResult_t()>> t_after;

ncclResult_t init(ncclComm_t* out, int n_ranks, const ncclUniqueId& id, int rank) {
  if (out == nullptr || n_ranks < 1 || rank < 0 || rank >= n_ranks) return ncclInvalidArgument;
  *out = nullptr;
  wire::CommInit request;
  static_assert(sizeof id.internal == wire::kUniqueIdBytes);
  std::memcpy(request.id.data(), id.internal, request.id.size());
  request.n_ranks = n_ranks;
  request.rank = rank;
  wire::HandleReply reply;
  const int code = client::call(request, reply);
  if (code != 0) return result(code);
  *out = new ncclComm;
  (*out)->id = reply.handle;
  return ncclSuccess;
}
}  // namespace

bool know(ncclComm_t comm) {
  if (comm == nullptr) return false;
  if (comm->known) return true;
  wire::CommInfo request;
  request.comm = comm->id;
  comm->known = client::call(request, comm->info) == 0;
  return comm->known;
}

ncclResult_t after_group(std::function<ncclResult_t()> then) {
  if (t_depth == 0) return then();
  t_after.push_back(std::move(then));
  return ncclSuccess;
}

SCULLER_EXPORT_C ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclGetVersion);

SCULLER_EXPORT_C ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  wire::UniqueIdReply reply;
  const int code = client::call(wire::UniqueId{}, reply);
  std::memcpy(id->internal, reply.id.data(), sizeof id->internal);
  return result(code);
}
SCULLER_NCCL_ALIAS(ncclGetUniqueId);

SCULLER_EXPORT_C ncclResult_t ncclCommInitRank(ncclComm_t* comm, int n_ranks, ncclUniqueId id,
                                               int rank) {
  return init(comm, n_ranks, id, rank);
}
SCULLER_NCCL_ALIAS(ncclCommInitRank);
// A non-blocking communicator may be finished at once: this one always is.
SCULLER_EXPORT_C ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int n_ranks, ncclUniqueId id,
                                                     int rank, ncclConfig_t*) {
  return init(comm, n_ranks, id, rank);
}
SCULLER_NCCL_ALIAS(ncclCommInitRankConfig);
SCULLER_EXPORT_C ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int n_ranks, int rank,
                                                       int n_ids, ncclUniqueId* ids,
                                                       ncclConfig_t*) {
  if (n_ids < 1 || ids == nullptr) return ncclInvalidArgument;
  return init(comm, n_ranks, ids[0], rank);
}
SCULLER_NCCL_ALIAS(ncclCommInitRankScalable);
SCULLER_EXPORT_C ncclResult_t ncclCommInitAll(ncclComm_t* comm, int n_devices, const int*) {
  if (n_devices != 1) {
    client::unsupported("ncclCommInitAll",
                        "several devices in one process; start one process a device");
    return ncclInvalidUsage;
  }
  ncclUniqueId id;
  const ncclResult_t got = ncclGetUniqueId(&id);
  return got != ncclSuccess ? got : init(comm, 1, id, 0);
}
SCULLER_NCCL_ALIAS(ncclCommInitAll);

SCULLER_EXPORT_C ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out,
                                            ncclConfig_t*) {
  if (comm == nullptr || out == nullptr) return ncclInvalidArgument;
  *out = nullptr;
  wire::CommSplit request;
  request.comm = comm->id;
  request.color = color;
  request.key = key;
  wire::HandleReply reply;
  const int code = client::call(request, reply);
  if (code == 0 && reply.handle != 0) {
    *out = new ncclComm;
    (*out)->id = reply.handle;
  }
  return result(code);
}
SCULLER_NCCL_ALIAS(ncclCommSplit);

SCULLER_EXPORT_C ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  return result(client::call(wire::DeviceSynchronize{}));
}
SCULLER_NCCL_ALIAS(ncclCommFinalize);
SCULLER_EXPORT_C ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  wire::CommDestroy request;
  request.handle = comm->id;
  const int code = client::call(request);
  if (code == 0) delete comm;
  return result(code);
}
SCULLER_NCCL_ALIAS(ncclCommDestroy);
SCULLER_EXPORT_C ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  wire::CommAbort request;
  request.handle = comm->id;
  const int code = client::call(request);
  if (code == 0) delete comm;
  return result(code);
}
SCULLER_NCCL_ALIAS(ncclCommAbort);

SCULLER_EXPORT_C ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (!know(comm) || count == nullptr) return ncclInvalidArgument;
  *count = comm->info.n_ranks;
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclCommCount);
SCULLER_EXPORT_C ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (!know(comm) || rank == nullptr) return ncclInvalidArgument;
  *rank = comm->info.rank;
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclCommUserRank);
SCULLER_EXPORT_C ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (!know(comm) || device == nullptr) return ncclInvalidArgument;
  *device = client::world()->rank;
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclCommCuDevice);
SCULLER_EXPORT_C ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  wire::CommInfo request;
  request.comm = comm->id;
  wire::CommReply reply;
  const int code = client::call(request, reply);
  *error = reply.broken ? ncclRemoteError : ncclSuccess;
  return result(code);
}
SCULLER_NCCL_ALIAS(ncclCommGetAsyncError);

SCULLER_EXPORT_C const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}
SCULLER_NCCL_ALIAS(ncclGetErrorString);
SCULLER_EXPORT_C const char* ncclGetLastError(ncclComm_t) {
  static thread_local std::string text;
  text = client::last_failure();
  return text.c_str();
}
SCULLER_NCCL_ALIAS(ncclGetLastError);
SCULLER_EXPORT_C void ncclResetDebugInit() {}
SCULLER_NCCL_ALIAS(ncclResetDebugInit);

SCULLER_EXPORT_C ncclResult_t ncclGroupStart() {
  const int code = client::call(wire::GroupStart{});
  if (code == 0) ++t_depth;
  return result(code);
}
SCULLER_NCCL_ALIAS(ncclGroupStart);
SCULLER_EXPORT_C ncclResult_t ncclGroupEnd() {
  if (t_depth == 0) return ncclInvalidUsage;
  const int code = client::call(wire::GroupEnd{});
  if (--t_depth > 0) return result(code);
  auto after = std::move(t_after);
  t_after.clear();
  if (code != 0) return result(code);
  for (const auto& then : after) {
    if (const ncclResult_t done = then(); done != ncclSuccess) return done;
  }
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclGroupEnd);

SCULLER_EXPORT_C ncclResult_t ncclMemAlloc(void** out, size_t bytes) {
  if (out == nullptr || bytes == 0) return ncclInvalidArgument;
  wire::NcclAllocate request;
  request.bytes = bytes;
  wire::AddressReply reply;
  const int code = client::call(request, reply);
  *out = reinterpret_cast<void*>(reply.address);
  return result(code);
}
SCULLER_NCCL_ALIAS(ncclMemAlloc);
SCULLER_EXPORT_C ncclResult_t ncclMemFree(void* pointer) {
  if (pointer == nullptr) return ncclSuccess;
  wire::NcclFree request;
  request.handle = number(pointer);
  return result(client::call(request));
}
SCULLER_NCCL_ALIAS(ncclMemFree);

// Registration of user buffers is a matter of speed alone.
SCULLER_EXPORT_C ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t,
                                               void** handle) {
  if (comm == nullptr || handle == nullptr) return ncclInvalidArgument;
  *handle = buffer;
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclCommRegister);
SCULLER_EXPORT_C ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return comm == nullptr ? ncclInvalidArgument : ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclCommDeregister);

SCULLER_EXPORT_C ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t*, void*, ncclDataType_t,
                                                       ncclScalarResidence_t, ncclComm_t) {
  client::unsupported("ncclRedOpCreatePreMulSum", "reduce with ncclSum and scale in a kernel");
  return ncclInvalidUsage;
}
SCULLER_NCCL_ALIAS(ncclRedOpCreatePreMulSum);

}  // namespace sculler::emu::nccl
