// sculler:directive {"backend":"none","issuer":"warp","placement":"sequential","sync":"global","granularity":4096,"why":"A block holds a row in registers: it is read once, in pieces of 16 bytes that are all asked for before the first is used, and passes the caches by."}
//
// Rows of up to THREADS * 32 numbers that begin at multiples of 16 bytes are held in registers; others
// are read three times.
#include <cuda_runtime.h>

#include <cmath>

#include "sculler/candidate.h"

// sculler:tune THREADS in {128,256,512}
#ifndef THREADS
#define THREADS 256
#endif

namespace {
struct State {
  sculler_rank rank;
  const sculler_pool* pool;
};

// EVOLVE-BLOCK-START
struct Most {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
template <class Both>
__device__ float of_block(float value, Both both) {
  __shared__ float part[THREADS / 32];
  for (int far = 16; far > 0; far /= 2)
    value = both(value, __shfl_xor_sync(0xffffffffu, value, far));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = part[0];
#pragma unroll
  for (int warp = 1; warp < THREADS / 32; ++warp) value = both(value, part[warp]);
  return value;
}

// n is at most THREADS * 4 * kFours and a multiple of 4.
template <int kFours>
__global__ void __launch_bounds__(THREADS) held(const float* x, float* y, int n) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * n;
  const auto* const from = reinterpret_cast<const float4*>(x + row);
  auto* const to = reinterpret_cast<float4*>(y + row);
  float4 v[kFours];
  float most = -INFINITY;
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const int at = i * THREADS + static_cast<int>(threadIdx.x);
    v[i] = at * 4 < n ? __ldcs(from + at)
                      : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
  }
#pragma unroll
  for (const float4& four : v)
    most = fmaxf(most, fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)));
  most = of_block(most, Most{});
  float sum = 0.0f;
#pragma unroll
  for (float4& four : v) {
    four = make_float4(__expf(four.x - most), __expf(four.y - most), __expf(four.z - most),
                       __expf(four.w - most));
    sum += four.x + four.y + (four.z + four.w);
  }
  const float scale = 1.0f / of_block(sum, Sum{});
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const int at = i * THREADS + static_cast<int>(threadIdx.x);
    if (at * 4 < n)
      __stcs(to + at, make_float4(v[i].x * scale, v[i].y * scale, v[i].z * scale, v[i].w * scale));
  }
}

__global__ void __launch_bounds__(THREADS) streamed(const float* x, float* y, int64_t n) {
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  float most = -INFINITY, sum = 0.0f;
  for (int64_t j = threadIdx.x; j < n; j += THREADS) most = fmaxf(most, x[j]);
  most = of_block(most, Most{});
  for (int64_t j = threadIdx.x; j < n; j += THREADS) sum += __expf(x[j] - most);
  const float scale = 1.0f / of_block(sum, Sum{});
  for (int64_t j = threadIdx.x; j < n; j += THREADS) y[j] = __expf(x[j] - most) * scale;
}

void run(const float* x, float* y, int64_t m, int64_t n, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(m);
  const int whole = static_cast<int>(n);
  if (n % 4 != 0 || n > THREADS * 32) streamed<<<blocks, THREADS, 0, stream>>>(x, y, n);
  else if (n <= THREADS * 4) held<1><<<blocks, THREADS, 0, stream>>>(x, y, whole);
  else if (n <= THREADS * 8) held<2><<<blocks, THREADS, 0, stream>>>(x, y, whole);
  else if (n <= THREADS * 16) held<4><<<blocks, THREADS, 0, stream>>>(x, y, whole);
  else held<8><<<blocks, THREADS, 0, stream>>>(x, y, whole);
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != 2) return SCULLER_ERROR;
  *state = new State{*rank, pool};
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  run(static_cast<const float*>(buffer[0].ptr), static_cast<float*>(buffer[1].ptr), problem->dim[0],
      problem->dim[1], static_cast<cudaStream_t>(st->rank.stream));
  return cudaGetLastError() == cudaSuccess ? SCULLER_OK : SCULLER_ERROR;
}

extern "C" int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
