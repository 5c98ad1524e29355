// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Tiles through shared memory on the ordinary cores."}
//
// Baseline: Y[b] = X[b] W[b] in float32 as one writes it first.
#include "simt.h"

namespace {
int run(const Call& call) {
  const int64_t batches = call.dim(0), m = call.dim(1), n = call.dim(2), k = call.dim(3);
  multiply<true, false>(batches, m, n, k, {call.buffer(0), k, 1, m * k}, {call.buffer(1), n, 1, k * n},
           call.stream, Store{call.buffer(2), n, m * n});
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
