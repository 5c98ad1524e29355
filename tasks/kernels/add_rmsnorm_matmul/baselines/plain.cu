// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Tiles through shared memory on the ordinary cores, then what is left row by row."}
//
// Baseline: Y = (rmsnorm(X + Z) G) W in float32 as one writes it first.
#include "rows.h"
#include "simt.h"

namespace {
int run(const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  each_row(m, call.stream,
           NormRow{call.buffer(0), call.buffer(2), call.buffer(3), call.space, k, 1e-5f});
  multiply<true, false>(1, m, n, k, {call.space, k, 1, 0}, {call.buffer(1), n, 1, 0}, call.stream,
           Store{call.buffer(4), n, 0});
  return launched();
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, problem->dim[0] * problem->dim[2], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file rows.h from ../../shared
// sculler:file simt.h from ../../shared
