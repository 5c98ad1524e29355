// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"One kernel, 16-byte loads and stores."}
//
// Baseline: silu as one writes it first.
#include "entry.h"

namespace {
constexpr int kThreads = 256;

// Four elements a thread, 16 bytes at once; what is left over by the last ones alone.
__global__ void __launch_bounds__(kThreads) silu(const float* x, float* y, int64_t n) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
  if (i + 4 <= n) {
    float4 v = *reinterpret_cast<const float4*>(x + i);
    v.x = v.x / (1.0f + expf(-v.x));
    v.y = v.y / (1.0f + expf(-v.y));
    v.z = v.z / (1.0f + expf(-v.z));
    v.w = v.w / (1.0f + expf(-v.w));
    *reinterpret_cast<float4*>(y + i) = v;
  } else {
    for (int64_t rest = i; rest < n; ++rest) y[rest] = x[rest] / (1.0f + expf(-x[rest]));
  }
}

int run(const Call& call) {
  const int64_t n = call.dim(0);
  silu<<<blocks_of(n, 4 * kThreads), kThreads, 0, call.stream>>>(call.buffer(0), call.buffer(1), n);
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
