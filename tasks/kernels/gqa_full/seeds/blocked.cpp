// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"Scores of a block of queries stay in the second-level cache: product with the packed keys, a vector polynomial for the exponentials, product with the packed values, then the division by the sum."}
#include <algorithm>
#include <atomic>
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
// sculler:tune THREADS in {1,2,4,8}
#ifndef THREADS
#define THREADS 2
#endif

#include "exponential.h"
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
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 5) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads)),
                     std::vector<float>(static_cast<std::size_t>(
                         problem->dim[0] * problem->dim[2] *
                             (packed_size(problem->dim[4], problem->dim[1]) +
                              packed_size(problem->dim[1], problem->dim[4])) +
                         problem->dim[1] * BLOCK * rank->n_threads))};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t batch = problem->dim[0], n = problem->dim[1], kh = problem->dim[2],
                qh = problem->dim[3], d = problem->dim[4];
  const auto* q = static_cast<const float*>(buffer[0].ptr);
  const auto* k = static_cast<const float*>(buffer[1].ptr);
  const auto* v = static_cast<const float*>(buffer[2].ptr);
  auto* y = static_cast<float*>(buffer[3].ptr);
  // EVOLVE-BLOCK-START
  if (kh < 1 || qh % kh != 0) return SCULLER_UNSUPPORTED_PROBLEM;
  const int64_t key_size = packed_size(d, n), value_size = packed_size(n, d);
  float* keys = self->space.data();
  float* values = keys + batch * kh * key_size;
  float* scores = values + batch * kh * value_size;
  const int64_t key_panels = panels(n), value_panels = panels(d), all = key_panels + value_panels;
  self->threads.run(batch * kh * all, [&](int64_t job) {
    const int64_t group = job / all, p = job % all, from = (group / kh * n * kh + group % kh) * d;
    if (p < key_panels) pack({k + from, 1, kh * d}, d, n, p, keys + group * key_size);
    else pack({v + from, kh * d, 1}, n, d, p - key_panels, values + group * value_size);
  });
  const float factor = 1.0f / std::sqrt(static_cast<float>(d));
  const int64_t down = (n + BLOCK - 1) / BLOCK, jobs = batch * qh * down;
  std::atomic<int64_t> next{0};
  self->threads.run(self->threads.size(), [&](int64_t thread) {
    float* score = scores + thread * n * BLOCK;
    for (int64_t job = next++; job < jobs; job = next++) {
      const int64_t b = job / (qh * down), head = job / down % qh, begin = job % down * BLOCK;
      const int64_t rows = std::min<int64_t>(BLOCK, n - begin), group = b * kh + head / (qh / kh);
      float sums[BLOCK];
      block(rows, n, d, {q + ((b * n + begin) * qh + head) * d, qh * d, 1}, keys + group * key_size,
            score, n, false);
      for (int64_t i = 0; i < rows; ++i) sums[i] = exponentials(score + i * n, n, factor);
      float* to = y + ((b * qh + head) * n + begin) * d;
      block(rows, d, n, {score, n, 1}, values + group * value_size, to, d, false);
      for (int64_t i = 0; i < rows; ++i) {
        const float scale = 1.0f / sums[i];
        for (int64_t j = 0; j < d; ++j) to[i * d + j] *= scale;
      }
    }
  });
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
