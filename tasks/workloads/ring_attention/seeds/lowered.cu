// sculler:directive {"backend":"lsa","granularity":8388608,"issuer":"cta","placement":"sequential","sync":"global","why":"Lowered from host collectives: each is a kernel of loads and stores to the peers' windows between two barriers of all ranks."}
//
// Baseline: R steps; in each the queries attend to the keys and values at hand, which then go to the right neighbour.
// The softmax is built up online: o is not normalised before the last step, m and l hold each row's maximum and sum.
#include <cuda_runtime.h>
#include <nccl.h>

#include "problem.h"

// ---- Windows and device communicator: made by the lowering, once a process.
#include "sculler/candidate.h"
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

// A group of sends and receives is one kernel. A receiver writes a letter about each receive; the sender reads where
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
  int depth = 0;  // of ncclGroupStart
  std::vector<std::function<ncclResult_t()>> waiting;  // until the outermost group ends
  Exchange exchange{};           // of the group that is open
  std::vector<int> sent, received;  // numbers of letters, a peer
  void* mail = nullptr;             // [CTA][sender][number] letters
  ncclWindow_t mailbox = nullptr;
  ncclWindow_t* table = nullptr;    // windows[i].window, for kernels
  unsigned phase = 0;
};
Context context;

inline bool publish_windows() {
  if (context.windows.size() > kMostWindows) return false;
  std::vector<ncclWindow_t> handles;
  for (const Window& window : context.windows) handles.push_back(window.window);
  return context.table == nullptr || handles.empty() ||
         cudaMemcpy(context.table, handles.data(), handles.size() * sizeof(ncclWindow_t), cudaMemcpyHostToDevice) ==
             cudaSuccess;
}

inline bool remember(void* begin, size_t bytes, ncclWindow_t window, size_t offset) {
  context.windows.push_back({static_cast<char*>(begin), bytes, window, offset});
  return publish_windows();
}

// cudaMalloc for memory that peers reach: collective, of one size and in one order on all ranks.
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
  context.sent.assign(static_cast<size_t>(rank->n_ranks), 0);
  context.received = context.sent;
  const size_t mail = LOWERED_CTAS * static_cast<size_t>(rank->n_ranks) * kLettersAPair * sizeof(Letter);
  if (ncclMemAlloc(&context.mail, mail) != ncclSuccess || cudaMemset(context.mail, 0, mail) != cudaSuccess ||
      cudaDeviceSynchronize() != cudaSuccess ||
      ncclCommWindowRegister(context.host_comm, context.mail, mail, &context.mailbox, NCCL_WIN_COLL_SYMMETRIC) !=
          ncclSuccess ||
      cudaMalloc(&context.table, kMostWindows * sizeof(ncclWindow_t)) != cudaSuccess || !publish_windows())
    return SCULLER_ERROR;
  return SCULLER_OK;
}

