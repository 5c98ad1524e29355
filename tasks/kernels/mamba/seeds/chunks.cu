// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Steps are cut into chunks that run at once; what a chunk does to a state is one factor and one term."}
//
// The scan in three kernels. A chunk of steps maps a state h to factor * h + term: the first kernel
// finds both for every chunk, the second runs over the chunks, the third repeats the chunks from the
// states that they begin with and gives the outputs. A block has one chunk and CHANNELS channels, so
// that B and C are read once for all of them; 16 lanes a channel, a lane a state.
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

namespace {
// EVOLVE-BLOCK-START
constexpr int kStates = 16, kThreads = CHANNELS * kStates;

struct Scan {
  const float *delta, *u, *a, *b, *c;
  float* y;
  float *factor, *term;  // [chunk][channel][state]; then term is the state that a chunk begins with
  int64_t channels, m, states;
};

template <bool kOutput>
__global__ void __launch_bounds__(kThreads) chunk(Scan of) {
  __shared__ float delta[CHANNELS][STEPS + 1], u[CHANNELS][STEPS + 1], b[STEPS][kStates + 1],
      c[STEPS][kStates + 1], y[CHANNELS][STEPS + 1];
  const int64_t step0 = static_cast<int64_t>(blockIdx.x) * STEPS,
                channel0 = static_cast<int64_t>(blockIdx.y) * CHANNELS;
  const int thread = static_cast<int>(threadIdx.x), channel = thread / kStates,
            lane = thread % kStates;
  for (int e = thread; e < CHANNELS * STEPS; e += kThreads) {
    const int row = e / STEPS, i = e % STEPS;
    const bool there = channel0 + row < of.channels && step0 + i < of.m;
    const int64_t at = (channel0 + row) * of.m + step0 + i;
    delta[row][i] = there ? of.delta[at] : 0.0f;
    u[row][i] = there ? of.u[at] : 0.0f;
  }
  for (int64_t first = 0; first < of.states; first += kStates) {
    __syncthreads();
    for (int e = thread; e < kStates * STEPS; e += kThreads) {
      const int s = e / STEPS, i = e % STEPS;
      const bool there = first + s < of.states && step0 + i < of.m;
      const int64_t at = (first + s) * of.m + step0 + i;
      b[i][s] = there ? of.b[at] : 0.0f;
      if (kOutput) c[i][s] = there ? of.c[at] : 0.0f;
    }
    __syncthreads();
    const bool mine = channel0 + channel < of.channels && first + lane < of.states;
    const int64_t state = (channel0 + channel) * of.states + first + lane;
    const float decay = mine ? of.a[state] : 0.0f;
    const int64_t at = static_cast<int64_t>(blockIdx.x) * of.channels * of.states + state;
    float h = kOutput && mine ? of.term[at] : 0.0f, time = 0.0f;
#pragma unroll 4
    for (int i = 0; i < STEPS; ++i) {
      const float step = delta[channel][i];
      h = __expf(step * decay) * h + step * u[channel][i] * b[i][lane];
      if (kOutput) {
        float sum = c[i][lane] * h;
        for (int far = kStates / 2; far > 0; far /= 2)
          sum += __shfl_xor_sync(0xffffffffu, sum, far);
        if (lane == 0) y[channel][i] = first == 0 ? sum : y[channel][i] + sum;
      } else {
        time += step;
      }
    }
    if (!kOutput && mine) {
      of.factor[at] = expf(time * decay);
      of.term[at] = h;
    }
  }
  if (!kOutput) return;
  __syncthreads();
  for (int e = thread; e < CHANNELS * STEPS; e += kThreads) {
    const int row = e / STEPS, i = e % STEPS;
    if (channel0 + row < of.channels && step0 + i < of.m)
      of.y[(channel0 + row) * of.m + step0 + i] = y[row][i];
  }
}

// A thread a state of a channel.
__global__ void __launch_bounds__(64) over_chunks(Scan of, int64_t chunks) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 64 + threadIdx.x,
                all = of.channels * of.states;
  if (i >= all) return;
  float h = 0;
#pragma unroll 8
  for (int64_t q = 0; q < chunks; ++q) {
    const float factor = of.factor[q * all + i], term = of.term[q * all + i];
    of.term[q * all + i] = h;
    h = factor * h + term;
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
