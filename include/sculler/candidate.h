/* The C ABI of candidates: what a candidate must export and what the harness hands to it.
 *
 * A candidate is one translation unit (or several, linked into one shared object). The harness owns
 * main, inputs, warm-up, timers, checker and results; a candidate owns what happens between
 * sculler_run being called and its stream completing. Source: docs/candidate-abi.md.
 */
#ifndef SCULLER_CANDIDATE_H
#define SCULLER_CANDIDATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCULLER_ABI_VERSION 1
#define SCULLER_MAX_DIMS 16

#if defined(__GNUC__)
#define SCULLER_EXPORT __attribute__((visibility("default")))
#else
#define SCULLER_EXPORT
#endif

/* Return codes of the entry points. Anything else but 0 is reported as LAUNCH_ERROR with the
 * number. */
enum {
  SCULLER_OK = 0,
  SCULLER_ERROR = 1,
  SCULLER_UNSUPPORTED_PROBLEM = 2,
  SCULLER_OUT_OF_MEMORY = 3
};

/* One problem size. dim[i] follows the order of `dims` in task.toml (gemm_allgather: S, K, N). */
typedef struct sculler_problem {
  uint32_t abi_version;
  uint32_t n_dims;
  int64_t dim[SCULLER_MAX_DIMS];
} sculler_problem;

/* Who this process is. Handles are those of the real libraries, held as void* so that this header
 * needs neither. */
typedef struct sculler_rank {
  uint32_t abi_version;
  int32_t rank, n_ranks;
  int32_t device;   /* CUDA ordinal, already current; -1 on the cpu target */
  void* stream;     /* cudaStream_t; null on the cpu target */
  void* comm;       /* ncclComm_t; null where the task has one rank */
  int32_t lsa_rank; /* rank among those whose memory is load/store accessible */
  int32_t lsa_size;
  int32_t n_threads; /* cpu target: threads a candidate may use */
  uint32_t reserved;
} sculler_rank;

/* One buffer of a set. Memory is ncclMemAlloc'ed and registered as a symmetric window on workloads.
 */
typedef struct sculler_buffer {
  void* ptr; /* this rank's own memory */
  uint64_t bytes;
  void* window;      /* ncclWindow_t, null on kernels */
  uint64_t offset;   /* of ptr within window */
  void* const* peer; /* peer[r]: rank r's copy of this buffer as this process maps it, for host and
                        device code; null where it is not load/store accessible; peer[own rank] ==
                        ptr. Null pointer on kernels. */
} sculler_buffer;

/* Buffers follow the order of [[buffer]] in task.toml. */
typedef struct sculler_set {
  uint32_t n_buffers;
  uint32_t reserved;
  const sculler_buffer* buffer;
} sculler_set;

/* Each timed iteration draws one set. Which one comes next, and what it holds, is not known to a
 * candidate. */
typedef struct sculler_pool {
  uint32_t n_sets;
  uint32_t reserved;
  const sculler_set* set;
} sculler_pool;

/* Not timed. May build tensor maps, device communicators and graphs for every set, and allocate.
 * Collective. */
SCULLER_EXPORT int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                                 const sculler_pool* pool, void** state);
/* Timed. Enqueues one iteration on rank->stream and returns. When the stream completes, this rank's
 * outputs are final, its peers' stores into them included. Work on other streams must be joined to
 * rank->stream. */
SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set);
/* Not timed. Collective. */
SCULLER_EXPORT int sculler_teardown(void* state);

#ifdef __cplusplus
}
#endif
#endif
