// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"One kernel, coalesced loads and stores."}
//
// Baseline: the rotation as one writes it first.
#include "entry.h"

namespace {
constexpr int kThreads = 256;

// A thread an element of the first half and its partner in the second.
__global__ void __launch_bounds__(kThreads)
    rope(const float* x, const float* cosine, const float* sine, float* y, int64_t half) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= half) return;
  const float a = x[i], b = x[half + i], c = cosine[i], s = sine[i];
  y[i] = a * c - b * s;
  y[half + i] = a * s + b * c;
}

int run(const Call& call) {
  const int64_t half = call.dim(3) / 2 * call.dim(0) * call.dim(1) * call.dim(2);
  rope<<<blocks_of(half, kThreads), kThreads, 0, call.stream>>>(
      call.buffer(0), call.buffer(1), call.buffer(2), call.buffer(3), half);
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
