/* C interface of libsculler_steer: a prefetch buffer for remote feature rows, and its steering.
 *
 * The caller has a minibatch's remote ids; the library says which rows lie in which slots, which to
 * fetch and where to keep them (a plan). The bytes are moved by the caller, or by the library where
 * it owns them (row_bytes > 0). docs/steer.md explains policies, decisions and traces.
 *
 * Every function may be called from any thread; calls of one handle are serialised. A plan belongs
 * to the handle and is good until the next minibatch, preload or close: plans are executed in the
 * order in which they were made. Nothing here blocks except sculler_steer_minibatch() in the modes
 * `sync` and `deadline`, and sculler_steer_control() and sculler_steer_close(), which wait for a
 * question in progress; other calls of the handle wait meanwhile. Strings are UTF-8, ids at most
 * 2^63.
 */
#ifndef SCULLER_STEER_H
#define SCULLER_STEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCULLER_STEER_VERSION 1
#define SCULLER_STEER_NONE UINT32_MAX /* no slot */

#if defined(_WIN32)
#define SCULLER_STEER_API
#else
#define SCULLER_STEER_API __attribute__((visibility("default")))
#endif

/* 0 is success; what else went wrong is said by sculler_steer_error(). */
typedef enum sculler_steer_status {
  SCULLER_STEER_OK = 0,
  SCULLER_STEER_USAGE = 2,     /* an unknown policy, a parameter that it does not take */
  SCULLER_STEER_BAD_INPUT = 3, /* an id above 2^63, a size that no machine holds */
  SCULLER_STEER_IO = 11,       /* a trace cannot be written or read */
  SCULLER_STEER_INTERNAL = 1
} sculler_steer_status;

typedef struct sculler_steer sculler_steer;

/* Zero is a default everywhere; set `size` to sizeof(sculler_steer_settings). */
typedef struct sculler_steer_settings {
  uint64_t size;
  uint64_t capacity;    /* rows; 0 is a buffer that never hits */
  const char* policy;   /* "free" where null; sculler_steer_policy_name() lists them */
  uint64_t row_bytes;   /* the library owns the features; 0: the caller does */
  uint64_t max_tracked; /* ids whose counts are kept; 0: 32 times the capacity */
  uint64_t window;      /* minibatches of the window counters; 0: 32 */
  uint64_t max_rows;    /* most rows admitted or replaced a minibatch; 0: no bound */
  double decay;         /* of counts a minibatch, 0.01 to 1; 0: the policy's own */
} sculler_steer_settings;

/* Order of execution: gather the hits, fetch `missed` and `extra` in one request, write the fetched
 * rows to `into` and `extra_slot`. No slot is written twice. */
typedef struct sculler_steer_plan {
  uint64_t ids;               /* of the minibatch */
  const uint32_t* slot;       /* [ids]: the slot of a hit, SCULLER_STEER_NONE for a miss */
  uint64_t n_missed;          /* misses */
  const uint32_t* missed;     /* [n_missed]: positions in the minibatch, ascending */
  const uint32_t* into;       /* [n_missed]: the slot that keeps the row, or SCULLER_STEER_NONE */
  uint64_t n_extra;           /* rows to fetch that the minibatch did not ask for */
  const uint64_t* extra;      /* [n_extra]: their ids */
  const uint32_t* extra_slot; /* [n_extra] */
  uint64_t evicted;           /* rows that left */
} sculler_steer_plan;

typedef struct sculler_steer_counts {
  uint64_t minibatches, ids, hits;
  uint64_t fetched;  /* rows, those that no minibatch asked for included */
  uint64_t extra;    /* the latter alone */
  uint64_t admitted; /* rows that came in */
  uint64_t evicted;
} sculler_steer_counts;

typedef struct sculler_steer_state {
  sculler_steer_counts total;  /* since the begin */
  sculler_steer_counts window; /* the last minibatches */
  uint64_t capacity, limit, used;
  uint64_t bytes;     /* memory but features and plan */
  uint64_t lookahead; /* how many minibatches ahead the policy wants to be told */
} sculler_steer_state;

/* SCULLER_STEER_VERSION of the library that is loaded. */
SCULLER_STEER_API int sculler_steer_version(void);
/* Null on failure; the reason is written to `error` (at most `error_bytes`, ended by 0). */
SCULLER_STEER_API sculler_steer* sculler_steer_open(const sculler_steer_settings* settings,
                                                    char* error, size_t error_bytes);
SCULLER_STEER_API void sculler_steer_close(sculler_steer* steer);
/* The last failure of a call of this thread, "" where there was none. */
SCULLER_STEER_API const char* sculler_steer_error(void);

SCULLER_STEER_API sculler_steer_status sculler_steer_minibatch(sculler_steer* steer,
                                                               const uint64_t* ids, uint64_t n,
                                                               sculler_steer_plan* plan);
/* Rows to begin with, best first; the plan's extra rows are to be fetched. */
SCULLER_STEER_API sculler_steer_status sculler_steer_preload(sculler_steer* steer,
                                                             const uint64_t* ids, uint64_t n,
                                                             sculler_steer_plan* plan);
/* The ids of the next minibatch that was not scheduled yet, for a policy with lookahead. */
SCULLER_STEER_API sculler_steer_status sculler_steer_schedule(sculler_steer* steer,
                                                              const uint64_t* ids, uint64_t n);
