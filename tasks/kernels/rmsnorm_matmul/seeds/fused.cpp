// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"The norm of a row is a factor of its row of the product, so the product runs on X as it is and each block of Y is scaled while it is in the cache. A product of matrices is bound by the multiply-add units once its operands are packed: panels of B in the order of the loop, tiles of C in registers, blocks of A in the second-level cache, blocks of C shared by threads."}
#include <algorithm>
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

#include "packed.h"
#include "rms.h"

namespace {

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
  *state = new State{pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads)),
                     std::vector<float>(static_cast<std::size_t>(
                         packed_size(problem->dim[2], problem->dim[1]) + problem->dim[0]))};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* w = static_cast<const float*>(buffer[1].ptr);
  auto* y = static_cast<float*>(buffer[2].ptr);
  // EVOLVE-BLOCK-START
  float* scale = self->space.data() + packed_size(k, n);
  self->threads.run((m + BLOCK - 1) / BLOCK, [&](int64_t job) {
    for (int64_t i = job * BLOCK; i < std::min<int64_t>(m, (job + 1) * BLOCK); ++i)
      scale[i] = inverse_rms(x + i * k, k, 0.0f);
  });
  multiply(self->threads, SPAN, m, n, k, {x, k, 1}, {w, n, 1}, self->space.data(), y, false,
           [&](int64_t i, int64_t j, int64_t rows, int64_t columns) {
             for (int64_t r = i; r < i + rows; ++r) {
               for (int64_t q = j; q < j + columns; ++q) y[r * n + q] *= scale[r];
             }
           });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
// sculler:file packed.h from ../../shared
// sculler:file rms.h from ../../shared
// sculler:file vectors.h from ../../shared
