// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Tiles through shared memory on the ordinary cores."}
//
// Baseline: Y = X W + (X A) B in float32 as one writes it first.
#include "simt.h"

namespace {
struct Add {
  float* y;
  int64_t n;
  __device__ void operator()(int64_t, int64_t row, int64_t column, float sum) const {
    y[row * n + column] += sum;
  }
};

int run(const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2), l = call.dim(3);
  float* const y = call.buffer(4);
  const Matrix x{call.buffer(0), k, 1, 0};
  multiply<true, false>(1, m, l, k, x, {call.buffer(2), l, 1, 0}, call.stream, Store{call.space, l, 0});
  multiply<true, false>(1, m, n, k, x, {call.buffer(1), n, 1, 0}, call.stream, Store{y, n, 0});
  multiply<true, false>(1, m, n, l, {call.space, l, 1, 0}, {call.buffer(3), n, 1, 0}, call.stream, Add{y, n});
  return launched();
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, problem->dim[0] * problem->dim[3], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file simt.h from ../../shared
