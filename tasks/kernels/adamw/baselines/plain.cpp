// Baseline: the loop as one would write it, shared by threads.
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
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 2) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(rank->n_threads)};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t m = problem->dim[0], n = problem->dim[1];
  const auto* theta = static_cast<const float*>(buffer[0].ptr);
  const auto* g = static_cast<const float*>(buffer[1].ptr);
  const auto* mean = static_cast<const float*>(buffer[2].ptr);
  const auto* v = static_cast<const float*>(buffer[3].ptr);
  auto* y = static_cast<float*>(buffer[4].ptr);
  // EVOLVE-BLOCK-START
  constexpr int64_t kPart = 1 << 15;
  const int64_t all = m * n;
  self->threads.run((all + kPart - 1) / kPart, [&](int64_t job) {
    const int64_t begin = job * kPart, end = std::min(all, begin + kPart);
    const float* __restrict from = theta;
    float* __restrict to = y;
    for (int64_t i = begin; i < end; ++i) {
      const float m_t = 0.9f * mean[i] + 0.1f * g[i];
      const float v_t = 0.999f * v[i] + 0.001f * g[i] * g[i];
      to[i] = from[i] - 1e-5f * from[i] - 0.01f * m_t / (std::sqrt(v_t * 1000.0f) + 1e-8f);
    }
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
