// Baseline: the scan as one would write it: channels shared by threads, B and C transposed so that
// a step's states lie side by side.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sculler/candidate.h"
#include "sculler/threads.h"

namespace {

struct State {
  const sculler_pool* pool;
  sculler::Threads threads;
  std::vector<float> space;
};

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 3) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(rank->n_threads),
                     std::vector<float>(2 * problem->dim[1] * problem->dim[2])};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t channels = problem->dim[0], m = problem->dim[1], states = problem->dim[2];
  const auto* delta = static_cast<const float*>(buffer[0].ptr);
  const auto* u = static_cast<const float*>(buffer[1].ptr);
  const auto* a = static_cast<const float*>(buffer[2].ptr);
  const auto* b = static_cast<const float*>(buffer[3].ptr);
  const auto* c = static_cast<const float*>(buffer[4].ptr);
  auto* y = static_cast<float*>(buffer[5].ptr);
  // EVOLVE-BLOCK-START
  float* bt = self->space.data();
  float* ct = bt + m * states;
  for (int64_t s = 0; s < states; ++s) {
    for (int64_t i = 0; i < m; ++i) {
      bt[i * states + s] = b[s * m + i];
      ct[i * states + s] = c[s * m + i];
    }
  }
  self->threads.run(channels, [&](int64_t channel) {
    std::vector<float> h(static_cast<std::size_t>(states));
    for (int64_t i = 0; i < m; ++i) {
      const float step = delta[channel * m + i], in = step * u[channel * m + i];
      float sum = 0;
      for (int64_t s = 0; s < states; ++s) {
        float& state = h[static_cast<std::size_t>(s)];
        state = std::exp(step * a[channel * states + s]) * state + in * bt[i * states + s];
        sum += ct[i * states + s] * state;
      }
      y[channel * m + i] = sum;
    }
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
