// Expected Y on the device, for the checker: float64 throughout, rounded once; a head at a time.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 5 || n_ranks != 1) return SCULLER_ERROR;
  const int64_t batches = problem->dim[0], n = problem->dim[1], kh = problem->dim[2],
                qh = problem->dim[3], d = problem->dim[4];
  if (kh < 1 || qh % kh != 0) return SCULLER_ERROR;
  const auto* all_q = static_cast<const float*>(inputs[0]);
  const auto* all_k = static_cast<const float*>(inputs[1]);
  const auto* all_v = static_cast<const float*>(inputs[2]);
  const auto on = static_cast<cudaStream_t>(stream);
  const sculler::Between between(n * n, on);
  double* const score = between.data();
  if (score == nullptr) return SCULLER_OUT_OF_MEMORY;
  const double scale = 1.0 / sqrt(static_cast<double>(d));
  for (int64_t head = 0; head < batches * qh; ++head) {
    const int64_t b = head / qh, group = head % qh / (qh / kh);
    const float* q = all_q + (b * n * qh + head % qh) * d;
    const float* k = all_k + (b * n * kh + group) * d;
    const float* v = all_v + (b * n * kh + group) * d;
    float* y = static_cast<float*>(outputs[0]) + head * n * d;
    sculler::product(
        n, n, d, on, [=] __device__(int64_t i, int64_t l) { return double{q[i * qh * d + l]}; },
        [=] __device__(int64_t l, int64_t j) { return double{k[j * kh * d + l]}; },
        [=] __device__(int64_t i, int64_t j, double sum) { score[i * n + j] = sum; });
    sculler::each_row(n, n, on, [=] __device__(int64_t row, auto total, auto largest) {
      double* of = score + row * n;
      const double most = largest([&](int64_t j) { return of[j]; });
      const double sum = total([&](int64_t j) { return exp((of[j] - most) * scale); });
      for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
        of[j] = exp((of[j] - most) * scale) / sum;
    });
    sculler::product(
        n, d, n, on, [=] __device__(int64_t i, int64_t l) { return score[i * n + l]; },
        [=] __device__(int64_t l, int64_t j) { return double{v[l * kh * d + j]}; },
        [=] __device__(int64_t i, int64_t j, double sum) {
          y[i * d + j] = static_cast<float>(sum);
        });
  }
  return sculler::launched();
}
