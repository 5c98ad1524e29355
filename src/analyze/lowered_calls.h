// The pieces of lowered_text.h, as CUDA text: host code that takes the place of NCCL's calls.
#pragma once

#include <string_view>

namespace sculler::analyze::pieces {

inline constexpr std::string_view kFind =
    R"(// The window that holds [pointer, pointer + bytes).
inline bool find(const void* pointer, size_t bytes, size_t* index, size_t* offset) {
  const auto* begin = static_cast<const char*>(pointer);
  for (size_t i = 0; i < context.windows.size(); ++i) {
    const Window& window = context.windows[i];
    if (begin < window.begin || begin >= window.begin + window.bytes) continue;
    if (bytes > static_cast<size_t>(window.begin + window.bytes - begin)) break;
    *index = i;
    *offset = window.offset + static_cast<size_t>(begin - window.begin);
    return true;
  }
  fprintf(stderr, "%zu bytes at %p lie in no window\n", bytes, pointer);
  return false;
}
[[maybe_unused]] inline bool find(const void* pointer, size_t bytes, Place* place) {
  size_t index = 0;
  if (!find(pointer, bytes, &index, &place->offset)) return false;
  place->window = context.windows[index].window;
  return true;
}

)";
inline constexpr std::string_view kSizeOf = R"(inline size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 4;
  }
}

)";
inline constexpr std::string_view kStartBegin =
    R"(inline ncclResult_t start([[maybe_unused]] cudaStream_t stream, const std::function<void()>& kernel) {
)";
inline constexpr std::string_view kStartOrder =
    R"(  // Collectives of one communicator run in the order of their calls, whatever their streams.
  if (context.any && stream != context.last && cudaStreamWaitEvent(stream, context.done, 0) != cudaSuccess)
    return ncclUnhandledCudaError;
)";
inline constexpr std::string_view kStartRecord =
    R"(  if (cudaEventRecord(context.done, stream) != cudaSuccess) return ncclUnhandledCudaError;
  context.last = stream;
  context.any = true;
)";
inline constexpr std::string_view kStartEnd =
    R"(  return cudaGetLastError() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
)";
inline constexpr std::string_view kLaunchPlain =
    R"(inline ncclResult_t launch(cudaStream_t stream, const std::function<void()>& kernel) { return start(stream, kernel); }

)";
inline constexpr std::string_view kLaunchGrouped =
    R"(// At once, or when the outermost group ends.
