// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Steps are cut into chunks that run at once; what a chunk does to a state is one factor and one term."}
//
// The scan in three kernels. A chunk of steps maps a state h to factor * h + term: the first kernel
// finds both for every chunk, the second runs over the chunks, the third repeats the chunks from the
// states that they begin with and gives the outputs. A block has one chunk and CHANNELS channels, so
// that B and C are read once for all of them; 16 lanes a channel, a lane a state. 16 steps' outputs
// are summed over the lanes at once.
#include "entry.h"

// Steps of a chunk.
// sculler:tune STEPS in {32,64}
#ifndef STEPS
#define STEPS 64
#endif
// Channels of a block.
// sculler:tune CHANNELS in {8,16,32}
#ifndef CHANNELS
#define CHANNELS 16
#endif
// Channels of a thread: it reads B and C once for all of them.
// sculler:tune TOGETHER in {1,2,4}
#ifndef TOGETHER
#define TOGETHER 1
#endif

namespace {
// EVOLVE-BLOCK-START
constexpr int kStates = 16, kThreads = CHANNELS * kStates / TOGETHER;
constexpr int kSlots = CHANNELS / TOGETHER;  // of 16 threads each
constexpr int kRow = STEPS + 4;              // floats; four steps of eight rows lie in different banks
static_assert(STEPS % 16 == 0 && CHANNELS % TOGETHER == 0);

struct Scan {
  const float *delta, *u, *a, *b, *c;
  float* y;
  float *factor, *term;  // [chunk][channel][state]; then term is the state that a chunk begins with
  int64_t channels, m, states;
};

// STEPS numbers of each of kRows rows of a matrix of `rows` rows, zeros where there are none.
template <int kRows>
__device__ inline void fetch(float (&to)[kRows][kRow], const float* from, int64_t first, int64_t rows,
                             int64_t step0, int64_t m) {
  const bool wide = m % 4 == 0;
#pragma unroll 4
  for (int e = static_cast<int>(threadIdx.x); e < kRows * STEPS / 4; e += kThreads) {
    const int row = e / (STEPS / 4), i = e % (STEPS / 4) * 4;
    const int64_t left = first + row < rows ? m - step0 - i : 0;
    const float* const at = from + (first + row) * m + step0 + i;
    float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (wide && left > 0) {
      four = __ldg(reinterpret_cast<const float4*>(at));
    } else {
      if (left > 0) four.x = __ldg(at);
      if (left > 1) four.y = __ldg(at + 1);
      if (left > 2) four.z = __ldg(at + 2);
      if (left > 3) four.w = __ldg(at + 3);
    }
    *reinterpret_cast<float4*>(&to[row][i]) = four;
  }
}

// Sums over 16 lanes of 16 numbers of each lane: lane l gets that of number l. A step halves what a
// lane has.
template <int kFar>
__device__ inline void sum_halves(float (&v)[16]) {
  const bool upper = threadIdx.x / kFar % 2 != 0;
#pragma unroll
  for (int i = 0; i < kFar; ++i) {
    const float send = upper ? v[i] : v[i + kFar], keep = upper ? v[i + kFar] : v[i];
    v[i] = keep + __shfl_xor_sync(0xffffffffu, send, kFar);
  }
}
__device__ inline float sum_of_lane(float (&v)[16]) {
  sum_halves<8>(v);
  sum_halves<4>(v);
  sum_halves<2>(v);
  sum_halves<1>(v);
  return v[0];
}

template <bool kOutput>
__global__ void __launch_bounds__(kThreads) chunk(Scan of) {
  __shared__ __align__(16) float delta[CHANNELS][kRow], u[CHANNELS][kRow], b[kStates][kRow],
      c[kOutput ? kStates : 1][kRow];
  const int64_t step0 = static_cast<int64_t>(blockIdx.x) * STEPS,
                channel0 = static_cast<int64_t>(blockIdx.y) * CHANNELS;
  const int slot = static_cast<int>(threadIdx.x) / kStates,
            lane = static_cast<int>(threadIdx.x) % kStates;
  fetch(delta, of.delta, channel0, of.channels, step0, of.m);
  fetch(u, of.u, channel0, of.channels, step0, of.m);
  for (int64_t first = 0; first < of.states; first += kStates) {
    __syncthreads();
    fetch(b, of.b, first, of.states, step0, of.m);
    if constexpr (kOutput) fetch(c, of.c, first, of.states, step0, of.m);
    __syncthreads();
    float rate[TOGETHER], h[TOGETHER], time[TOGETHER];
    int64_t at[TOGETHER];  // of a state
#pragma unroll
    for (int q = 0; q < TOGETHER; ++q) {
      const int64_t channel = channel0 + q * kSlots + slot;
      const bool mine = channel < of.channels && first + lane < of.states;
      const int64_t state = channel * of.states + first + lane;
      at[q] = mine ? static_cast<int64_t>(blockIdx.x) * of.channels * of.states + state : -1;
      rate[q] = mine ? of.a[state] : 0.0f;
      h[q] = kOutput && mine ? of.term[at[q]] : 0.0f;
      time[q] = 0.0f;
    }
    for (int i0 = 0; i0 < STEPS; i0 += 16) {
      float part[TOGETHER][16];
#pragma unroll
      for (int k = 0; k < 16; k += 4) {
        const auto four = [&](const float* row) {
          return *reinterpret_cast<const float4*>(row + i0 + k);
        };
        const float4 of_b = four(b[lane]), of_c = four(c[kOutput ? lane : 0]);
#pragma unroll
        for (int q = 0; q < TOGETHER; ++q) {
          const float4 steps = four(delta[q * kSlots + slot]), in = four(u[q * kSlots + slot]);
          const auto one = [&](int e, float step, float u_here, float b_here, float c_here) {
            h[q] = __expf(step * rate[q]) * h[q] + step * u_here * b_here;
            if constexpr (kOutput) part[q][k + e] = c_here * h[q];
            else time[q] += step;
          };
          one(0, steps.x, in.x, of_b.x, of_c.x);
          one(1, steps.y, in.y, of_b.y, of_c.y);
          one(2, steps.z, in.z, of_b.z, of_c.z);
          one(3, steps.w, in.w, of_b.w, of_c.w);
        }
      }
      if constexpr (kOutput) {
#pragma unroll
        for (int q = 0; q < TOGETHER; ++q) {
          const float sum = sum_of_lane(part[q]);
          const int64_t channel = channel0 + q * kSlots + slot, step = step0 + i0 + lane;
          if (channel >= of.channels || step >= of.m) continue;
          float* const to = of.y + channel * of.m + step;
          *to = first == 0 ? sum : *to + sum;
        }
      }
    }
#pragma unroll
    for (int q = 0; q < TOGETHER; ++q) {
      if (kOutput || at[q] < 0) continue;
      of.factor[at[q]] = expf(time[q] * rate[q]);
      of.term[at[q]] = h[q];
    }
  }
}

// A thread a state of a channel.
__global__ void __launch_bounds__(64) over_chunks(Scan of, int64_t chunks) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 64 + threadIdx.x,
                all = of.channels * of.states;
  if (i >= all) return;
  // Some chunks are read ahead: reads behind a store do not pass it.
  constexpr int kAhead = 16;
  const float *factors = of.factor + i, *terms = of.term + i;
  float *begins = of.term + i, h = 0;
  for (int64_t left = chunks; left > 0; left -= kAhead) {
    float factor[kAhead], term[kAhead];
#pragma unroll
    for (int q = 0; q < kAhead; ++q) {
      factor[q] = q < left ? *factors : 0.0f;
      term[q] = q < left ? *terms : 0.0f;
      factors += all;
      terms += all;
    }
#pragma unroll
    for (int q = 0; q < kAhead; ++q) {
      if (q < left) *begins = h;
      begins += all;
      h = factor[q] * h + term[q];
    }
  }
}

int64_t chunks_of(int64_t m) { return (m + STEPS - 1) / STEPS; }

int run(const Call& call) {
  const int64_t channels = call.dim(0), m = call.dim(1), states = call.dim(2),
                chunks = chunks_of(m), all = channels * states;
  const Scan of{call.buffer(0), call.buffer(1), call.buffer(2), call.buffer(3),
                call.buffer(4), call.buffer(5), call.space,     call.space + chunks * all,
                channels,       m,              states};
  const dim3 grid(static_cast<unsigned>(chunks), blocks_of(channels, CHANNELS));
  chunk<false><<<grid, kThreads, 0, call.stream>>>(of);
  over_chunks<<<blocks_of(all, 64), 64, 0, call.stream>>>(of, chunks);
  chunk<true><<<grid, kThreads, 0, call.stream>>>(of);
  return launched();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, 2 * chunks_of(problem->dim[1]) * problem->dim[0] * problem->dim[2], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
