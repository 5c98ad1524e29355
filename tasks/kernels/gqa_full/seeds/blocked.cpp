// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"Scores of a block of queries stay in the second-level cache: product with the packed keys, a vector polynomial for the exponentials, product with the packed values, then the division by the sum."}
//
// Vector types of the compiler, so that one source serves AVX2, AVX-512 and machines that have
// neither.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "sculler/candidate.h"
#include "sculler/threads.h"

// sculler:tune WIDTH in {256,512}
#ifndef WIDTH
#define WIDTH 512
#endif
// sculler:tune ROWS in {4,6,8,12,14}
#ifndef ROWS
#define ROWS 12
#endif
// sculler:tune VECTORS in {1,2,3,4}
#ifndef VECTORS
#define VECTORS 2
#endif
// sculler:tune DEPTH in {128,256,512}
#ifndef DEPTH
#define DEPTH 256
#endif
// sculler:tune BLOCK in {48,96,192}
#ifndef BLOCK
#define BLOCK 96
#endif
// sculler:tune THREADS in {1,2,4,8}
#ifndef THREADS
#define THREADS 2
#endif

namespace {

// EVOLVE-BLOCK-START
typedef float Floats __attribute__((vector_size(WIDTH / 8), aligned(4)));
constexpr int64_t kLanes = WIDTH / 32, kColumns = kLanes * VECTORS;

inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void store(float* to, Floats value) { std::memcpy(to, &value, sizeof value); }

// A matrix as it lies in memory: element (i, j) is data[i * row + j * column].
struct Matrix {
  const float* data;
  int64_t row, column;
};

inline int64_t panels(int64_t n) { return (n + kColumns - 1) / kColumns; }
// Floats that the packed form of a k x n matrix takes.
inline int64_t packed_size(int64_t k, int64_t n) { return panels(n) * kColumns * k; }

// Panel `p` of b, kColumns columns in the order in which tiles read them, zeros beyond column n.
void pack(Matrix b, int64_t k, int64_t n, int64_t p, float* packed) {
  float* to = packed + p * kColumns * k;
  const int64_t first = p * kColumns, columns = std::min(kColumns, n - first);
  if (columns < kColumns) std::fill(to, to + kColumns * k, 0.0f);
  if (b.column == 1) {
    for (int64_t l = 0; l < k; ++l) {
      const float* from = b.data + l * b.row + first;
      for (int64_t j = 0; j < columns; ++j) to[l * kColumns + j] = from[j];
    }
    return;
  }
  for (int64_t j = 0; j < columns; ++j) {
    const float* from = b.data + (first + j) * b.column;
    for (int64_t l = 0; l < k; ++l) to[l * kColumns + j] = from[l * b.row];
  }
}

// c (rows x columns of a ROWS x kColumns tile) (+)= a (depth x ROWS) * b (depth x kColumns).
inline void tile(int64_t depth, const float* a, const float* b, float* c, int64_t c_row,
                 int64_t rows, int64_t columns, bool add) {
  Floats sum[ROWS][VECTORS] = {};
  for (int64_t l = 0; l < depth; ++l) {
    Floats part[VECTORS];
#pragma GCC unroll 4
    for (int64_t v = 0; v < VECTORS; ++v) part[v] = load(b + l * kColumns + v * kLanes);
#pragma GCC unroll 16
    for (int64_t i = 0; i < ROWS; ++i) {
#pragma GCC unroll 4
      for (int64_t v = 0; v < VECTORS; ++v) sum[i][v] += a[l * ROWS + i] * part[v];
    }
  }
  if (rows == ROWS && columns == kColumns) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < ROWS; ++i) {
#pragma GCC unroll 4
      for (int64_t v = 0; v < VECTORS; ++v) {
        float* to = c + i * c_row + v * kLanes;
        store(to, add ? load(to) + sum[i][v] : sum[i][v]);
      }
    }
    return;
  }
  alignas(64) float part[ROWS * kColumns];
#pragma GCC unroll 16
  for (int64_t i = 0; i < ROWS; ++i) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < VECTORS; ++v) store(part + i * kColumns + v * kLanes, sum[i][v]);
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      c[i * c_row + j] = (add ? c[i * c_row + j] : 0.0f) + part[i * kColumns + j];
  }
}