inline ncclResult_t launch(cudaStream_t stream, const std::function<void()>& kernel) {
  if (context.depth == 0) return start(stream, kernel);
  context.waiting.push_back([=] { return start(stream, kernel); });
  return ncclSuccess;
}

)";
inline constexpr std::string_view kAllGather =
    R"(inline ncclResult_t all_gather(const void* send, void* receive, size_t count, ncclDataType_t type, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  Place to;
  if (bytes == 0) return ncclSuccess;
  if (!find(receive, bytes * context.n_ranks, &to)) return ncclInvalidArgument;
  return launch(stream, [=] {
    all_gather_kernel<<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, send, to, bytes);
  });
}

)";
inline constexpr std::string_view kAllReduce = R"(template <class T, class Operation>
ncclResult_t all_reduce(const void* send, void* receive, size_t count, Operation, cudaStream_t stream) {
  Place from, to;
  if (count == 0) return ncclSuccess;
  if (!find(send, count * sizeof(T), &from) || !find(receive, count * sizeof(T), &to)) return ncclInvalidArgument;
  return launch(stream, [=] {
    all_reduce_kernel<T, Operation><<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, from, to, count);
  });
}

)";
inline constexpr std::string_view kReduceScatter = R"(template <class T, class Operation>
ncclResult_t reduce_scatter(const void* send, void* receive, size_t count, Operation, cudaStream_t stream) {
  Place from, to;
  if (count == 0) return ncclSuccess;
  if (!find(send, count * sizeof(T) * context.n_ranks, &from) || !find(receive, count * sizeof(T), &to))
    return ncclInvalidArgument;
  return launch(stream, [=] {
    reduce_scatter_kernel<T, Operation><<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, from, to, count);
  });
}

)";
inline constexpr std::string_view kReduce = R"(template <class T, class Operation>
ncclResult_t reduce_to(const void* send, void* receive, size_t count, Operation, int root, cudaStream_t stream) {
  Place from, to;
  if (count == 0) return ncclSuccess;
  if (!find(send, count * sizeof(T), &from) || !find(receive, count * sizeof(T), &to)) return ncclInvalidArgument;
  return launch(stream, [=] {
    reduce_kernel<T, Operation><<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, from, to, count, root);
  });
}

)";
inline constexpr std::string_view kBroadcast =
    R"(inline ncclResult_t broadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                              cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  Place to;
  if (bytes == 0) return ncclSuccess;
  if (!find(receive, bytes, &to)) return ncclInvalidArgument;
  return launch(stream, [=] {
    broadcast_kernel<<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, send, to, bytes, root);
  });
}

)";
inline constexpr std::string_view kAllToAll =
    R"(inline ncclResult_t all_to_all(const void* send, void* receive, size_t count, ncclDataType_t type, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  Place to;
  if (bytes == 0) return ncclSuccess;
  if (!find(receive, bytes * context.n_ranks, &to)) return ncclInvalidArgument;
  return launch(stream, [=] {
    all_to_all_kernel<<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, send, to, bytes);
  });
}

)";
inline constexpr std::string_view kGather =
    R"(inline ncclResult_t gather(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  Place to;
  if (bytes == 0) return ncclSuccess;
  if (!find(receive, bytes * context.n_ranks, &to)) return ncclInvalidArgument;
  return launch(stream, [=] {
    gather_kernel<<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, send, to, bytes, root);
  });
}

)";
inline constexpr std::string_view kScatter =
    R"(inline ncclResult_t scatter(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                            cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  Place to;
  if (bytes == 0) return ncclSuccess;
  if (!find(receive, bytes, &to)) return ncclInvalidArgument;
  return launch(stream, [=] {
    scatter_kernel<<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, send, to, bytes, root);
  });
}

)";
inline constexpr std::string_view kSendRecv =
    R"(inline ncclResult_t send(const void* from, size_t count, ncclDataType_t type, int peer, cudaStream_t) {
  Exchange& group = context.exchange;
  const size_t bytes = count * size_of(type);
  if (bytes == 0) return ncclSuccess;
  if (peer < 0 || peer >= context.n_ranks) return ncclInvalidArgument;
  if (group.n_sends == kMoves || context.sent[peer] == kLettersAPair) return ncclInvalidUsage;  // raise the limit
  group.send[group.n_sends++] = {from, bytes, peer, context.sent[peer]++};
  return ncclSuccess;
}
inline ncclResult_t receive(void* to, size_t count, ncclDataType_t type, int peer, cudaStream_t) {
  Exchange& group = context.exchange;
  const size_t bytes = count * size_of(type);
  size_t window = 0, offset = 0;
  if (bytes == 0) return ncclSuccess;
  if (peer < 0 || peer >= context.n_ranks || !find(to, bytes, &window, &offset)) return ncclInvalidArgument;
  if (group.n_receives == kMoves || context.received[peer] == kLettersAPair) return ncclInvalidUsage;
  group.receive[group.n_receives++] = {offset, bytes, static_cast<uint32_t>(window), static_cast<int16_t>(peer),
                                       static_cast<int16_t>(context.received[peer]++)};
  return ncclSuccess;
}

)";
inline constexpr std::string_view kGroup = R"(inline ncclResult_t group_start() {
  ++context.depth;
  return ncclSuccess;
}
inline ncclResult_t group_end() {
  if (context.depth == 0) return ncclInvalidUsage;
  if (--context.depth > 0) return ncclSuccess;
  const auto waiting = std::move(context.waiting);
  context.waiting.clear();
  for (const auto& one : waiting) {
    if (const ncclResult_t code = one(); code != ncclSuccess) return code;
  }
  return ncclSuccess;
}
)";
inline constexpr std::string_view kGroupExchange =
    R"(// Of a group with sends and receives: every rank takes part, also one that has none of them.
inline ncclResult_t group_end(cudaStream_t stream) {
  if (const ncclResult_t code = group_end(); code != ncclSuccess || context.depth > 0) return code;
  const ncclResult_t code = start(stream, [=] {
    exchange_kernel<<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, context.mailbox, context.table,
                                                                  context.exchange, ++context.phase);
  });
  context.exchange.n_sends = context.exchange.n_receives = 0;
  context.sent.assign(context.sent.size(), 0);
  context.received = context.sent;
  return code;
}
)";

}  // namespace sculler::analyze::pieces
