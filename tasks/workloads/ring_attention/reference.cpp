// The trusted answer on the host. ABI: docs/internals.md.
#include <cmath>
#include <cstdint>
#include <vector>

#include "problem.h"

extern "C" int sculler_reference(const sculler_problem* problem, int n_ranks, int rank, const void* const* inputs,
                                 void* const* outputs, const int64_t* rows, int64_t n_rows) {
  if (problem->n_dims != RA_N_DIMS) return SCULLER_ERROR;
  const int64_t t = problem->dim[RA_DIM_T], d = problem->dim[RA_DIM_D];
  const auto input = [&](int r, int buffer) { return static_cast<const float*>(inputs[r * 3 + buffer]); };
  std::vector<double> score(static_cast<size_t>(t * n_ranks));
  for (int64_t i = 0; i < (rows ? n_rows : t); ++i) {
    const int64_t row = rows ? rows[i] : i;
    if (row < 0 || row >= t) return SCULLER_ERROR;
    const float* q = input(rank, RA_Q) + row * d;
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < t * n_ranks; ++j) {
      const float* k = input(static_cast<int>(j / t), RA_K) + j % t * d;
      double dot = 0;
      for (int64_t c = 0; c < d; ++c) dot += static_cast<double>(q[c]) * static_cast<double>(k[c]);
      score[static_cast<size_t>(j)] = dot / std::sqrt(static_cast<double>(d));
      largest = std::fmax(largest, score[static_cast<size_t>(j)]);
    }
    auto* o = static_cast<double*>(outputs[0]) + i * d;
    for (int64_t c = 0; c < d; ++c) o[c] = 0;
    for (int64_t j = 0; j < t * n_ranks; ++j) {
      const double weight = std::exp(score[static_cast<size_t>(j)] - largest);
      const float* v = input(static_cast<int>(j / t), RA_V) + j % t * d;
      for (int64_t c = 0; c < d; ++c) o[c] += weight * static_cast<double>(v[c]);
      sum += weight;
    }
    for (int64_t c = 0; c < d; ++c) o[c] /= sum;
  }
  return SCULLER_OK;
}
