// Baseline: a head after the other in blocks of queries, all threads: scores, softmax, sum of
// values. Keys and values are copied to plain matrices first.
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

// y = exp(scale * (y - max)) / sum, one row.
inline void softmax(float* y, int64_t n, float factor) {
  const float most = *std::max_element(y, y + n);
  float sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += y[j] = std::exp((y[j] - most) * factor);
  const float scale = 1.0f / sum;
  for (int64_t j = 0; j < n; ++j) y[j] *= scale;
}
// EVOLVE-BLOCK-END

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 5) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(rank->n_threads),
                     std::vector<float>(2 * problem->dim[0] * problem->dim[1] * problem->dim[2] *
                                        problem->dim[4])};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t batch = problem->dim[0], n = problem->dim[1], kh = problem->dim[2],
                qh = problem->dim[3], d = problem->dim[4];
  const auto* q = static_cast<const float*>(buffer[0].ptr);
  const auto* k = static_cast<const float*>(buffer[1].ptr);
  const auto* v = static_cast<const float*>(buffer[2].ptr);
  auto* y = static_cast<float*>(buffer[3].ptr);
  // EVOLVE-BLOCK-START
  if (kh < 1 || qh % kh != 0) return SCULLER_UNSUPPORTED_PROBLEM;
  float* keys = self->space.data();           // batch, head: d x n
  float* values = keys + batch * kh * n * d;  // batch, head: n x d
  self->threads.run(batch * kh, [&](int64_t job) {
    const int64_t b = job / kh, head = job % kh;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t from = ((b * n + i) * kh + head) * d;
      for (int64_t l = 0; l < d; ++l) {
        keys[(job * d + l) * n + i] = k[from + l];
        values[(job * n + i) * d + l] = v[from + l];
      }
    }
  });
  const float factor = 1.0f / std::sqrt(static_cast<float>(d));
  const int64_t down = (n + kRows - 1) / kRows;
  self->threads.run(batch * qh * down, [&](int64_t job) {
    const int64_t b = job / (qh * down), head = job / down % qh, begin = job % down * kRows;
    const int64_t rows = std::min(kRows, n - begin), group = b * kh + head / (qh / kh);
    std::vector<float> queries(static_cast<std::size_t>(rows * d)),
        score(static_cast<std::size_t>(rows * n));
    for (int64_t i = 0; i < rows; ++i) {
      const float* from = q + ((b * n + begin + i) * qh + head) * d;
      std::copy(from, from + d, queries.data() + i * d);
    }
    multiply_rows(queries.data(), keys + group * d * n, score.data(), 0, rows, n, d);
    for (int64_t i = 0; i < rows; ++i) softmax(score.data() + i * n, n, factor);
    multiply_rows(score.data(), values + group * n * d, y + ((b * qh + head) * n + begin) * d, 0,
                  rows, d, n);
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
