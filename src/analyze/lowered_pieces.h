// The pieces of lowered_text.h, as CUDA text.
#pragma once

#include <string_view>

namespace sculler::analyze::pieces {

// ---- Infrastructure.

inline constexpr std::string_view kTunables = R"(// sculler:tune LOWERED_CTAS in {4,8,16,32,64}
#ifndef LOWERED_CTAS
#define LOWERED_CTAS 16
#endif
// sculler:tune LOWERED_THREADS in {128,256,512}
#ifndef LOWERED_THREADS
#define LOWERED_THREADS 512
#endif

)";

inline constexpr std::string_view kExchangeTypes =
    R"(// A group of sends and receives is one kernel. A receiver writes a letter about each receive; the sender reads where
// to store. Letters of one pair of ranks are numbered in the order of the calls.
constexpr int kMoves = 48;            // sends, and receives, that one group may hold on a rank
constexpr int kLettersAPair = 16;     // of them between two ranks
constexpr size_t kMostWindows = 1024;

struct Letter {
  uint64_t offset, bytes;
  uint32_t window;  // index into Context::windows: the same memory on every rank
  uint32_t phase;
};
struct Send {
  const void* from;
  uint64_t bytes;
  int32_t to, number;
};
struct Receive {
  uint64_t offset, bytes;
  uint32_t window;
  int16_t from, number;
};
struct Exchange {
  int n_sends, n_receives;
  Send send[kMoves];
  Receive receive[kMoves];
};

)";

inline constexpr std::string_view kContextBegin =
    R"(// Memory that every rank has registered in the same order: index i means the same window on all ranks.
struct Window {
  char* begin;
  size_t bytes;
  ncclWindow_t window;
  size_t offset;  // of `begin` in the window
};

struct Context {
  ncclComm_t host_comm = nullptr;
  ncclDevComm comm{};
  std::vector<Window> windows;
)";
inline constexpr std::string_view kContextGroups =
    R"(  int depth = 0;  // of ncclGroupStart
  std::vector<std::function<ncclResult_t()>> waiting;  // until the outermost group ends
)";
inline constexpr std::string_view kContextStreams =
    R"(  cudaEvent_t done = nullptr;  // after the last collective: the next one follows it, on whatever stream
  cudaStream_t last = nullptr;
  bool any = false;
)";
inline constexpr std::string_view kContextExchange =
    R"(  Exchange exchange{};           // of the group that is open
  std::vector<int> sent, received;  // numbers of letters, a peer
  void* mail = nullptr;             // [CTA][sender][number] letters
  ncclWindow_t mailbox = nullptr;
  ncclWindow_t* table = nullptr;    // windows[i].window, for kernels
  unsigned phase = 0;
)";
inline constexpr std::string_view kContextEnd = R"(};
Context context;

)";

inline constexpr std::string_view kPublish = R"(inline bool publish_windows() {
  if (context.windows.size() > kMostWindows) return false;
  std::vector<ncclWindow_t> handles;
  for (const Window& window : context.windows) handles.push_back(window.window);
  return context.table == nullptr || handles.empty() ||
         cudaMemcpy(context.table, handles.data(), handles.size() * sizeof(ncclWindow_t), cudaMemcpyHostToDevice) ==
             cudaSuccess;
}

)";

inline constexpr std::string_view kRemember =
    R"(inline bool remember(void* begin, size_t bytes, ncclWindow_t window, size_t offset) {
  context.windows.push_back({static_cast<char*>(begin), bytes, window, offset});
  return true;
}

)";
inline constexpr std::string_view kRememberAndPublish =
    R"(inline bool remember(void* begin, size_t bytes, ncclWindow_t window, size_t offset) {
  context.windows.push_back({static_cast<char*>(begin), bytes, window, offset});
  return publish_windows();
}

)";

inline constexpr std::string_view kScratch =
    R"(// cudaMalloc for memory that peers reach: collective, of one size and in one order on all ranks.
