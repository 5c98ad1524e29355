// Host collectives and point-to-point.
#include "library.h"

namespace sculler::emu::nccl {
namespace {
using Kind = wire::CollectiveKind;

ncclResult_t post(Kind kind, const void* send, void* receive, size_t count, ncclDataType_t type,
                  int op, int peer, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return ncclInvalidArgument;
  wire::Collective request;
  request.kind = kind;
  request.comm = comm->id;
  request.send = number(send);
  request.receive = number(receive);
  request.count = count;
  request.stream = number(stream);
  request.dtype = static_cast<uint32_t>(type);
  request.reduction = static_cast<uint32_t>(op);
  request.peer = peer;
  return result(client::call(request));
}

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

// Several sends and receives as one operation.
template <class Body>
ncclResult_t group(Body body) {
  ncclResult_t code = ncclGroupStart();
  if (code != ncclSuccess) return code;
  code = body();
  const ncclResult_t end = ncclGroupEnd();
  return code != ncclSuccess ? code : end;
}
const char* at(const void* base, size_t bytes) { return static_cast<const char*>(base) + bytes; }
char* at(void* base, size_t bytes) { return static_cast<char*>(base) + bytes; }
}  // namespace

SCULLER_EXPORT_C ncclResult_t ncclAllGather(const void* send, void* receive, size_t count,
                                            ncclDataType_t type, ncclComm_t comm,
                                            cudaStream_t stream) {
  return post(Kind::kAllGather, send, receive, count, type, 0, 0, comm, stream);
}
SCULLER_NCCL_ALIAS(ncclAllGather);
SCULLER_EXPORT_C ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count,
                                            ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                            cudaStream_t stream) {
  return post(Kind::kAllReduce, send, receive, count, type, op, 0, comm, stream);
}
SCULLER_NCCL_ALIAS(ncclAllReduce);
SCULLER_EXPORT_C ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count,
                                                ncclDataType_t type, ncclRedOp_t op,
                                                ncclComm_t comm, cudaStream_t stream) {
  return post(Kind::kReduceScatter, send, receive, count, type, op, 0, comm, stream);
}
SCULLER_NCCL_ALIAS(ncclReduceScatter);
SCULLER_EXPORT_C ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count,
                                            ncclDataType_t type, int root, ncclComm_t comm,
                                            cudaStream_t stream) {
  return post(Kind::kBroadcast, send, receive, count, type, 0, root, comm, stream);
}
SCULLER_NCCL_ALIAS(ncclBroadcast);
SCULLER_EXPORT_C ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                        ncclComm_t comm, cudaStream_t stream) {
  return post(Kind::kBroadcast, buffer, buffer, count, type, 0, root, comm, stream);
}
SCULLER_NCCL_ALIAS(ncclBcast);
SCULLER_EXPORT_C ncclResult_t ncclReduce(const void* send, void* receive, size_t count,
                                         ncclDataType_t type, ncclRedOp_t op, int root,
                                         ncclComm_t comm, cudaStream_t stream) {
  return post(Kind::kReduce, send, receive, count, type, op, root, comm, stream);
}
SCULLER_NCCL_ALIAS(ncclReduce);
SCULLER_EXPORT_C ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type,
                                       int peer, ncclComm_t comm, cudaStream_t stream) {
  return post(Kind::kSend, send, nullptr, count, type, 0, peer, comm, stream);
}
SCULLER_NCCL_ALIAS(ncclSend);
SCULLER_EXPORT_C ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer,
                                       ncclComm_t comm, cudaStream_t stream) {
  return post(Kind::kRecv, nullptr, receive, count, type, 0, peer, comm, stream);
}
SCULLER_NCCL_ALIAS(ncclRecv);

SCULLER_EXPORT_C ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count,
                                           ncclDataType_t type, ncclComm_t comm,
                                           cudaStream_t stream) {
  if (!know(comm)) return ncclInvalidArgument;
  const size_t bytes = count * bytes_of(type);
  return group([&] {
    for (int r = 0; r < comm->info.n_ranks; ++r) {
      const auto i = static_cast<size_t>(r);
      if (const auto code = ncclSend(at(send, i * bytes), count, type, r, comm, stream);
          code != ncclSuccess)
        return code;
      if (const auto code = ncclRecv(at(receive, i * bytes), count, type, r, comm, stream);
          code != ncclSuccess)
        return code;
    }
    return ncclSuccess;
  });
}
SCULLER_NCCL_ALIAS(ncclAlltoAll);
SCULLER_EXPORT_C ncclResult_t ncclGather(const void* send, void* receive, size_t count,
                                         ncclDataType_t type, int root, ncclComm_t comm,
                                         cudaStream_t stream) {
  if (!know(comm)) return ncclInvalidArgument;
  const size_t bytes = count * bytes_of(type);
  return group([&] {
    ncclResult_t code = ncclSend(send, count, type, root, comm, stream);
    for (int r = 0; code == ncclSuccess && comm->info.rank == root && r < comm->info.n_ranks; ++r) {
      code = ncclRecv(at(receive, static_cast<size_t>(r) * bytes), count, type, r, comm, stream);
    }
    return code;
  });
}
SCULLER_NCCL_ALIAS(ncclGather);
SCULLER_EXPORT_C ncclResult_t ncclScatter(const void* send, void* receive, size_t count,
                                          ncclDataType_t type, int root, ncclComm_t comm,
                                          cudaStream_t stream) {
  if (!know(comm)) return ncclInvalidArgument;
  const size_t bytes = count * bytes_of(type);
  return group([&] {
    ncclResult_t code = ncclRecv(receive, count, type, root, comm, stream);
    for (int r = 0; code == ncclSuccess && comm->info.rank == root && r < comm->info.n_ranks; ++r) {
      code = ncclSend(at(send, static_cast<size_t>(r) * bytes), count, type, r, comm, stream);
    }
    return code;
  });
}
SCULLER_NCCL_ALIAS(ncclScatter);

}  // namespace sculler::emu::nccl
