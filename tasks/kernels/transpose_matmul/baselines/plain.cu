// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Tiles through shared memory on the ordinary cores."}
//
// Baseline: Y = X^T W in float32 as one writes it first.
#include "simt.h"

namespace {
int run(const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  multiply<false, false>(1, m, n, k, {call.buffer(0), 1, m, 0}, {call.buffer(1), n, 1, 0}, call.stream,
           Store{call.buffer(2), n, 0});
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
// sculler:file simt.h from ../../shared
