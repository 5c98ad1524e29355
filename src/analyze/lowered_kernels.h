// The pieces of lowered_text.h, as CUDA text: device code.
#pragma once

#include <string_view>

namespace sculler::analyze::pieces {

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

#undef SCULLER_KERNEL_HEAD

}  // namespace sculler::analyze::pieces