/* Rows that must not be served any more: a fetch failed, features changed. */
SCULLER_STEER_API sculler_steer_status sculler_steer_invalidate(sculler_steer* steer,
                                                                const uint64_t* ids, uint64_t n);

/* With row_bytes. Hits of the last plan into `rows`, one row a position of the minibatch. */
SCULLER_STEER_API sculler_steer_status sculler_steer_gather(sculler_steer* steer, void* rows);
/* Rows of the last plan's `missed` and `extra`, in that order, are kept where the plan says. */
SCULLER_STEER_API sculler_steer_status sculler_steer_store(sculler_steer* steer, const void* missed,
                                                           const void* extra);

SCULLER_STEER_API sculler_steer_status sculler_steer_set_policy(sculler_steer* steer,
                                                                const char* policy);
/* How many slots may be used, at most the capacity; rows beyond it leave at once. */
SCULLER_STEER_API sculler_steer_status sculler_steer_set_limit(sculler_steer* steer, uint64_t rows);
/* `decay` 0: the policy's own; `max_rows` 0: no bound. */
SCULLER_STEER_API sculler_steer_status sculler_steer_set_knobs(sculler_steer* steer, double decay,
                                                               uint64_t max_rows);
/* Policies that wait for a decision replace in the next minibatch. */
SCULLER_STEER_API sculler_steer_status sculler_steer_replace(sculler_steer* steer);
SCULLER_STEER_API sculler_steer_status sculler_steer_get_state(sculler_steer* steer,
                                                               sculler_steer_state* state);

/* Records the ids of every minibatch to a file until sculler_steer_record_end() or close (a file
 * that was not ended is refused by its readers). A full disk ends the recording and no minibatch:
 * sculler_steer_record_end() says so. `candidates` are what static policies rank by in a
 * replay: n ids with degree and, where `vip` is not null, the probability to be sampled. */
SCULLER_STEER_API sculler_steer_status sculler_steer_record(sculler_steer* steer, const char* path,
                                                            uint64_t halo, uint64_t n,
                                                            const uint64_t* candidates,
                                                            const uint64_t* degree,
                                                            const float* vip);
SCULLER_STEER_API sculler_steer_status sculler_steer_record_end(sculler_steer* steer);
/* The epoch of the minibatches from now on, for contexts and traces; 0 at the begin. */
SCULLER_STEER_API sculler_steer_status sculler_steer_set_epoch(sculler_steer* steer,
                                                               uint32_t epoch);

/* Gets the context as text, writes an answer (a JSON object, see sculler_steer_answer_schema()) to
 * `answer`, ended by 0, and returns 0; anything else is no answer. It runs on a thread of the
 * library's, one call at a time, must end by itself (close waits for it), and must not call
 * functions of its handle. */
typedef int (*sculler_steer_ask)(void* user, const char* context, char* answer,
                                 size_t answer_bytes);

typedef enum sculler_steer_mode {
  SCULLER_STEER_ASYNC = 0,   /* the trainer never waits */
  SCULLER_STEER_SYNC = 1,    /* it waits for every answer */
  SCULLER_STEER_DEADLINE = 2 /* it waits at most deadline_ms */
} sculler_steer_mode;

/* Zero is a default everywhere; set `size`. */
typedef struct sculler_steer_control_settings {
  uint64_t size;
  const char* maker; /* "none", "fixed:N", "heuristic", "random:SEED"; null: `ask` */
  sculler_steer_ask ask;
  void* user;
  uint32_t mode;        /* sculler_steer_mode */
  uint32_t deadline_ms; /* 0: 50 */
  uint64_t every;       /* minibatches between two questions, at least; 0: 1 */
  uint64_t expire;      /* minibatches after which a decision is not applied; 0: 64 */
  uint64_t history;     /* decisions that a context shows; 0: 5 */
  /* What a context says of the run; 0 and null where nobody knows. */
  const char* graph;
  uint64_t nodes, edges, remote, epochs, minibatches;
} sculler_steer_control_settings;

typedef struct sculler_steer_control_counts {
  uint64_t asked, applied, unchanged, expired, invalid;
  double seconds, slowest_seconds; /* of the answers */
  double waited_seconds;           /* of the trainer */
  uint64_t predictions;            /* whose outcome is known */
  uint64_t right;                  /* of them: the hit rate went the way that was said (Pass@1) */
  uint64_t stagnant;               /* of them: "stagnant" would have been right */
} sculler_steer_control_counts;

/* From the next minibatch on decisions are asked for and applied. Replaces the control before. */
SCULLER_STEER_API sculler_steer_status
sculler_steer_control(sculler_steer* steer, const sculler_steer_control_settings* settings);
SCULLER_STEER_API sculler_steer_status
sculler_steer_get_control(sculler_steer* steer, sculler_steer_control_counts* counts);
/* The JSON schema of an answer. */
SCULLER_STEER_API const char* sculler_steer_answer_schema(void);

/* The i-th policy's name, what follows its colon, one line about it; 0 where there is no i-th. */
SCULLER_STEER_API int sculler_steer_policy_name(uint64_t i, const char** name,
                                                const char** parameter, const char** what);

#ifdef __cplusplus
}
#endif
#endif
