// Baseline: the loop as one would write it, shared by threads, the C library's exponential.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sculler/candidate.h"
#include "sculler/threads.h"

namespace {
struct State {
  const sculler_pool* pool;
  sculler::Threads threads;
};
}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 1) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(rank->n_threads)};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  auto* y = static_cast<float*>(buffer[1].ptr);
  const int64_t n = problem->dim[0];
  // EVOLVE-BLOCK-START
  constexpr int64_t kPart = 1 << 15;
  self->threads.run((n + kPart - 1) / kPart, [&](int64_t job) {
    for (int64_t i = job * kPart; i < std::min(n, (job + 1) * kPart); ++i)
      y[i] = x[i] / (1.0f + std::exp(-x[i]));
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
