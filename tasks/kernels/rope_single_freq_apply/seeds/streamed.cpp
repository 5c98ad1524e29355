// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"Nothing but memory counts: each value is read once and written once past the caches, rows are cut into parts that threads take."}
#include <algorithm>
#include <cstdint>

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

struct Row {
  const float *a, *b, *c, *s;
  float *low, *high;
};

void rotate(const Row& r, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kStep <= end; i += kStep) {
#pragma GCC unroll 4
    for (int64_t j = i; j < i + kStep; j += kLanes) {
      const Floats a = load(r.a + j), b = load(r.b + j), c = load(r.c + j), s = load(r.s + j);
      store(r.low + j, a * c - b * s);
      store(r.high + j, a * s + b * c);
    }
  }
  for (; i < end; ++i) {
    r.low[i] = r.a[i] * r.c[i] - r.b[i] * r.s[i];
    r.high[i] = r.a[i] * r.s[i] + r.b[i] * r.c[i];
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
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 4) return SCULLER_ERROR;
  *state = new State{pool, sculler::Threads(std::clamp(THREADS, 1, rank->n_threads))};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->pool->set[set].buffer;
  const int64_t columns = problem->dim[0] * problem->dim[1] * problem->dim[2], d = problem->dim[3],
                half = d / 2;
  const auto* x = static_cast<const float*>(buffer[0].ptr);
  const auto* cosine = static_cast<const float*>(buffer[1].ptr);
  const auto* sine = static_cast<const float*>(buffer[2].ptr);
  auto* y = static_cast<float*>(buffer[3].ptr);
  // EVOLVE-BLOCK-START
  const int64_t parts = (columns + PART - 1) / PART;
  self->threads.run(half * parts, [&](int64_t job) {
    const int64_t pair = job / parts * columns, other = pair + half * columns,
                  begin = job % parts * PART;
    rotate({x + pair, x + other, cosine + pair, sine + pair, y + pair, y + other}, begin,
           std::min<int64_t>(columns, begin + PART));
  });
  // EVOLVE-BLOCK-END
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
// sculler:file streamed.h from ../../shared
