// The trusted answer on the host. ABI: docs/internals.md.
#include <cstdint>

#include "problem.h"

extern "C" int sculler_reference(const sculler_problem* problem, int n_ranks, int rank,
                                 const void* const* inputs, void* const* outputs,
                                 const int64_t* rows, int64_t n_rows) {
  if (problem->n_dims != RX_N_DIMS) return SCULLER_ERROR;
  const int64_t t = problem->dim[RX_DIM_T], n = problem->dim[RX_DIM_N];
  auto* y = static_cast<double*>(outputs[0]);
  for (int64_t i = 0; i < (rows ? n_rows : t); ++i) {
    const int64_t s = rows ? rows[i] : i;
    if (s < 0 || s >= t) return SCULLER_ERROR;
    const auto* x = static_cast<const float*>(inputs[rx_origin(rank, n_ranks, s)]);
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = static_cast<double>(x[j]);
  }
  return SCULLER_OK;
}
