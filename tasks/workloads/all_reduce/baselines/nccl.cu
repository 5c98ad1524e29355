// sculler:directive {"backend":"none","issuer":"cta","placement":"sequential","sync":"global","granularity":134217728,"why":"What a host program does today: one library collective."}
//
// Baseline: ncclAllReduce from X to Y.
#include <cuda_runtime.h>
#include <nccl.h>

#include "problem.h"

namespace {
struct State {
  sculler_rank rank;
  const sculler_pool* pool;
};
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != AR_N_DIMS) return SCULLER_ERROR;
  *state = new State{*rank, pool};
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  AR_TRY(ncclAllReduce(buffer[AR_X].ptr, buffer[AR_Y].ptr, static_cast<size_t>(problem->dim[AR_DIM_N]),
                       ncclBfloat16, ncclSum, static_cast<ncclComm_t>(st->rank.comm),
                       static_cast<cudaStream_t>(st->rank.stream)));
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
