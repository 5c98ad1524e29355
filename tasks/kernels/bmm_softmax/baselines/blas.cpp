// Baseline: OpenBLAS, one matrix after the other, then rows are finished by all threads.
// sculler:requires openblas
#include <cblas.h>

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

constexpr int64_t kRows = 16;  // a job

// c = a * b, row-major, n columns, k terms.
inline void multiply(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), 1, a, static_cast<int>(k), b, static_cast<int>(n), 0, c,
              static_cast<int>(n));
}

// y = exp(y - max) / sum, one row.
inline void softmax(float* y, int64_t n) {
  const float most = *std::max_element(y, y + n);
  float sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += y[j] = std::exp(y[j] - most);
  const float scale = 1.0f / sum;
  for (int64_t j = 0; j < n; ++j) y[j] *= scale;
}

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 4) return SCULLER_ERROR;
  openblas_set_num_threads(rank->n_threads);
  *state = new State{pool, sculler::Threads(rank->n_threads)};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t batch = problem->dim[0], m = problem->dim[1], n = problem->dim[2],
                k = problem->dim[3];
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* w = static_cast<const float*>(buffer[1].ptr);
  auto* y = static_cast<float*>(buffer[2].ptr);
  for (int64_t q = 0; q < batch; ++q)
    multiply(m, n, k, x + q * m * k, w + q * k * n, y + q * m * n);
  self->threads.run((batch * m + kRows - 1) / kRows, [&](int64_t job) {
    for (int64_t i = job * kRows; i < std::min(batch * m, (job + 1) * kRows); ++i)
      softmax(y + i * n, n);
  });
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
