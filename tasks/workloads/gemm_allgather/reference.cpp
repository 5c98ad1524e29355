// The trusted answer on the host: C = A * B^T with float64 sums, for the rows asked for. ABI: docs/internals.md.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "problem.h"

namespace {

double from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}

constexpr int64_t kColumns = 64;  // of C a block: its part of B, transposed, stays in the second-level cache
constexpr int64_t kRows = 4;      // of C a block share each load of B

// c[i][j] += sum over k of a[i][k] * b[k][j]; a is [kRows, k], b is [k, kColumns].
void multiply(const double* a, const double* b, int64_t k, double (&c)[kRows][kColumns]) {
  for (int64_t i = 0; i < k; ++i) {
    const double* row = b + i * kColumns;
    for (int64_t r = 0; r < kRows; ++r) {
      const double scale = a[r * k + i];
      for (int64_t j = 0; j < kColumns; ++j) c[r][j] += scale * row[j];
    }
  }
}

}  // namespace

extern "C" int sculler_reference(const sculler_problem* problem, int n_ranks, int rank,
                                 const void* const* inputs, void* const* outputs,
                                 const int64_t* rows, int64_t n_rows) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank, n_ranks, &shape)) return code;
  if (!rows) n_rows = shape.s;
  const int64_t k = shape.k, n = shape.n;
  // Rank 0's B: the contract says that all ranks hold the same.
  const auto* b = static_cast<const uint16_t*>(inputs[GA_B]);
  auto* c = static_cast<double*>(outputs[0]);

  std::vector<double> a_wide(static_cast<size_t>((n_rows + kRows) * k), 0.0);
  for (int64_t i = 0; i < n_rows; ++i) {
    const int64_t row = rows ? rows[i] : i;
    if (row < 0 || row >= shape.s) return SCULLER_ERROR;
    const auto* a = static_cast<const uint16_t*>(inputs[(row / shape.rows) * 2 + GA_A]);
    for (int64_t j = 0; j < k; ++j)
      a_wide[static_cast<size_t>(i * k + j)] = from_bf16(a[(row % shape.rows) * k + j]);
  }
  std::vector<double> b_wide(static_cast<size_t>(k * kColumns));
  for (int64_t column = 0; column < n; column += kColumns) {
    const int64_t columns = std::min(kColumns, n - column);
    std::fill(b_wide.begin(), b_wide.end(), 0.0);
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < k; ++i)
        b_wide[static_cast<size_t>(i * kColumns + j)] = from_bf16(b[(column + j) * k + i]);
    for (int64_t row = 0; row < n_rows; row += kRows) {
      double sum[kRows][kColumns] = {};
      multiply(a_wide.data() + row * k, b_wide.data(), k, sum);
      for (int64_t r = 0; r < std::min(kRows, n_rows - row); ++r)
        std::copy(sum[r], sum[r] + columns, c + (row + r) * n + column);
    }
  }
  return SCULLER_OK;
}
