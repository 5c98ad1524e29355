// Baseline: blocked loops over rows, all threads: both products, the gate, the product down.
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

// h = h * silu(g).
inline void gate_rows(float* __restrict h, const float* __restrict g, int64_t n) {
  for (int64_t i = 0; i < n; ++i) h[i] *= g[i] / (1.0f + std::exp(-g[i]));
}
// EVOLVE-BLOCK-END

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 3) return SCULLER_ERROR;
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
  // EVOLVE-BLOCK-START
  float* h = self->space.data();
  float* g = h + m * n;
  self->threads.run((m + kRows - 1) / kRows, [&](int64_t job) {
    const int64_t begin = job * kRows, end = std::min(m, begin + kRows);
    multiply_rows(x, up, h, begin, end, n, k);
    multiply_rows(x, gate, g, begin, end, n, k);
    gate_rows(h + begin * n, g + begin * n, (end - begin) * n);
    multiply_rows(h, down, y, begin, end, k, n);
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
