// Baseline: OpenBLAS, then rows are finished by all threads.
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

// 1 / sqrt(mean of the squares of a row + 1e-5).
inline float inverse_rms(const float* x, int64_t n) {
  float sums[16] = {};
  int64_t l = 0;
  for (; l + 16 <= n; l += 16) {
    for (int64_t i = 0; i < 16; ++i) sums[i] += x[l + i] * x[l + i];
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  for (; l < n; ++l) sum += x[l] * x[l];
  return 1.0f / std::sqrt(sum / static_cast<float>(n) + 1e-5f);
}

// y = (y + z) * gain / rms(y + z), one row.
inline void finish_row(float* __restrict y, const float* __restrict z, const float* __restrict gain,
                       int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] += z[j];
  const float scale = inverse_rms(y, n);
  for (int64_t j = 0; j < n; ++j) y[j] *= scale * gain[j];
}

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 3) return SCULLER_ERROR;
  openblas_set_num_threads(rank->n_threads);
  *state = new State{pool, sculler::Threads(rank->n_threads)};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* w = static_cast<const float*>(buffer[1].ptr);
  const auto* z = static_cast<const float*>(buffer[2].ptr);
  const auto* g = static_cast<const float*>(buffer[3].ptr);
  auto* y = static_cast<float*>(buffer[4].ptr);
  multiply(m, n, k, x, w, y);
  self->threads.run((m + kRows - 1) / kRows, [&](int64_t job) {
    for (int64_t i = job * kRows; i < std::min(m, (job + 1) * kRows); ++i)
      finish_row(y + i * n, z + i * n, g, n);
  });
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
