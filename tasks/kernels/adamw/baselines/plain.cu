// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"One kernel, 16-byte loads and stores."}
//
// Baseline: one step of AdamW as one writes it first.
#include "entry.h"

namespace {
constexpr int kThreads = 256;

__device__ float step(float theta, float g, float mean, float v) {
  const float m_t = 0.9f * mean + 0.1f * g, v_t = 0.999f * v + 0.001f * g * g;
  return theta - 1e-5f * theta - 0.01f * m_t / (sqrtf(v_t * 1000.0f) + 1e-8f);
}

// Four elements a thread, 16 bytes at once; what is left over by the last ones alone.
__global__ void __launch_bounds__(kThreads)
    adamw(const float* theta, const float* g, const float* mean, const float* v, float* y,
          int64_t n) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
  if (i + 4 <= n) {
    const auto a = *reinterpret_cast<const float4*>(theta + i),
               b = *reinterpret_cast<const float4*>(g + i),
               c = *reinterpret_cast<const float4*>(mean + i),
               d = *reinterpret_cast<const float4*>(v + i);
    *reinterpret_cast<float4*>(y + i) =
        make_float4(step(a.x, b.x, c.x, d.x), step(a.y, b.y, c.y, d.y), step(a.z, b.z, c.z, d.z),
                    step(a.w, b.w, c.w, d.w));
  } else {
    for (int64_t rest = i; rest < n; ++rest)
      y[rest] = step(theta[rest], g[rest], mean[rest], v[rest]);
  }
}

int run(const Call& call) {
  const int64_t n = call.dim(0) * call.dim(1);
  adamw<<<blocks_of(n, 4 * kThreads), kThreads, 0, call.stream>>>(
      call.buffer(0), call.buffer(1), call.buffer(2), call.buffer(3), call.buffer(4), n);
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
