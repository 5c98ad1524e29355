// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"Three products and an elementwise step that is done on each block of the second product while it is in the cache. A product of matrices is bound by the multiply-add units once its operands are packed: panels of B in the order of the loop, tiles of C in registers, blocks of A in the second-level cache, blocks of C shared by threads."}
//
// Vector types of the compiler, so that one source serves AVX2, AVX-512 and machines that have
// neither.
#include <algorithm>
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
// sculler:tune SPAN in {256,512,1024}
#ifndef SPAN
#define SPAN 512
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

// c (m x n) (+)= a * b by all threads; `space` takes packed_size(k, n). finish(i, j, rows, columns)
// sees each block of c as it is done.
template <class Finish>
void multiply(sculler::Threads& threads, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
              float* space, float* c, bool add, Finish&& finish) {
  threads.run(panels(n), [&](int64_t p) { pack(b, k, n, p, space); });
  constexpr int64_t kSpan = SPAN / kColumns * kColumns;
  const int64_t down = (m + BLOCK - 1) / BLOCK, across = (n + kSpan - 1) / kSpan;
  threads.run(down * across, [&](int64_t job) {
    const int64_t i = job % down * BLOCK, j = job / down * kSpan;
    const int64_t rows = std::min<int64_t>(BLOCK, m - i), columns = std::min(kSpan, n - j);
    block(rows, columns, k, {a.data + i * a.row, a.row, a.column}, space + j * k, c + i * n + j, n,
          add);
    finish(i, j, rows, columns);
  });
}
inline void nothing(int64_t, int64_t, int64_t, int64_t) {}

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

// h = h * silu(g).
void gate_part(float* h, const float* g, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats x = load(g + i);
    store(h + i, load(h + i) * (x / (exponential(-x) + 1.0f)));
  }
  for (; i < n; ++i) h[i] *= g[i] / (1.0f + std::exp(-g[i]));
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
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 3) return SCULLER_ERROR;
  *state = new State{
      pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads)),
      std::vector<float>(static_cast<std::size_t>(
          2 * packed_size(problem->dim[2], problem->dim[1]) +
          packed_size(problem->dim[1], problem->dim[2]) + 2 * problem->dim[0] * problem->dim[1]))};
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
  float* packed_gate = self->space.data() + packed_size(k, n);
  float* packed_down = packed_gate + packed_size(k, n);
  float* h = packed_down + packed_size(n, k);
  float* g = h + m * n;
  multiply(self->threads, m, n, k, {x, k, 1}, {up, n, 1}, self->space.data(), h, false, nothing);
  multiply(self->threads, m, n, k, {x, k, 1}, {gate, n, 1}, packed_gate, g, false,
           [&](int64_t i, int64_t j, int64_t rows, int64_t columns) {
             for (int64_t r = i; r < i + rows; ++r)
               gate_part(h + r * n + j, g + r * n + j, columns);
           });
  multiply(self->threads, m, k, n, {h, n, 1}, {down, k, 1}, packed_down, y, false, nothing);
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