template <class T>
cudaError_t window_malloc(T** pointer, size_t bytes) {
  void* memory = nullptr;
  ncclWindow_t window = nullptr;
  if (bytes == 0) bytes = 1;
  if (ncclMemAlloc(&memory, bytes) != ncclSuccess) return cudaErrorMemoryAllocation;
  if (ncclCommWindowRegister(context.host_comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC) != ncclSuccess ||
      !remember(memory, bytes, window, 0))
    return cudaErrorMemoryAllocation;
  *pointer = static_cast<T*>(memory);
  return cudaSuccess;
}

// cudaFree for what window_malloc gave, and for all else.
inline cudaError_t window_free(void* pointer) {
  for (Window& window : context.windows) {
    if (pointer == nullptr || window.begin != pointer) continue;
    window.begin = nullptr;  // its index stays taken
    window.bytes = 0;
    if (ncclCommWindowDeregister(context.host_comm, window.window) != ncclSuccess ||
        ncclMemFree(pointer) != ncclSuccess)
      return cudaErrorInvalidValue;
    return cudaSuccess;
  }
  return cudaFree(pointer);
}

)";

inline constexpr std::string_view kRegisters = R"(// ncclCommWindowRegister that remembers.
inline ncclResult_t window_register(ncclComm_t comm, void* pointer, size_t bytes, ncclWindow_t* window, int flags) {
  const ncclResult_t code = ncclCommWindowRegister(comm, pointer, bytes, window, flags);
  if (code != ncclSuccess) return code;
  return remember(pointer, bytes, *window, 0) ? ncclSuccess : ncclSystemError;
}

)";

inline constexpr std::string_view kSetupBegin =
    R"(// Collective. Windows of the pool first, set by set; then what the program allocates for itself.
inline int setup(const sculler_rank* rank, const sculler_pool* pool) {
  if (rank->lsa_size != rank->n_ranks) return SCULLER_UNSUPPORTED_PROBLEM;  // peers are reached by load and store
  context = Context{};
  context.host_comm = static_cast<ncclComm_t>(rank->comm);
  for (uint32_t s = 0; s < pool->n_sets; ++s) {
    for (uint32_t b = 0; b < pool->set[s].n_buffers; ++b) {
      const sculler_buffer& buffer = pool->set[s].buffer[b];
      if (buffer.window != nullptr &&
          !remember(buffer.ptr, buffer.bytes, static_cast<ncclWindow_t>(buffer.window), buffer.offset))
        return SCULLER_ERROR;
    }
  }
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = LOWERED_CTAS;
  if (ncclDevCommCreate(context.host_comm, &requirements, &context.comm) != ncclSuccess) return SCULLER_ERROR;
  (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
)";
inline constexpr std::string_view kSetupExchange =
    R"(  context.sent.assign(static_cast<size_t>(rank->n_ranks), 0);
  context.received = context.sent;
  const size_t mail = LOWERED_CTAS * static_cast<size_t>(rank->n_ranks) * kLettersAPair * sizeof(Letter);
  if (ncclMemAlloc(&context.mail, mail) != ncclSuccess || cudaMemset(context.mail, 0, mail) != cudaSuccess ||
      cudaDeviceSynchronize() != cudaSuccess ||
      ncclCommWindowRegister(context.host_comm, context.mail, mail, &context.mailbox, NCCL_WIN_COLL_SYMMETRIC) !=
          ncclSuccess ||
      cudaMalloc(&context.table, kMostWindows * sizeof(ncclWindow_t)) != cudaSuccess || !publish_windows())
    return SCULLER_ERROR;
)";
inline constexpr std::string_view kSetupEnd = R"(  return SCULLER_OK;
}

inline void teardown() {
  (void)cudaDeviceSynchronize();
  (void)ncclDevCommDestroy(context.host_comm, &context.comm);
)";
inline constexpr std::string_view kTeardownExchange =
    R"(  (void)ncclCommWindowDeregister(context.host_comm, context.mailbox);
  (void)ncclMemFree(context.mail);
  (void)cudaFree(context.table);
  context.table = nullptr;
)";
inline constexpr std::string_view kTeardownEnd = "}\n";

