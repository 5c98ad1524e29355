#include <sculler/candidate.h>

extern "C" int sculler_reference(const sculler_problem* p, int, int, const void* const* in,
                                 void* const* out, const int64_t* rows, int64_t n_rows) {
  const auto* x = static_cast<const float*>(in[0]);
  auto* y = static_cast<double*>(out[0]);
  const int64_t n = rows == nullptr ? p->dim[0] : n_rows;
  for (int64_t i = 0; i < n; ++i) y[i] = x[rows == nullptr ? i : rows[i]];
  return 0;
}