inline void teardown() {
  (void)cudaDeviceSynchronize();
  (void)ncclDevCommDestroy(context.host_comm, &context.comm);
  (void)ncclCommWindowDeregister(context.host_comm, context.mailbox);
  (void)ncclMemFree(context.mail);
  (void)cudaFree(context.table);
  context.table = nullptr;
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

// All CTAs together copy `bytes` bytes, in the widest words that both ends allow.
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

// Each CTA has letters of its own: those that its barrier orders.
__global__ void __launch_bounds__(LOWERED_THREADS)
    exchange_kernel(ncclDevComm comm, ncclWindow_t mailbox, const ncclWindow_t* windows, Exchange group, unsigned phase) {
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

inline size_t size_of(ncclDataType_t type) {
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

inline ncclResult_t start([[maybe_unused]] cudaStream_t stream, const std::function<void()>& kernel) {
  kernel();
  return cudaGetLastError() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
// At once, or when the outermost group ends.
inline ncclResult_t launch(cudaStream_t stream, const std::function<void()>& kernel) {
  if (context.depth == 0) return start(stream, kernel);
  context.waiting.push_back([=] { return start(stream, kernel); });
  return ncclSuccess;
}

inline ncclResult_t send(const void* from, size_t count, ncclDataType_t type, int peer, cudaStream_t) {
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

inline ncclResult_t group_start() {
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
// Of a group with sends and receives: every rank takes part, also one that has none of them.
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

}  // namespace lowered
// EVOLVE-BLOCK-END

namespace {
constexpr int kRows = 4;  // queries of a block, one a warp

struct State {
  sculler_rank rank;
  const sculler_pool* pool;
  float* keys_values[2] = {};  // [2, t, d]: at hand, and what arrives
  float* m = nullptr;          // [t]
  float* l = nullptr;          // [t]
};

// EVOLVE-BLOCK-START
__global__ void attend(const float* q, const float* kv, float* o, float* m, float* l, int64_t t, int64_t d,
                       bool first, bool last) {
  constexpr int kEach = RA_MAX_D / 32;
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / 32;
  if (row >= t) return;
  float query[kEach] = {}, value[kEach] = {};
  for (int64_t c = lane; c < d; c += 32) {
    query[c / 32] = q[row * d + c] * rsqrtf(static_cast<float>(d));
    value[c / 32] = first ? 0.0f : o[row * d + c];
  }
  float largest = first ? -INFINITY : m[row], sum = first ? 0.0f : l[row];
  for (int64_t j = 0; j < t; ++j) {
    float score = 0;
    for (int64_t c = lane; c < d; c += 32) score = fmaf(query[c / 32], kv[j * d + c], score);
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(~0u, score, step);
    const float now = fmaxf(largest, score);
    const float keep = expf(largest - now), weight = expf(score - now);
    for (int64_t c = lane; c < d; c += 32)
      value[c / 32] = fmaf(weight, kv[(t + j) * d + c], keep * value[c / 32]);
    sum = keep * sum + weight;
    largest = now;
  }
  for (int64_t c = lane; c < d; c += 32) o[row * d + c] = last ? value[c / 32] / sum : value[c / 32];
  if (lane == 0) {
    m[row] = largest;
    l[row] = sum;
  }
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (const int code = lowered::setup(rank, pool); code != SCULLER_OK) return code;
  if (problem->n_dims != RA_N_DIMS) return SCULLER_ERROR;
  const int64_t t = problem->dim[RA_DIM_T], d = problem->dim[RA_DIM_D];
  if (d % 32 != 0 || d > RA_MAX_D) return SCULLER_UNSUPPORTED_PROBLEM;
  auto* st = new State{*rank, pool};
  for (int i = 0; i < 2; ++i)
    RA_TRY(lowered::window_malloc(&st->keys_values[i], static_cast<size_t>(2 * t * d) * sizeof(float)));
  RA_TRY(cudaMalloc(&st->m, static_cast<size_t>(t) * sizeof(float)));
  RA_TRY(cudaMalloc(&st->l, static_cast<size_t>(t) * sizeof(float)));
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
// EVOLVE-BLOCK-START
  auto* st = static_cast<State*>(state);
  const int64_t t = problem->dim[RA_DIM_T], d = problem->dim[RA_DIM_D];
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  const auto comm = static_cast<ncclComm_t>(st->rank.comm);
  const auto stream = static_cast<cudaStream_t>(st->rank.stream);
  const int n_ranks = st->rank.n_ranks;
  const int right = (st->rank.rank + 1) % n_ranks;
  const int left = (st->rank.rank + n_ranks - 1) % n_ranks;
  const size_t bytes = static_cast<size_t>(t * d) * sizeof(float);
  float* at_hand = st->keys_values[0];
  float* arriving = st->keys_values[1];
  RA_TRY(cudaMemcpyAsync(at_hand, buffer[RA_K].ptr, bytes, cudaMemcpyDeviceToDevice, stream));
  RA_TRY(cudaMemcpyAsync(at_hand + t * d, buffer[RA_V].ptr, bytes, cudaMemcpyDeviceToDevice, stream));
  for (int s = 0; s < n_ranks; ++s) {
    const bool last = s + 1 == n_ranks;
    attend<<<static_cast<unsigned>((t + kRows - 1) / kRows), 32 * kRows, 0, stream>>>(
        static_cast<const float*>(buffer[RA_Q].ptr), at_hand, static_cast<float*>(buffer[RA_O].ptr), st->m, st->l, t,
        d, s == 0, last);
    RA_TRY(cudaGetLastError());
    if (last) break;
    RA_TRY(lowered::group_start());
    RA_TRY(lowered::send(at_hand, static_cast<size_t>(2 * t * d), ncclFloat32, right, stream));
    RA_TRY(lowered::receive(arriving, static_cast<size_t>(2 * t * d), ncclFloat32, left, stream));
    RA_TRY(lowered::group_end(stream));
    float* const free_now = at_hand;
    at_hand = arriving;
    arriving = free_now;
  }
  return SCULLER_OK;
// EVOLVE-BLOCK-END
}

extern "C" int sculler_teardown(void* state) {
  lowered::teardown();
  auto* st = static_cast<State*>(state);
  RA_TRY(cudaDeviceSynchronize());
  for (float* one : st->keys_values) RA_TRY(lowered::window_free(one));
  RA_TRY(lowered::window_free(st->m));
  RA_TRY(lowered::window_free(st->l));
  delete st;
  return SCULLER_OK;
}
