// Baseline: the norms are taken out of the product: blocked loops over rows, all threads, then each
// row is scaled.
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

// EVOLVE-BLOCK-START
constexpr int64_t kRows = 16;  // a job

// Rows [begin, end) of c (+)= a * b, row-major: four rows at a time, blocks of b that stay in a
// cache; the compiler vectorises the inner loop. n columns, k terms.
void multiply_rows(const float* a, const float* b, float* c, int64_t begin, int64_t end, int64_t n,
                   int64_t k, bool add = false) {
  constexpr int64_t kDepth = 128, kWidth = 512;
  if (!add) std::fill(c + begin * n, c + end * n, 0.0f);
  for (int64_t j0 = 0; j0 < n; j0 += kWidth) {
    const int64_t width = std::min(kWidth, n - j0);
    for (int64_t l0 = 0; l0 < k; l0 += kDepth) {
      const int64_t l1 = std::min(k, l0 + kDepth);
      int64_t i = begin;
      for (; i + 4 <= end; i += 4) {
        float* __restrict c0 = c + i * n + j0;
        float* __restrict c1 = c0 + n;
        float* __restrict c2 = c1 + n;
        float* __restrict c3 = c2 + n;
        for (int64_t l = l0; l < l1; ++l) {
          const float* __restrict row = b + l * n + j0;
          const float a0 = a[i * k + l], a1 = a[(i + 1) * k + l], a2 = a[(i + 2) * k + l],
                      a3 = a[(i + 3) * k + l];
          for (int64_t j = 0; j < width; ++j) {
            c0[j] += a0 * row[j];
            c1[j] += a1 * row[j];
            c2[j] += a2 * row[j];
            c3[j] += a3 * row[j];
          }
        }
      }
      for (; i < end; ++i) {
        float* __restrict c0 = c + i * n + j0;
        for (int64_t l = l0; l < l1; ++l) {
          const float* __restrict row = b + l * n + j0;
          const float a0 = a[i * k + l];
          for (int64_t j = 0; j < width; ++j) c0[j] += a0 * row[j];
        }
      }
    }
  }
}

// 1 / sqrt(mean of the squares of a row).
inline float inverse_rms(const float* x, int64_t k) {
  float sums[16] = {};
  int64_t l = 0;
  for (; l + 16 <= k; l += 16) {
    for (int64_t i = 0; i < 16; ++i) sums[i] += x[l + i] * x[l + i];
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  for (; l < k; ++l) sum += x[l] * x[l];
  return 1.0f / std::sqrt(sum / static_cast<float>(k));
}
// EVOLVE-BLOCK-END

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 3) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(rank->n_threads)};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* w = static_cast<const float*>(buffer[1].ptr);
  auto* y = static_cast<float*>(buffer[2].ptr);
  // EVOLVE-BLOCK-START
  self->threads.run((m + kRows - 1) / kRows, [&](int64_t job) {
    const int64_t begin = job * kRows, end = std::min(m, begin + kRows);
    multiply_rows(x, w, y, begin, end, n, k);
    for (int64_t i = begin; i < end; ++i) {
      const float scale = inverse_rms(x + i * k, k);
      for (int64_t j = 0; j < n; ++j) y[i * n + j] *= scale;
    }
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
