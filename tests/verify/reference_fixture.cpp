// y = 2 x on rows of 16 floats, for tests.
#include <cstdint>

#include "sculler/candidate.h"

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem*, int, int rank,
                                                const void* const* inputs, void* const* outputs,
                                                const int64_t* rows, int64_t n_rows) {
  const auto* x = static_cast<const float*>(inputs[rank]);
  auto* y = static_cast<double*>(outputs[0]);
  for (int64_t i = 0; i < n_rows; ++i)
    for (int64_t c = 0; c < 16; ++c)
      y[i * 16 + c] = 2.0 * static_cast<double>(x[(rows ? rows[i] : i) * 16 + c]);
  return 0;
}
