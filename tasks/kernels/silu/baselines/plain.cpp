// Baseline: the loop as one would write it, one thread, the C library's exponential.
#include <cmath>
#include <cstdint>

#include "sculler/candidate.h"

namespace {
struct State {
  const sculler_pool* pool;
};
}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank*, const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 1) return SCULLER_ERROR;
  *state = new State{pool};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  const sculler_buffer* buffer = static_cast<State*>(state)->pool->set[set].buffer;
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  auto* y = static_cast<float*>(buffer[1].ptr);
  const int64_t n = problem->dim[0];
  // EVOLVE-BLOCK-START
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1.0f + std::exp(-x[i]));
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