// ---- Device code.

inline constexpr std::string_view kPlace =
    R"(// Every kernel below: the first barrier says that all ranks' streams have come here, so what they sent is ready and
// what they receive may be overwritten; the last one that all stores into this rank have arrived. CTA b meets the CTAs
// b of its peers alone; a grid is over when all of them have met.

struct Place {  // the same on every rank
  ncclWindow_t window;
  size_t offset;
};
template <class T>
__device__ T* at(Place place, int rank) {
  return static_cast<T*>(ncclGetLsaPointer(place.window, place.offset, rank));
}
__device__ inline size_t first_thread() { return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline size_t all_threads() { return static_cast<size_t>(gridDim.x) * blockDim.x; }

)";

inline constexpr std::string_view kCopy =
    R"(// All CTAs together copy `bytes` bytes, in the widest words that both ends allow.
template <class Word>
__device__ void copy_words(void* to, const void* from, size_t bytes) {
  constexpr int kBatch = 4;  // loads in flight, a thread
  auto* out = static_cast<Word*>(to);
  const auto* in = static_cast<const Word*>(from);
  const size_t words = bytes / sizeof(Word), step = all_threads();
  size_t i = first_thread();
  for (; i + (kBatch - 1) * step < words; i += kBatch * step) {
    Word word[kBatch];
    for (int k = 0; k < kBatch; ++k) word[k] = in[i + k * step];
    for (int k = 0; k < kBatch; ++k) out[i + k * step] = word[k];
  }
  for (; i < words; i += step) out[i] = in[i];
  for (size_t k = words * sizeof(Word) + first_thread(); k < bytes; k += step)
    static_cast<char*>(to)[k] = static_cast<const char*>(from)[k];
}
__device__ inline void copy(void* to, const void* from, size_t bytes) {
  if (to == from) return;  // in place
  const size_t both = reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from);
  if (both % 16 == 0) copy_words<uint4>(to, from, bytes);
  else if (both % 4 == 0) copy_words<uint32_t>(to, from, bytes);
  else if (both % 2 == 0) copy_words<uint16_t>(to, from, bytes);
  else copy_words<char>(to, from, bytes);
}

)";

inline constexpr std::string_view kWide =
    R"(// Half-precision numbers are reduced in float, rank 0 first, then 1, 2, …, and rounded once: the same bits on every
// rank and in every run.
template <class T>
__device__ T widen(T value) {
  return value;
}
template <class T>
struct Narrow {
  template <class A>
  __device__ static T from(A value) {
    return static_cast<T>(value);
  }
};
)";
inline constexpr std::string_view kWideHalf =
    R"(__device__ inline float widen(__half value) { return __half2float(value); }
template <>
struct Narrow<__half> {
  __device__ static __half from(float value) { return __float2half_rn(value); }
};
)";
inline constexpr std::string_view kWideBf16 =
    R"(__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
template <>
struct Narrow<__nv_bfloat16> {
  __device__ static __nv_bfloat16 from(float value) { return __float2bfloat16_rn(value); }
};
)";
inline constexpr std::string_view kSum = R"(struct Sum {
  template <class A>
  __device__ static A join(A a, A b) {
    return static_cast<A>(a + b);
  }
  template <class A>
  __device__ static A end(A a, int) {
    return a;
  }
};
)";
inline constexpr std::string_view kProduct = R"(struct Product {
  template <class A>
  __device__ static A join(A a, A b) {
    return static_cast<A>(a * b);
  }
  template <class A>
  __device__ static A end(A a, int) {
    return a;
  }
};
)";
inline constexpr std::string_view kMax = R"(struct Max {
  template <class A>
  __device__ static A join(A a, A b) {
    return a < b ? b : a;
  }
  template <class A>
  __device__ static A end(A a, int) {
    return a;
  }
};
)";
inline constexpr std::string_view kMin = R"(struct Min {
  template <class A>
  __device__ static A join(A a, A b) {
    return b < a ? b : a;
  }
  template <class A>
  __device__ static A end(A a, int) {
    return a;
  }
};
)";
inline constexpr std::string_view kAverage = R"(struct Average {
  template <class A>
  __device__ static A join(A a, A b) {
    return static_cast<A>(a + b);
  }
  template <class A>
  __device__ static A end(A a, int n_ranks) {
    return static_cast<A>(a / static_cast<A>(n_ranks));
  }
};
)";
inline constexpr std::string_view kReduceCore =
    R"(
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

