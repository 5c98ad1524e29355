/* ring_exchange: names for dimensions and buffers. Y[s] of rank r is X of rank r - 1 - s (modulo R), s in [0, T). */
#ifndef SCULLER_RING_EXCHANGE_PROBLEM_H
#define SCULLER_RING_EXCHANGE_PROBLEM_H

#include <stdint.h>
#include <stdio.h>

#include "sculler/candidate.h"

enum { RX_DIM_T = 0, RX_DIM_N = 1, RX_N_DIMS = 2 };
enum { RX_X = 0, RX_Y = 1, RX_N_BUFFERS = 2 };

/* Whose payload arrives at `rank` in step s. */
static inline int rx_origin(int rank, int n_ranks, int64_t s) {
  const int back = (int)((1 + s) % n_ranks);
  return (rank - back + n_ranks) % n_ranks;
}

#define RX_TRY(expression)                                                                   \
  do {                                                                                       \
    int rx_code_ = (int)(expression);                                                        \
    if (rx_code_ != 0) {                                                                     \
      fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #expression, rx_code_); \
      return SCULLER_ERROR;                                                                  \
    }                                                                                        \
  } while (0)

#endif
