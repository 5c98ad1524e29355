// sculler:directive {"backend":"none","issuer":"cta","placement":"sequential","sync":"global","granularity":33554432,"why":"What a host program does today: one group of sends and receives."}
//
// Baseline: a grouped ncclSend and ncclRecv with every rank.
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
  if (problem->n_dims != AA_N_DIMS) return SCULLER_ERROR;
  *state = new State{*rank, pool};
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const int64_t block = problem->dim[AA_DIM_M] * problem->dim[AA_DIM_N];
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  const auto* x = static_cast<const uint16_t*>(buffer[AA_X].ptr);
  auto* y = static_cast<uint16_t*>(buffer[AA_Y].ptr);
  const auto comm = static_cast<ncclComm_t>(st->rank.comm);
  const auto stream = static_cast<cudaStream_t>(st->rank.stream);
  AA_TRY(ncclGroupStart());
  for (int r = 0; r < st->rank.n_ranks; ++r) {
    AA_TRY(ncclSend(x + r * block, static_cast<size_t>(block), ncclBfloat16, r, comm, stream));
    AA_TRY(ncclRecv(y + r * block, static_cast<size_t>(block), ncclBfloat16, r, comm, stream));
  }
  AA_TRY(ncclGroupEnd());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