// Packs first, first + step, … of `n` packs: the operation over all ranks' `in`, stored at `out` of the ranks
// [to, to_end).
template <class T, class Operation, int N>
__device__ void reduce_packs(const ncclDevComm& comm, Place in, Place out, int to, int to_end, size_t n) {
  using Wide = decltype(widen(T()));
  for (size_t i = first_thread(); i < n; i += all_threads()) {
    Pack<T, N> pack = at<Pack<T, N>>(in, 0)[i];
    Wide sum[N];
    for (int k = 0; k < N; ++k) sum[k] = widen(pack.value[k]);
    for (int rank = 1; rank < comm.lsaSize; ++rank) {
      pack = at<Pack<T, N>>(in, rank)[i];
      for (int k = 0; k < N; ++k) sum[k] = Operation::join(sum[k], static_cast<Wide>(widen(pack.value[k])));
    }
    for (int k = 0; k < N; ++k) pack.value[k] = Narrow<T>::from(Operation::end(sum[k], comm.lsaSize));
    for (int rank = to; rank < to_end; ++rank) at<Pack<T, N>>(out, rank)[i] = pack;
  }
}

// Elements [first, first + count) of `in` to elements [first_out, …) of `out`, 16 bytes at a time where both allow it.
template <class T, class Operation>
__device__ void reduce(const ncclDevComm& comm, Place in, size_t first, Place out, size_t first_out, int to, int to_end,
                       size_t count) {
  constexpr int kPack = 16 / sizeof(T);
  in.offset += first * sizeof(T);
  out.offset += first_out * sizeof(T);
  const size_t packs = in.offset % 16 == 0 && out.offset % 16 == 0 ? count / kPack : 0;
  reduce_packs<T, Operation, kPack>(comm, in, out, to, to_end, packs);
  in.offset += packs * 16;
  out.offset += packs * 16;
  reduce_packs<T, Operation, 1>(comm, in, out, to, to_end, count - packs * kPack);
}

)";

#define SCULLER_KERNEL_HEAD "__global__ void __launch_bounds__(LOWERED_THREADS)\n"

inline constexpr std::string_view kAllGatherKernel = SCULLER_KERNEL_HEAD
    R"(    all_gather_kernel(ncclDevComm comm, const void* send, Place receive, size_t bytes) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  for (int i = 1; i <= comm.lsaSize; ++i) {  // the neighbour first, oneself last
    const int to = (comm.lsaRank + i) % comm.lsaSize;
    copy(at<char>(receive, to) + comm.lsaRank * bytes, send, bytes);
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";
inline constexpr std::string_view kAllReduceKernel =
    R"(// Each rank reduces one share of the elements and stores it to all ranks. In place an element is read and written by
// one thread of one rank.
template <class T, class Operation>
)" SCULLER_KERNEL_HEAD
    R"(    all_reduce_kernel(ncclDevComm comm, Place send, Place receive, size_t count) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  const size_t share = (count / comm.lsaSize / 16 + 1) * 16;  // begins at a multiple of 16 elements
  const size_t first = min(share * comm.lsaRank, count);
  reduce<T, Operation>(comm, send, first, receive, first, 0, comm.lsaSize, min(share, count - first));
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";
inline constexpr std::string_view kReduceScatterKernel =
    "template <class T, class Operation>\n" SCULLER_KERNEL_HEAD
    R"(    reduce_scatter_kernel(ncclDevComm comm, Place send, Place receive, size_t count) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  reduce<T, Operation>(comm, send, comm.lsaRank * count, receive, 0, comm.lsaRank, comm.lsaRank + 1, count);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";
