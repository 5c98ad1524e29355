// sculler:directive {"backend":"lsa","granularity":134217728,"issuer":"cta","placement":"sequential","sync":"global","why":"Lowered from host collectives: each is a kernel of loads and stores to the peers' windows between two barriers of all ranks."}
//
// Baseline: ncclAllReduce from X to Y.
#include <cuda_runtime.h>
#include <nccl.h>

#include "problem.h"

// ---- Windows and device communicator: made by the lowering, once a process.
#include "sculler/candidate.h"
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

// sculler:tune LOWERED_CTAS in {4,8,16,32,64}
#ifndef LOWERED_CTAS
#define LOWERED_CTAS 16
#endif
// sculler:tune LOWERED_THREADS in {128,256,512}
#ifndef LOWERED_THREADS
#define LOWERED_THREADS 512
#endif

namespace lowered {

// Memory that every rank has registered in the same order: index i means the same window on all ranks.
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
  int n_ranks = 0;
};
Context context;

inline bool remember(void* begin, size_t bytes, ncclWindow_t window, size_t offset) {
  context.windows.push_back({static_cast<char*>(begin), bytes, window, offset});
  return true;
}

// Collective. Windows of the pool first, set by set; then what the program allocates for itself.
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
  context.n_ranks = rank->n_ranks;
  return SCULLER_OK;
}

inline void teardown() {
  (void)cudaDeviceSynchronize();
  (void)ncclDevCommDestroy(context.host_comm, &context.comm);
}

}  // namespace lowered

// EVOLVE-BLOCK-START
namespace lowered {

// Every kernel below: the first barrier says that all ranks' streams have come here, so what they sent is ready and
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

// Half-precision numbers are reduced in float, rank 0 first, then 1, 2, …, and rounded once: the same bits on every
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
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
template <>
struct Narrow<__nv_bfloat16> {
  __device__ static __nv_bfloat16 from(float value) { return __float2bfloat16_rn(value); }
};
struct Sum {
  template <class A>
  __device__ static A join(A a, A b) {
    return static_cast<A>(a + b);
  }
  template <class A>
  __device__ static A end(A a, int) {
    return a;
  }
};

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

// Each rank reduces one share of the elements and stores it to all ranks. In place an element is read and written by
// one thread of one rank.
template <class T, class Operation>
__global__ void __launch_bounds__(LOWERED_THREADS)
    all_reduce_kernel(ncclDevComm comm, Place send, Place receive, size_t count) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  const size_t share = (count / comm.lsaSize / 16 + 1) * 16;  // begins at a multiple of 16 elements
  const size_t first = min(share * comm.lsaRank, count);
  reduce<T, Operation>(comm, send, first, receive, first, 0, comm.lsaSize, min(share, count - first));
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

// The window that holds [pointer, pointer + bytes).
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

inline ncclResult_t start([[maybe_unused]] cudaStream_t stream, const std::function<void()>& kernel) {
  kernel();
  return cudaGetLastError() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
inline ncclResult_t launch(cudaStream_t stream, const std::function<void()>& kernel) { return start(stream, kernel); }

template <class T, class Operation>
ncclResult_t all_reduce(const void* send, void* receive, size_t count, Operation, cudaStream_t stream) {
  Place from, to;
  if (count == 0) return ncclSuccess;
  if (!find(send, count * sizeof(T), &from) || !find(receive, count * sizeof(T), &to)) return ncclInvalidArgument;
  return launch(stream, [=] {
    all_reduce_kernel<T, Operation><<<LOWERED_CTAS, LOWERED_THREADS, 0, stream>>>(context.comm, from, to, count);
  });
}


}  // namespace lowered
// EVOLVE-BLOCK-END

namespace {
struct State {
  sculler_rank rank;
  const sculler_pool* pool;
};
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (const int code = lowered::setup(rank, pool); code != SCULLER_OK) return code;
  if (problem->n_dims != AR_N_DIMS) return SCULLER_ERROR;
  *state = new State{*rank, pool};
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
// EVOLVE-BLOCK-START
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  AR_TRY(lowered::all_reduce<__nv_bfloat16>(buffer[AR_X].ptr, buffer[AR_Y].ptr, static_cast<size_t>(problem->dim[AR_DIM_N]), lowered::Sum(), static_cast<cudaStream_t>(st->rank.stream)));
  return SCULLER_OK;
// EVOLVE-BLOCK-END
}

extern "C" int sculler_teardown(void* state) {
  lowered::teardown();
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
