// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Tiles through shared memory on the ordinary cores, then what is left row by row."}
//
// Baseline: Y = rmsnorm(X W + Z) G in float32 as one writes it first.
#include "rows.h"
#include "simt.h"

namespace {
struct StoreSum {
  float* y;
  const float* z;
  int64_t n;
  __device__ void operator()(int64_t, int64_t row, int64_t column, float sum) const {
    y[row * n + column] = sum + z[row * n + column];
  }
};

int run(const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  float* const y = call.buffer(4);
  multiply<true, false>(1, m, n, k, {call.buffer(0), k, 1, 0}, {call.buffer(1), n, 1, 0}, call.stream,
           StoreSum{y, call.buffer(2), n});
  each_row(m, call.stream, NormRow{y, nullptr, call.buffer(3), y, n, 1e-5f});
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
// sculler:file rows.h from ../../shared
// sculler:file simt.h from ../../shared
