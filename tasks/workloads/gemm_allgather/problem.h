/* gemm_allgather: names for dimensions and buffers, and the index arithmetic that every candidate shares.
 *
 * C[S,N] = A[S,K] * B[N,K]^T in bf16 with float32 accumulation. Rank r holds rows [r*S/R, (r+1)*S/R) of A and all of B;
 * every rank ends with all of C. Both operands are K-major. README.md says more.
 */
#ifndef SCULLER_GEMM_ALLGATHER_PROBLEM_H
#define SCULLER_GEMM_ALLGATHER_PROBLEM_H

#include <stdint.h>
#include <stdio.h>

#include "sculler/candidate.h"

enum { GA_DIM_S = 0, GA_DIM_K = 1, GA_DIM_N = 2, GA_N_DIMS = 3 };
enum { GA_A = 0, GA_B = 1, GA_C = 2, GA_N_BUFFERS = 3 };
/* Kernels take the peers' addresses by value; 72 is the largest NVLink domain there is. */
enum { GA_MAX_RANKS = 72 };

typedef struct ga_shape {
  int64_t s, k, n;      /* of the whole problem */
  int64_t rows;         /* of A and C that this rank computes: s / n_ranks */
  int64_t first_row;    /* of this rank's slice in C */
  int64_t slice;        /* elements of C a rank computes: rows * n */
  int32_t rank, n_ranks;
} ga_shape;

/* SCULLER_UNSUPPORTED_PROBLEM where S is not a multiple of R (task.toml `requires`). */
static inline int ga_shape_of(const sculler_problem* problem, int32_t rank, int32_t n_ranks, ga_shape* out) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != GA_N_DIMS) return SCULLER_ERROR;
  if (n_ranks < 1 || n_ranks > GA_MAX_RANKS) return SCULLER_UNSUPPORTED_PROBLEM;
  if (problem->dim[GA_DIM_S] % n_ranks != 0) return SCULLER_UNSUPPORTED_PROBLEM;
  out->s = problem->dim[GA_DIM_S];
  out->k = problem->dim[GA_DIM_K];
  out->n = problem->dim[GA_DIM_N];
  out->rows = out->s / n_ranks;
  out->first_row = rank * out->rows;
  out->slice = out->rows * out->n;
  out->rank = rank;
  out->n_ranks = n_ranks;
  return SCULLER_OK;
}

/* The buffers of one set. c[r] is rank r's C as this process maps it; c[own rank] is the own one. */
typedef struct ga_buffers {
  void* a;
  void* b;
  void* c[GA_MAX_RANKS];
} ga_buffers;

/* SCULLER_UNSUPPORTED_PROBLEM where `need_peers` and a peer's memory is not load/store accessible. */
static inline int ga_buffers_of(const sculler_set* set, const sculler_rank* rank, int need_peers, ga_buffers* out) {
  if (set->n_buffers != GA_N_BUFFERS) return SCULLER_ERROR;
  out->a = set->buffer[GA_A].ptr;
  out->b = set->buffer[GA_B].ptr;
  for (int32_t r = 0; r < rank->n_ranks; ++r) {
    out->c[r] = r == rank->rank ? set->buffer[GA_C].ptr
                                : (set->buffer[GA_C].peer ? set->buffer[GA_C].peer[r] : 0);
    if (need_peers && !out->c[r]) return SCULLER_UNSUPPORTED_PROBLEM;
  }
  return SCULLER_OK;
}

#define GA_TRY(expression)                                                                              \
  do {                                                                                                  \
    int ga_code_ = (expression);                                                                        \
    if (ga_code_ != 0) {                                                                                \
      fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #expression, ga_code_);            \
      return SCULLER_ERROR;                                                                             \
    }                                                                                                   \
  } while (0)

#endif
