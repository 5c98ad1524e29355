// Baseline: the loop as one would write it, vectorised by the compiler, rows shared by threads.
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
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 4) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(rank->n_threads)};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t columns = problem->dim[0] * problem->dim[1] * problem->dim[2], d = problem->dim[3],
                half = d / 2;
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* cosine = static_cast<const float*>(buffer[1].ptr);
  const auto* sine = static_cast<const float*>(buffer[2].ptr);
  auto* y = static_cast<float*>(buffer[3].ptr);
  // EVOLVE-BLOCK-START
  constexpr int64_t kPart = 1 << 15;
  const int64_t parts = (columns + kPart - 1) / kPart;
  self->threads.run(half * parts, [&](int64_t job) {
    const int64_t row = job / parts, begin = job % parts * kPart,
                  n = std::min(kPart, columns - begin);
    const float* __restrict a = x + row * columns + begin;
    const float* __restrict b = x + (row + half) * columns + begin;
    const float* __restrict c = cosine + row * columns + begin;
    const float* __restrict s = sine + row * columns + begin;
    float* __restrict low = y + row * columns + begin;
    float* __restrict high = y + (row + half) * columns + begin;
    for (int64_t i = 0; i < n; ++i) {
      low[i] = a[i] * c[i] - b[i] * s[i];
      high[i] = a[i] * s[i] + b[i] * c[i];
    }
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
