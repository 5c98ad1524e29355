// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"A step's states are independent and fill a vector; several channels run side by side so that their chains of dependent steps overlap; the exponential is a vector polynomial."}
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sculler/candidate.h"
#include "sculler/threads.h"

// sculler:tune WIDTH in {256,512}
#ifndef WIDTH
#define WIDTH 512
#endif
// sculler:tune GROUP in {1,2,4,8}
#ifndef GROUP
#define GROUP 4
#endif
// sculler:tune THREADS in {1,2,4,8}
#ifndef THREADS
#define THREADS 2
#endif

#include "exponential.h"

namespace {

// EVOLVE-BLOCK-START
// Vectors that hold the states of one channel.
inline int64_t state_vectors(int64_t states) { return (states + kLanes - 1) / kLanes; }

// GROUP channels side by side, so that their chains of dependent steps overlap: the states [first,
// first + kLanes) of all of them over all steps. bt, ct: a vector a step. y is added to where
// `add`.
void scan(const float* const* delta, const float* const* u, const float* const* a, const float* bt,
          const float* ct, int64_t m, float* const* y, bool add) {
  Floats h[GROUP] = {}, rate[GROUP];
  for (int64_t q = 0; q < GROUP; ++q) rate[q] = load(a[q]);
  for (int64_t i = 0; i < m; ++i) {
    const Floats b = load(bt + i * kLanes), c = load(ct + i * kLanes);
#pragma GCC unroll 8
    for (int64_t q = 0; q < GROUP; ++q) {
      const float step = delta[q][i];
      h[q] = exponential(rate[q] * step) * h[q] + b * (step * u[q][i]);
      const Floats part = h[q] * c;
      float lanes[kLanes];
      store(lanes, part);
      float sum = 0;
      for (int64_t s = 0; s < kLanes; s += 4)
        sum += (lanes[s] + lanes[s + 1]) + (lanes[s + 2] + lanes[s + 3]);
      y[q][i] = add ? y[q][i] + sum : sum;
    }
  }
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
  *state = new State{pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads)),
                     std::vector<float>(static_cast<std::size_t>(
                         2 * problem->dim[1] * kLanes * state_vectors(problem->dim[2]) +
                         problem->dim[0] * kLanes * state_vectors(problem->dim[2])))};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t channels = problem->dim[0], m = problem->dim[1], states = problem->dim[2];
  const auto* delta = static_cast<const float*>(buffer[0].ptr);
  const auto* u = static_cast<const float*>(buffer[1].ptr);
  const auto* a = static_cast<const float*>(buffer[2].ptr);
  const auto* b = static_cast<const float*>(buffer[3].ptr);
  const auto* c = static_cast<const float*>(buffer[4].ptr);
  auto* y = static_cast<float*>(buffer[5].ptr);
  // EVOLVE-BLOCK-START
  const int64_t vectors = state_vectors(states), width = vectors * kLanes;
  float* bt = self->space.data();  // vector, step, lane; zeros beyond the last state
  float* ct = bt + m * width;
  float* at = ct + m * width;  // channel, vector, lane
  self->threads.run(vectors, [&](int64_t v) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t s = 0; s < kLanes; ++s) {
        const int64_t state_index = v * kLanes + s;
        bt[(v * m + i) * kLanes + s] = state_index < states ? b[state_index * m + i] : 0.0f;
        ct[(v * m + i) * kLanes + s] = state_index < states ? c[state_index * m + i] : 0.0f;
      }
    }
  });
  for (int64_t q = 0; q < channels; ++q) {
    for (int64_t s = 0; s < width; ++s) at[q * width + s] = s < states ? a[q * states + s] : 0.0f;
  }
  self->threads.run((channels + GROUP - 1) / GROUP, [&](int64_t job) {
    const float *deltas[GROUP], *us[GROUP], *rates[GROUP];
    float* ys[GROUP];
    std::vector<float> spare;  // where the last group is not full, its last channel runs along
    if ((job + 1) * GROUP > channels) spare.resize(static_cast<std::size_t>(m));
    for (int64_t v = 0; v < vectors; ++v) {
      for (int64_t q = 0; q < GROUP; ++q) {
        const int64_t channel = std::min(channels - 1, job * GROUP + q);
        deltas[q] = delta + channel * m;
        us[q] = u + channel * m;
        rates[q] = at + channel * width + v * kLanes;
        ys[q] = channel == job * GROUP + q ? y + channel * m : spare.data();
      }
      scan(deltas, us, rates, bt + v * m * kLanes, ct + v * m * kLanes, m, ys, v > 0);
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
// sculler:file vectors.h from ../../shared
