// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Steps in their order, a warp a channel: no memory between kernels."}
//
// Baseline: the scan as one writes it first. A warp a channel, a lane a state; 32 steps' inputs are
// read side by side and handed from lane to lane.
#include "entry.h"

namespace {
constexpr int kWarps = 2;

__global__ void __launch_bounds__(kWarps * 32)
    scan(const float* delta, const float* u, const float* a, const float* b, const float* c,
         float* y, int64_t channels, int64_t m, int64_t states) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= channels) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t first = 0; first < states; first += 32) {
    const int64_t s = first + lane;
    const bool mine = s < states;
    const float decay = mine ? a[row * states + s] : 0.0f;
    float h = 0;
    for (int64_t i0 = 0; i0 < m; i0 += 32) {
      const bool there = i0 + lane < m;
      const float own_delta = there ? delta[row * m + i0 + lane] : 0.0f,
                  own_u = there ? u[row * m + i0 + lane] : 0.0f;
      float result = 0;
      const int steps = m - i0 < 32 ? static_cast<int>(m - i0) : 32;
      for (int i = 0; i < steps; ++i) {
        const float step = __shfl_sync(0xffffffffu, own_delta, i),
                    in = __shfl_sync(0xffffffffu, own_u, i);
        // 1 + expm1f: expf's bias, 1e-8, adds up over thousands of factors near 1.
        h = (1.0f + expm1f(step * decay)) * h + (mine ? step * in * b[s * m + i0 + i] : 0.0f);
        float sum = mine ? c[s * m + i0 + i] * h : 0.0f;
        for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
        if (lane == i) result = sum;
      }
      if (there) {
        float& to = y[row * m + i0 + lane];
        to = first == 0 ? result : to + result;
      }
    }
  }
}

int run(const Call& call) {
  const int64_t channels = call.dim(0), m = call.dim(1), states = call.dim(2);
  scan<<<blocks_of(channels, kWarps), kWarps * 32, 0, call.stream>>>(
      call.buffer(0), call.buffer(1), call.buffer(2), call.buffer(3), call.buffer(4),
      call.buffer(5), channels, m, states);
  return launched();
}
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
