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

extern "C" int sculler_reference(const sculler_problem* problem, int n_ranks, int, const void* const* inputs,
                                 void* const* outputs, const int64_t* rows, int64_t n_rows) {
  if (problem->n_dims != AR_N_DIMS) return SCULLER_ERROR;
  const int64_t n = problem->dim[AR_DIM_N];
  // The vector is one row.
  for (int64_t i = 0; i < (rows ? n_rows : 1); ++i) {
    if (rows && rows[i] != 0) return SCULLER_ERROR;
    auto* y = static_cast<double*>(outputs[0]) + i * n;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int r = 0; r < n_ranks; ++r) sum += from_bf16(static_cast<const uint16_t*>(inputs[r])[j]);
      y[j] = sum;
    }
  }
  return SCULLER_OK;
}