inline constexpr std::string_view kReduceKernel =
    "template <class T, class Operation>\n" SCULLER_KERNEL_HEAD
    R"(    reduce_kernel(ncclDevComm comm, Place send, Place receive, size_t count, int root) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  const size_t share = (count / comm.lsaSize / 16 + 1) * 16;
  const size_t first = min(share * comm.lsaRank, count);
  reduce<T, Operation>(comm, send, first, receive, first, root, root + 1, min(share, count - first));
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";
inline constexpr std::string_view kBroadcastKernel = SCULLER_KERNEL_HEAD
    R"(    broadcast_kernel(ncclDevComm comm, const void* send, Place receive, size_t bytes, int root) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  for (int i = 1; i <= comm.lsaSize && comm.lsaRank == root; ++i)
    copy(at<char>(receive, (root + i) % comm.lsaSize), send, bytes);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";
inline constexpr std::string_view kAllToAllKernel = SCULLER_KERNEL_HEAD
    R"(    all_to_all_kernel(ncclDevComm comm, const void* send, Place receive, size_t bytes) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  for (int i = 1; i <= comm.lsaSize; ++i) {
    const int to = (comm.lsaRank + i) % comm.lsaSize;
    copy(at<char>(receive, to) + comm.lsaRank * bytes, static_cast<const char*>(send) + to * bytes, bytes);
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";
inline constexpr std::string_view kGatherKernel = SCULLER_KERNEL_HEAD
    R"(    gather_kernel(ncclDevComm comm, const void* send, Place receive, size_t bytes, int root) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  copy(at<char>(receive, root) + comm.lsaRank * bytes, send, bytes);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";
inline constexpr std::string_view kScatterKernel = SCULLER_KERNEL_HEAD
    R"(    scatter_kernel(ncclDevComm comm, const void* send, Place receive, size_t bytes, int root) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  for (int i = 1; i <= comm.lsaSize && comm.lsaRank == root; ++i) {
    const int to = (root + i) % comm.lsaSize;
    copy(at<char>(receive, to), static_cast<const char*>(send) + to * bytes, bytes);
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";
inline constexpr std::string_view kExchangeKernel =
    R"(// Each CTA has letters of its own: those that its barrier orders.
)" SCULLER_KERNEL_HEAD
    R"(    exchange_kernel(ncclDevComm comm, ncclWindow_t mailbox, const ncclWindow_t* windows, Exchange group, unsigned phase) {
  const size_t letters = static_cast<size_t>(blockIdx.x) * comm.lsaSize * kLettersAPair * sizeof(Letter);
  auto* mine = static_cast<Letter*>(ncclGetLocalPointer(mailbox, letters));
  for (int i = threadIdx.x; i < group.n_receives; i += blockDim.x) {
    const Receive& to = group.receive[i];
    mine[to.from * kLettersAPair + to.number] = Letter{to.offset, to.bytes, to.window, phase};
  }
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  for (int i = 0; i < group.n_sends; ++i) {
    const Send& send = group.send[i];
    const Letter letter = static_cast<const Letter*>(
        ncclGetLsaPointer(mailbox, letters, send.to))[comm.lsaRank * kLettersAPair + send.number];
    if (letter.phase != phase || letter.bytes != send.bytes) {
      if (threadIdx.x == 0) printf("rank %d sends to rank %d what it does not receive\n", comm.lsaRank, send.to);
      __trap();
    }
    copy(ncclGetLsaPointer(windows[letter.window], letter.offset, send.to), send.from, send.bytes);
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

)";

// ---- Host code.

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

#undef SCULLER_KERNEL_HEAD

}  // namespace sculler::analyze::pieces
