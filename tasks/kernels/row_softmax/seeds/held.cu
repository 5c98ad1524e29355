// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"A row is read once and stays in registers until its sum is known."}
//
// A block has a row, a thread PIECES times 16 bytes of it: their exponentials relative to its own
// maximum. One exchange gives all the row's maximum and sum, and each thread one factor for all of
// its numbers. What is longer than THREADS * PIECES * 4 is read twice.
#include "entry.h"

// Threads of a block.
// sculler:tune THREADS in {128,256,512,1024}
#ifndef THREADS
#define THREADS 256
#endif
// Pieces of 16 bytes of the row that a thread keeps.
// sculler:tune PIECES in {2,4,8,16}
#ifndef PIECES
#define PIECES 8
#endif
// 1: caches drop what was read first; 2: it passes the first one by.
// sculler:tune LOADS in {0,1,2}
#ifndef LOADS
#define LOADS 0
#endif
// 1: caches drop what was written first.
// sculler:tune STORES in {0,1}
#ifndef STORES
#define STORES 0
#endif
// 1: the last rows first.
// sculler:tune BACKWARD in {0,1}
#ifndef BACKWARD
#define BACKWARD 0
#endif
#include "pieces.h"

namespace {
// EVOLVE-BLOCK-START
constexpr float kNothing = -3.4e38f;

// The largest number, and the sum of exponentials relative to it.
struct Running {
  float most, sum;
};
__device__ inline Running merge(Running a, Running b) {
  const float most = fmaxf(a.most, b.most);
  return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}
__device__ inline Running over_block(Running own) {
  __shared__ Running part[THREADS / 32];
  for (int far = 16; far > 0; far /= 2)
    own = merge(own, {__shfl_xor_sync(0xffffffffu, own.most, far),
                      __shfl_xor_sync(0xffffffffu, own.sum, far)});
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = own;
  __syncthreads();
  own = part[threadIdx.x % (THREADS / 32)];
  for (int far = THREADS / 64; far > 0; far /= 2)
    own = merge(own, {__shfl_xor_sync(0xffffffffu, own.most, far),
                      __shfl_xor_sync(0xffffffffu, own.sum, far)});
  return own;
}

// Four numbers of a row of n from j on; what lies beyond it is nothing. kWide: 16 bytes at once.
template <bool kWide>
__device__ inline float4 load(const float* row, int64_t j, int64_t n) {
  if (kWide && j + 4 <= n) return load4(row + j);
  return {j < n ? row[j] : kNothing, j + 1 < n ? row[j + 1] : kNothing,
          j + 2 < n ? row[j + 2] : kNothing, j + 3 < n ? row[j + 3] : kNothing};
}
template <bool kWide>
__device__ inline void store(float* row, int64_t j, int64_t n, float4 v) {
  if (kWide && j + 4 <= n) return store4(row + j, v);
  const float each[4] = {v.x, v.y, v.z, v.w};
  for (int e = 0; e < 4 && j + e < n; ++e) row[j + e] = each[e];
}
__device__ inline float most_of(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }
// Of a thread that has nothing they are 1; the row's maximum makes them nothing.
__device__ inline float4 powers(float4 v, float most) {
  return {__expf(v.x - most), __expf(v.y - most), __expf(v.z - most), __expf(v.w - most)};
}
__device__ inline float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }

template <bool kWide>
__global__ void __launch_bounds__(THREADS) softmax(const float* x, float* y, int64_t n) {
  const int64_t i = BACKWARD ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const float* const from = x + i * n;
  float* const to = y + i * n;
  const auto column = [](int64_t piece) { return (piece * THREADS + threadIdx.x) * 4; };
  const int64_t pieces = (n + THREADS * 4 - 1) / (THREADS * 4);
  float4 kept[PIECES];
#pragma unroll
  for (int p = 0; p < PIECES; ++p) kept[p] = load<kWide>(from, column(p), n);
  Running own{kNothing, 0.0f};
#pragma unroll
  for (int p = 0; p < PIECES; ++p) own.most = fmaxf(own.most, most_of(kept[p]));
#pragma unroll
  for (int p = 0; p < PIECES; ++p) {
    kept[p] = powers(kept[p], own.most);
    own.sum += sum_of(kept[p]);
  }
  const float most = own.most;
  for (int64_t p = PIECES; p < pieces; ++p) {
    const float4 v = load<kWide>(from, column(p), n);
    const float four = most_of(v);
    own = merge(own, {four, sum_of(powers(v, four))});
  }
  const Running all = over_block(own);
  const float quotient = 1.0f / all.sum, factor = __expf(most - all.most) * quotient;
#pragma unroll
  for (int p = 0; p < PIECES; ++p) {
    const float4 v = kept[p];
    store<kWide>(to, column(p), n, {v.x * factor, v.y * factor, v.z * factor, v.w * factor});
  }
  for (int64_t p = PIECES; p < pieces; ++p) {
    const float4 v = powers(load<kWide>(from, column(p), n), all.most);
    store<kWide>(to, column(p), n,
                 {v.x * quotient, v.y * quotient, v.z * quotient, v.w * quotient});
  }
}

int run(const Call& call) {
  const int64_t n = call.dim(1);
  const float* x = call.buffer(0);
  float* y = call.buffer(1);
  const bool wide =
      (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % 16 == 0 && n % 4 == 0;
  auto* const kernel = wide ? softmax<true> : softmax<false>;
  kernel<<<static_cast<unsigned>(call.dim(0)), THREADS, 0, call.stream>>>(x, y, n);
  return launched();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, 0, state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file pieces.h from ../../shared
