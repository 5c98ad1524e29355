// Baseline: OpenBLAS for the three products.
// sculler:requires openblas
#include <cblas.h>

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

constexpr int64_t kRows = 16;  // a job

// c = a * b, row-major, n columns, k terms.
inline void multiply(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), 1, a, static_cast<int>(k), b, static_cast<int>(n), 0, c,
              static_cast<int>(n));
}

// h = h * silu(g).
inline void gate_rows(float* __restrict h, const float* __restrict g, int64_t n) {
  for (int64_t i = 0; i < n; ++i) h[i] *= g[i] / (1.0f + std::exp(-g[i]));
}

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 3) return SCULLER_ERROR;
  openblas_set_num_threads(rank->n_threads);
  *state = new State{pool, sculler::Threads(rank->n_threads),
                     std::vector<float>(2 * problem->dim[0] * problem->dim[1])};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* up = static_cast<const float*>(buffer[1].ptr);
  const auto* down = static_cast<const float*>(buffer[2].ptr);
  const auto* gate = static_cast<const float*>(buffer[3].ptr);
  auto* y = static_cast<float*>(buffer[4].ptr);
  float* h = self->space.data();
  float* g = h + m * n;
  multiply(m, n, k, x, up, h);
  multiply(m, n, k, x, gate, g);
  self->threads.run((m + kRows - 1) / kRows, [&](int64_t job) {
    const int64_t begin = job * kRows, end = std::min(m, begin + kRows);
    gate_rows(h + begin * n, g + begin * n, (end - begin) * n);
  });
  multiply(m, k, n, h, down, y);
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
