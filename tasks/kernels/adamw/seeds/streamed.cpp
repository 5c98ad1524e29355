// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"Nothing but memory counts: four values are read once, one is written past the caches; parts are taken by threads."}
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__SSE__)
#include <immintrin.h>
#endif

#include "sculler/candidate.h"
#include "sculler/threads.h"

// sculler:tune WIDTH in {128,256,512}
#ifndef WIDTH
#define WIDTH 512
#endif
// sculler:tune UNROLL in {1,2,4}
#ifndef UNROLL
#define UNROLL 2
#endif
// sculler:tune PART in {4096,16384,65536}
#ifndef PART
#define PART 16384
#endif
// sculler:tune THREADS in {1,2,4,8}
#ifndef THREADS
#define THREADS 2
#endif
// sculler:tune STREAM in {0,1}
#ifndef STREAM
#define STREAM 1
#endif

#include "streamed.h"

namespace {

// EVOLVE-BLOCK-START
constexpr int64_t kStep = kLanes * UNROLL;

inline Floats root(Floats x) {
#if defined(__AVX512F__) && WIDTH == 512
  __m512 value;
  std::memcpy(&value, &x, sizeof value);
  value = _mm512_sqrt_ps(value);
  std::memcpy(&x, &value, sizeof value);
#else
  for (int64_t i = 0; i < kLanes; ++i) x[i] = std::sqrt(x[i]);
#endif
  return x;
}

void step(const float* theta, const float* g, const float* mean, const float* v, float* y,
          int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kStep <= end; i += kStep) {
#pragma GCC unroll 4
    for (int64_t j = i; j < i + kStep; j += kLanes) {
      const Floats gradient = load(g + j), parameter = load(theta + j);
      const Floats m_t = load(mean + j) * 0.9f + gradient * 0.1f;
      const Floats v_hat = load(v + j) * 999.0f + gradient * gradient;
      store(y + j, parameter - parameter * 1e-5f - m_t * 0.01f / (root(v_hat) + 1e-8f));
    }
  }
  for (; i < end; ++i) {
    const float m_t = 0.9f * mean[i] + 0.1f * g[i];
    y[i] = theta[i] - 1e-5f * theta[i] -
           0.01f * m_t / (std::sqrt(999.0f * v[i] + g[i] * g[i]) + 1e-8f);
  }
  stored();
}
// EVOLVE-BLOCK-END

struct State {
  const sculler_pool* pool;
  sculler::Threads threads;
};

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank,
                                            const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 2) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads))};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t m = problem->dim[0], n = problem->dim[1];
  const auto* theta = static_cast<const float*>(buffer[0].ptr);
  const auto* g = static_cast<const float*>(buffer[1].ptr);
  const auto* mean = static_cast<const float*>(buffer[2].ptr);
  const auto* v = static_cast<const float*>(buffer[3].ptr);
  auto* y = static_cast<float*>(buffer[4].ptr);
  // EVOLVE-BLOCK-START
  const int64_t all = m * n;
  self->threads.run((all + PART - 1) / PART, [&](int64_t job) {
    step(theta, g, mean, v, y, job * PART, std::min<int64_t>(all, (job + 1) * PART));
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
// sculler:file streamed.h from ../../shared
