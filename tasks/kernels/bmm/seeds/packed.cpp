// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"K is short, so each element of Y is written after few multiply-adds: stores of Y count as much as the products. Panels of W are packed once, tiles of Y stay in registers over all of K."}
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
// sculler:tune THREADS in {1,2,4,8}
#ifndef THREADS
#define THREADS 2
#endif

#include "packed.h"

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
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 4) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads)),
                     std::vector<float>(static_cast<std::size_t>(
                         problem->dim[0] * packed_size(problem->dim[3], problem->dim[2])))};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t batch = problem->dim[0], m = problem->dim[1], n = problem->dim[2],
                k = problem->dim[3];
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* w = static_cast<const float*>(buffer[1].ptr);
  auto* y = static_cast<float*>(buffer[2].ptr);
  // EVOLVE-BLOCK-START
  float* packed = self->space.data();
  const int64_t stride = packed_size(k, n), wide = panels(n), down = (m + BLOCK - 1) / BLOCK;
  self->threads.run(batch * wide, [&](int64_t job) {
    const int64_t q = job / wide;
    pack({w + q * k * n, n, 1}, k, n, job % wide, packed + q * stride);
  });
  self->threads.run(batch * down, [&](int64_t job) {
    const int64_t q = job / down, i = job % down * BLOCK, rows = std::min<int64_t>(BLOCK, m - i);
    float* to = y + (q * m + i) * n;
    block(rows, n, k, {x + (q * m + i) * k, k, 1}, packed + q * stride, to, n, false);
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
// sculler:file packed.h from ../../shared
// sculler:file vectors.h from ../../shared
