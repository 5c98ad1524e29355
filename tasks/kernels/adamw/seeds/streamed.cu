// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Bound by memory: enough bytes in flight, nothing kept in caches that is not read again."}
//
// One step of AdamW, streamed: UNROLL pieces of 16 bytes of every input are asked for before the first is used.
#include "entry.h"

// Threads of a block.
// sculler:tune THREADS in {128,256,512}
#ifndef THREADS
#define THREADS 256
#endif
// Pieces of 16 bytes of each input that a thread has in flight.
// sculler:tune UNROLL in {1,2,4}
#ifndef UNROLL
#define UNROLL 1
#endif
// 1: caches drop what was read first; 2: it passes the first one by.
// sculler:tune LOADS in {0,1,2}
#ifndef LOADS
#define LOADS 0
#endif
// 1: caches drop what was written first.
// sculler:tune STORES in {0,1}
#ifndef STORES
#define STORES 0
#endif
// 1: as many blocks as run at once, each with many shares; 0: a block a share.
// sculler:tune PERSISTENT in {0,1}
#ifndef PERSISTENT
#define PERSISTENT 0
#endif
// 1: the last elements first.
// sculler:tune BACKWARD in {0,1}
#ifndef BACKWARD
#define BACKWARD 0
#endif
#include "elementwise.h"

namespace {
// EVOLVE-BLOCK-START
// theta, g, mean, v.
struct Step {
  __device__ void operator()(const float (&x)[4], float (&y)[1]) const {
    const float m_t = 0.9f * x[2] + 0.1f * x[1], v_t = 0.999f * x[3] + 0.001f * x[1] * x[1];
    const float step = 0.01f * m_t / (sqrtf(v_t * 1000.0f) + 1e-8f);
    y[0] = x[0] - 1e-5f * x[0] - step;
  }
};

int run(const Call& call) {
  elementwise<4, 1>({{call.buffer(0), call.buffer(1), call.buffer(2), call.buffer(3)}},
                    {{call.buffer(4)}}, call.dim(0) * call.dim(1), call.stream, Step{});
  return launched();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, 0, state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file pieces.h from ../../shared
// sculler:file elementwise.h from ../../shared
