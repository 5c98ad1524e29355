// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Bound by memory: enough bytes in flight, nothing kept in caches that is not read again."}
//
// Silu, streamed: UNROLL pieces of 16 bytes of every input are asked for before the first is used.
#include "entry.h"

// Threads of a block.
// sculler:tune THREADS in {128,256,512}
#ifndef THREADS
#define THREADS 256
#endif
// Pieces of 16 bytes of each input that a thread has in flight.
// sculler:tune UNROLL in {1,2,4,8}
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
struct Silu {
  __device__ void operator()(const float (&x)[1], float (&y)[1]) const {
    y[0] = __fdividef(x[0], 1.0f + __expf(-x[0]));
  }
};

int run(const Call& call) {
  elementwise<1, 1>({{call.buffer(0)}}, {{call.buffer(1)}}, call.dim(0), call.stream, Silu{});
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
