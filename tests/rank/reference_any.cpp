// silu's reference for any number of ranks: each has its own vector.
#include <cmath>
#include <cstdint>

#include "sculler/candidate.h"

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int, int rank,
                                                const void* const* inputs, void* const* outputs,
                                                const int64_t*, int64_t) {
  const auto* x = static_cast<const float*>(inputs[rank]);
  auto* y = static_cast<double*>(outputs[0]);
  for (int64_t i = 0; i < problem->dim[0]; ++i) {
    const double v = static_cast<double>(x[i]);
    y[i] = v / (1.0 + std::exp(-v));
  }
  return 0;
}
