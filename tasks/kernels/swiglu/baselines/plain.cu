// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Tiles through shared memory on the ordinary cores."}
//
// Baseline: Y = (silu(X GATE) (X UP)) DOWN in float32 as one writes it first.
#include "simt.h"

namespace {
// h = silu(sum) * h.
struct Gate {
  float* h;
  int64_t n;
  __device__ void operator()(int64_t, int64_t row, int64_t column, float sum) const {
    h[row * n + column] *= sum / (1.0f + expf(-sum));
  }
};

int run(const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  const Matrix x{call.buffer(0), k, 1, 0};
  multiply<true, false>(1, m, n, k, x, {call.buffer(1), n, 1, 0}, call.stream, Store{call.space, n, 0});
  multiply<true, false>(1, m, n, k, x, {call.buffer(3), n, 1, 0}, call.stream, Gate{call.space, n});
  multiply<true, false>(1, m, k, n, {call.space, n, 1, 0}, {call.buffer(2), k, 1, 0}, call.stream,
           Store{call.buffer(4), k, 0});
  return launched();
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, problem->dim[0] * problem->dim[1], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file simt.h from ../../shared
