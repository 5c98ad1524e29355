// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Bound by memory: enough bytes in flight, nothing kept in caches that is not read again."}
//
// The rotation, streamed: UNROLL pieces of 16 bytes of every input are asked for before the first is used.
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
// Both halves of X, cosine, sine.
struct Rotate {
  __device__ void operator()(const float (&x)[4], float (&y)[2]) const {
    y[0] = x[0] * x[2] - x[1] * x[3];
    y[1] = x[0] * x[3] + x[1] * x[2];
  }
};

int run(const Call& call) {
  const int64_t half = call.dim(3) / 2 * call.dim(0) * call.dim(1) * call.dim(2);
  float *x = call.buffer(0), *y = call.buffer(3);
  elementwise<4, 2>({{x, x + half, call.buffer(1), call.buffer(2)}}, {{y, y + half}}, half,
                    call.stream, Rotate{});
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
