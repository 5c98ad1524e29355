// sculler:directive {"backend":"none","issuer":"cta","placement":"sequential","sync":"global","granularity":8388608,"why":"What a host program does today: attend to the keys at hand, then a grouped send and receive of keys and values."}
//
// Baseline: R steps; in each the queries attend to the keys and values at hand, which then go to the right neighbour.
// The softmax is built up online: o is not normalised before the last step, m and l hold each row's maximum and sum.
#include <cuda_runtime.h>
#include <nccl.h>

#include "problem.h"

namespace {
constexpr int kRows = 4;  // queries of a block, one a warp

struct State {
  sculler_rank rank;
  const sculler_pool* pool;
  float* keys_values[2] = {};  // [2, t, d]: at hand, and what arrives
  float* m = nullptr;          // [t]
  float* l = nullptr;          // [t]
};

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
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != RA_N_DIMS) return SCULLER_ERROR;
  const int64_t t = problem->dim[RA_DIM_T], d = problem->dim[RA_DIM_D];
  if (d % 32 != 0 || d > RA_MAX_D) return SCULLER_UNSUPPORTED_PROBLEM;
  auto* st = new State{*rank, pool};
  for (int i = 0; i < 2; ++i)
    RA_TRY(cudaMalloc(&st->keys_values[i], static_cast<size_t>(2 * t * d) * sizeof(float)));
  RA_TRY(cudaMalloc(&st->m, static_cast<size_t>(t) * sizeof(float)));
  RA_TRY(cudaMalloc(&st->l, static_cast<size_t>(t) * sizeof(float)));
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
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
    RA_TRY(ncclGroupStart());
    RA_TRY(ncclSend(at_hand, static_cast<size_t>(2 * t * d), ncclFloat32, right, comm, stream));
    RA_TRY(ncclRecv(arriving, static_cast<size_t>(2 * t * d), ncclFloat32, left, comm, stream));
    RA_TRY(ncclGroupEnd());
    float* const free_now = at_hand;
    at_hand = arriving;
    arriving = free_now;
  }
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  RA_TRY(cudaDeviceSynchronize());
  for (float* one : st->keys_values) RA_TRY(cudaFree(one));
  RA_TRY(cudaFree(st->m));
  RA_TRY(cudaFree(st->l));
  delete st;
  return SCULLER_OK;
}