// c (m x n) (+)= a * the panels of b that begin at `packed`; m <= BLOCK.
void block(int64_t m, int64_t n, int64_t k, Matrix a, const float* packed, float* c, int64_t c_row,
           bool add) {
  constexpr int64_t kTiles = (BLOCK + ROWS - 1) / ROWS;
  alignas(64) static thread_local float space[kTiles * ROWS * DEPTH];
  for (int64_t l = 0; l < k; l += DEPTH) {
    const int64_t depth = std::min<int64_t>(DEPTH, k - l);
    for (int64_t i = 0; i < m; i += ROWS) {
      float* to = space + i * DEPTH;
      for (int64_t r = 0; r < ROWS; ++r) {
        const float* from = a.data + (i + r) * a.row + l * a.column;
        for (int64_t d = 0; d < depth; ++d)
          to[d * ROWS + r] = i + r < m ? from[d * a.column] : 0.0f;
      }
    }
    for (int64_t j = 0; j < n; j += kColumns) {
      const float* b = packed + j * k + l * kColumns;
      for (int64_t i = 0; i < m; i += ROWS)
        tile(depth, space + i * DEPTH, b, c + i * c_row + j, c_row, std::min<int64_t>(ROWS, m - i),
             std::min(kColumns, n - j), add || l > 0);
    }
  }
}

typedef int32_t Ints __attribute__((vector_size(WIDTH / 8), aligned(4)));

// exp(x), x clamped to [-87, 87]: 2^n * p(r) with the coefficients of Cephes' expf (2 ulp).
inline Floats exponential(Floats x) {
  const Floats most = Floats{} + 87.0f;
  x = x > most ? most : x;
  x = x < -most ? -most : x;
  const Floats n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = Floats{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

// y[0, n) = exp(scale * (y - max)); returns the sum. What is 87 below the maximum counts nothing.
float exponentials(float* y, int64_t n, float scale) {
  float most = y[0];
  int64_t j = 0;
  Floats high = Floats{} + y[0];
  for (; j + kLanes <= n; j += kLanes) {
    const Floats v = load(y + j);
    high = v > high ? v : high;
  }
  for (int64_t i = 0; i < kLanes; ++i) most = std::max(most, high[i]);
  for (; j < n; ++j) most = std::max(most, y[j]);
  Floats sums = {};
  for (j = 0; j + kLanes <= n; j += kLanes) {
    const Floats x = (load(y + j) - most) * scale;
    const Floats e = x < Floats{} - 87.0f ? Floats{} : exponential(x);
    store(y + j, e);
    sums += e;
  }
  float sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += sums[i];
  for (; j < n; ++j) sum += y[j] = std::exp((y[j] - most) * scale);
  return sum;
}
// EVOLVE-BLOCK-END

struct State {
  const sculler_pool* pool;
  sculler::Threads threads;
  std::vector<float> space;
};

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 5) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads)),
                     std::vector<float>(static_cast<std::size_t>(
                         problem->dim[0] * problem->dim[2] *
                             (packed_size(problem->dim[4], problem->dim[1]) +
                              packed_size(problem->dim[1], problem->dim[4])) +
                         problem->dim[1] * BLOCK * rank->n_threads))};
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
  const int64_t key_size = packed_size(d, n), value_size = packed_size(n, d);
  float* keys = self->space.data();
  float* values = keys + batch * kh * key_size;
  float* scores = values + batch * kh * value_size;
  const int64_t key_panels = panels(n), value_panels = panels(d), all = key_panels + value_panels;
  self->threads.run(batch * kh * all, [&](int64_t job) {
    const int64_t group = job / all, p = job % all, from = (group / kh * n * kh + group % kh) * d;
    if (p < key_panels) pack({k + from, 1, kh * d}, d, n, p, keys + group * key_size);
    else pack({v + from, kh * d, 1}, n, d, p - key_panels, values + group * value_size);
  });
  const float factor = 1.0f / std::sqrt(static_cast<float>(d));
  const int64_t down = (n + BLOCK - 1) / BLOCK, jobs = batch * qh * down;
  std::atomic<int64_t> next{0};
  self->threads.run(self->threads.size(), [&](int64_t thread) {
    float* score = scores + thread * n * BLOCK;
    for (int64_t job = next++; job < jobs; job = next++) {
      const int64_t b = job / (qh * down), head = job / down % qh, begin = job % down * BLOCK;
      const int64_t rows = std::min<int64_t>(BLOCK, n - begin), group = b * kh + head / (qh / kh);
      float sums[BLOCK];
      block(rows, n, d, {q + ((b * n + begin) * qh + head) * d, qh * d, 1}, keys + group * key_size,
            score, n, false);
      for (int64_t i = 0; i < rows; ++i) sums[i] = exponentials(score + i * n, n, factor);
      float* to = y + ((b * qh + head) * n + begin) * d;
      block(rows, d, n, {score, n, 1}, values + group * value_size, to, d, false);
      for (int64_t i = 0; i < rows; ++i) {
        const float scale = 1.0f / sums[i];
        for (int64_t j = 0; j < d; ++j) to[i * d + j] *= scale;
      }
    }
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
