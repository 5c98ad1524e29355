// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"Three products and an elementwise step that is done on each block of the second product while it is in the cache. A product of matrices is bound by the multiply-add units once its operands are packed: panels of B in the order of the loop, tiles of C in registers, blocks of A in the second-level cache, blocks of C shared by threads."}
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sculler/candidate.h"
#include "sculler/threads.h"

// sculler:tune WIDTH in {256,512}
#ifndef WIDTH
#define WIDTH 512
#endif
// sculler:tune ROWS in {4,6,8,12,14}
#ifndef ROWS
#define ROWS 12
#endif
// sculler:tune VECTORS in {1,2,3,4}
#ifndef VECTORS
#define VECTORS 2
#endif
// sculler:tune DEPTH in {128,256,512}
#ifndef DEPTH
#define DEPTH 256
#endif
// sculler:tune BLOCK in {48,96,192}
#ifndef BLOCK
#define BLOCK 96
#endif
// sculler:tune SPAN in {256,512,1024}
#ifndef SPAN
#define SPAN 512
#endif
// sculler:tune THREADS in {1,2,4,8}
#ifndef THREADS
#define THREADS 2
#endif

#include "exponential.h"
#include "packed.h"

namespace {

// EVOLVE-BLOCK-START
// h = h * silu(g).
void gate_part(float* h, const float* g, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats x = load(g + i);
    store(h + i, load(h + i) * (x / (exponential(-x) + 1.0f)));
  }
  for (; i < n; ++i) h[i] *= g[i] / (1.0f + std::exp(-g[i]));
}
// EVOLVE-BLOCK-END

struct State {
  const sculler_pool* pool;
  sculler::Threads threads;
  std::vector<float> space;
};

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 3) return SCULLER_ERROR;
  *state = new State{
      pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads)),
      std::vector<float>(static_cast<std::size_t>(
          2 * packed_size(problem->dim[2], problem->dim[1]) +
          packed_size(problem->dim[1], problem->dim[2]) + 2 * problem->dim[0] * problem->dim[1]))};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* up = static_cast<const float*>(buffer[1].ptr);
  const auto* down = static_cast<const float*>(buffer[2].ptr);
  const auto* gate = static_cast<const float*>(buffer[3].ptr);
  auto* y = static_cast<float*>(buffer[4].ptr);
  // EVOLVE-BLOCK-START
  float* packed_gate = self->space.data() + packed_size(k, n);
  float* packed_down = packed_gate + packed_size(k, n);
  float* h = packed_down + packed_size(n, k);
  float* g = h + m * n;
  multiply(self->threads, SPAN, m, n, k, {x, k, 1}, {up, n, 1}, self->space.data(), h, false, nothing);
  multiply(self->threads, SPAN, m, n, k, {x, k, 1}, {gate, n, 1}, packed_gate, g, false,
           [&](int64_t i, int64_t j, int64_t rows, int64_t columns) {
             for (int64_t r = i; r < i + rows; ++r)
               gate_part(h + r * n + j, g + r * n + j, columns);
           });
  multiply(self->threads, SPAN, m, k, n, {h, n, 1}, {down, k, 1}, packed_down, y, false, nothing);
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
// sculler:file exponential.h from ../../shared
// sculler:file packed.h from ../../shared
// sculler:file vectors.h from ../../shared
