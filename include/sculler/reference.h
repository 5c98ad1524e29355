// For reference.cpp of tasks: matrix products in float64, fast enough to check every element.
#ifndef SCULLER_REFERENCE_H
#define SCULLER_REFERENCE_H

#include <stdint.h>

#include <algorithm>
#include <memory>

namespace sculler {

// A matrix as it lies in memory: element (i, j) is data[i * row + j * column].
template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;
};

namespace reference_detail {

constexpr int64_t kRows = 6, kColumns = 16, kDepth = 256;

// c (kRows x kColumns) = a (kRows x depth, packed by columns) * b (depth x kColumns, packed by
// rows). A macro, since vectors are lowered for a function's target before anything is inlined.
using Tile = void (*)(int64_t, const double*, const double*, double*);
typedef double Vector __attribute__((vector_size(64), aligned(8)));
#define SCULLER_REFERENCE_TILE(name, attributes)                                            \
  attributes inline void name(int64_t depth, const double* a, const double* b, double* c) { \
    Vector sum[kRows][2] = {};                                                              \
    for (int64_t k = 0; k < depth; ++k) {                                                   \
      const Vector b0 = *reinterpret_cast<const Vector*>(b + k * kColumns);                 \
      const Vector b1 = *reinterpret_cast<const Vector*>(b + k * kColumns + 8);             \
      _Pragma("GCC unroll 6") for (int64_t i = 0; i < kRows; ++i) {                         \
        sum[i][0] += a[k * kRows + i] * b0;                                                 \
        sum[i][1] += a[k * kRows + i] * b1;                                                 \
      }                                                                                     \
    }                                                                                       \
    _Pragma("GCC unroll 6") for (int64_t i = 0; i < kRows; ++i) {                           \
      *reinterpret_cast<Vector*>(c + i * kColumns) = sum[i][0];                             \
      *reinterpret_cast<Vector*>(c + i * kColumns + 8) = sum[i][1];                         \
    }                                                                                       \
  }
SCULLER_REFERENCE_TILE(tile_plain, )
#if defined(__x86_64__)
SCULLER_REFERENCE_TILE(tile_avx2, __attribute__((target("avx2,fma"))))
SCULLER_REFERENCE_TILE(tile_avx512, __attribute__((target("avx512f"))))
#endif
#undef SCULLER_REFERENCE_TILE

inline Tile pick_tile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return tile_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tile_avx2;
#endif
  return tile_plain;
}

}  // namespace reference_detail

// c[i * c_row + j] (added to where `add`) = sum over l of a(i, l) * b(l, j), in float64:
// m rows, n columns, k terms each.
template <class A, class B>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<A> a, Matrix<B> b, double* c, int64_t c_row,
              bool add = false) {
  using namespace reference_detail;
  static const Tile run = pick_tile();
  const int64_t row_tiles = (m + kRows - 1) / kRows;
  const std::unique_ptr<double[]> packed_a(
      new double[static_cast<std::size_t>(row_tiles * kRows * kDepth)]);
  const std::unique_ptr<double[]> packed_b(new double[static_cast<std::size_t>(kDepth * kColumns)]);
  if (!add) {
    for (int64_t i = 0; i < m; ++i) std::fill(c + i * c_row, c + i * c_row + n, 0.0);
  }
  for (int64_t l = 0; l < k; l += kDepth) {
    const int64_t depth = std::min(kDepth, k - l);
    for (int64_t t = 0; t < row_tiles; ++t) {
      double* to = packed_a.get() + t * kRows * kDepth;
      for (int64_t i = 0; i < kRows; ++i) {
        const int64_t row = t * kRows + i;
        for (int64_t d = 0; d < depth; ++d)
          to[d * kRows + i] =
              row < m ? static_cast<double>(a.data[row * a.row + (l + d) * a.column]) : 0.0;
      }
    }
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j);
      for (int64_t d = 0; d < depth; ++d) {
        for (int64_t i = 0; i < kColumns; ++i)
          packed_b[static_cast<std::size_t>(d * kColumns + i)] =
              i < columns ? static_cast<double>(b.data[(l + d) * b.row + (j + i) * b.column]) : 0.0;
      }
      for (int64_t t = 0; t < row_tiles; ++t) {
        double part[kRows * kColumns];
        run(depth, packed_a.get() + t * kRows * kDepth, packed_b.get(), part);
        const int64_t rows = std::min(kRows, m - t * kRows);
        for (int64_t i = 0; i < rows; ++i) {
          double* to = c + (t * kRows + i) * c_row + j;
          for (int64_t q = 0; q < columns; ++q) to[q] += part[i * kColumns + q];
        }
      }
    }
  }
}

// What sculler_reference was asked for, in as few parts as there are: part(row, count, at) computes
// rows [row, row + count) into the outputs' rows from `at` on. `total` rows in groups of `group`
// that a part never crosses (a matrix of a batch). False where a listed row does not exist.
template <class F>
bool for_rows(const int64_t* rows, int64_t n_rows, int64_t total, int64_t group, F&& part) {
  for (int64_t i = 0; rows != nullptr && i < n_rows; ++i) {
    if (rows[i] < 0 || rows[i] >= total) return false;
    part(rows[i], int64_t{1}, i);
  }
  for (int64_t row = 0; rows == nullptr && row < total; row += group)
    part(row, std::min(group, total - row), row);
  return true;
}

}  // namespace sculler
#endif
