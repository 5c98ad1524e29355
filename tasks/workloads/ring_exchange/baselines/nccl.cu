// sculler:directive {"backend":"none","issuer":"cta","placement":"sequential","sync":"global","granularity":67108864,"why":"What a host program does today: a grouped send and receive a step."}
//
// Baseline: step s sends what arrived in step s - 1 to the right and receives from the left.
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
  if (problem->n_dims != RX_N_DIMS) return SCULLER_ERROR;
  *state = new State{*rank, pool};
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const int64_t t = problem->dim[RX_DIM_T], n = problem->dim[RX_DIM_N];
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  auto* y = static_cast<float*>(buffer[RX_Y].ptr);
  const auto comm = static_cast<ncclComm_t>(st->rank.comm);
  const auto stream = static_cast<cudaStream_t>(st->rank.stream);
  const int right = (st->rank.rank + 1) % st->rank.n_ranks;
  const int left = (st->rank.rank + st->rank.n_ranks - 1) % st->rank.n_ranks;
  for (int64_t s = 0; s < t; ++s) {
    const void* from = s == 0 ? buffer[RX_X].ptr : y + (s - 1) * n;
    RX_TRY(ncclGroupStart());
    RX_TRY(ncclSend(from, static_cast<size_t>(n), ncclFloat32, right, comm, stream));
    RX_TRY(ncclRecv(y + s * n, static_cast<size_t>(n), ncclFloat32, left, comm, stream));
    RX_TRY(ncclGroupEnd());
  }
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
