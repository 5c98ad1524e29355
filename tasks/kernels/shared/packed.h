// Products of matrices whose operands are packed: panels of B in the order of the loop, tiles of C
// in registers, blocks of A in the second-level cache. ROWS, VECTORS, DEPTH and BLOCK are the first
// file's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sculler/threads.h"
#include "vectors.h"

namespace {

// EVOLVE-BLOCK-START
constexpr int64_t kColumns = kLanes * VECTORS;

// A matrix as it lies in memory: element (i, j) is data[i * row + j * column].
struct Matrix {
  const float* data;
  int64_t row, column;
};

inline int64_t panels(int64_t n) { return (n + kColumns - 1) / kColumns; }
// Floats that the packed form of a k x n matrix takes.
inline int64_t packed_size(int64_t k, int64_t n) { return panels(n) * kColumns * k; }

// Panel `p` of b, kColumns columns in the order in which tiles read them, zeros beyond column n.
inline void pack(Matrix b, int64_t k, int64_t n, int64_t p, float* packed) {
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
inline void block(int64_t m, int64_t n, int64_t k, Matrix a, const float* packed, float* c, int64_t c_row,
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

// c (m x n) (+)= a * b by all threads, blocks of about `span` columns a job; `space` takes
// packed_size(k, n). finish(i, j, rows, columns) sees each block of c as it is done.
template <class Finish>
void multiply(sculler::Threads& threads, int64_t span, int64_t m, int64_t n, int64_t k, Matrix a,
              Matrix b, float* space, float* c, bool add, Finish&& finish) {
  threads.run(panels(n), [&](int64_t p) { pack(b, k, n, p, space); });
  span = span / kColumns * kColumns;
  const int64_t down = (m + BLOCK - 1) / BLOCK, across = (n + span - 1) / span;
  threads.run(down * across, [&](int64_t job) {
    const int64_t i = job % down * BLOCK, j = job / down * span;
    const int64_t rows = std::min<int64_t>(BLOCK, m - i), columns = std::min(span, n - j);
    block(rows, columns, k, {a.data + i * a.row, a.row, a.column}, space + j * k, c + i * n + j, n,
          add);
    finish(i, j, rows, columns);
  });
}
inline void nothing(int64_t, int64_t, int64_t, int64_t) {}
// EVOLVE-BLOCK-END

}  // namespace
