// The trusted answer on the host. ABI: docs/internals.md.
#include <cstdint>
#include <cstring>

#include "problem.h"

namespace {
double from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}
}  // namespace

extern "C" int sculler_reference(const sculler_problem* problem, int n_ranks, int rank,
                                 const void* const* inputs, void* const* outputs,
                                 const int64_t* rows, int64_t n_rows) {
  if (problem->n_dims != AA_N_DIMS) return SCULLER_ERROR;
  const int64_t m = problem->dim[AA_DIM_M], n = problem->dim[AA_DIM_N];
  auto* y = static_cast<double*>(outputs[0]);
  for (int64_t i = 0; i < (rows ? n_rows : n_ranks * m); ++i) {
    const int64_t row = rows ? rows[i] : i;
    if (row < 0 || row >= n_ranks * m) return SCULLER_ERROR;
    const auto* x = static_cast<const uint16_t*>(inputs[row / m]) + (rank * m + row % m) * n;
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = from_bf16(x[j]);
  }
  return SCULLER_OK;
}
