/* ring_attention: names for dimensions and buffers. O of rank r, [T, D], is the attention of its queries over the keys and
 * values of all ranks: softmax(Q K^T / sqrt(D)) V. */
#ifndef SCULLER_RING_ATTENTION_PROBLEM_H
#define SCULLER_RING_ATTENTION_PROBLEM_H

#include <stdint.h>
#include <stdio.h>

#include "sculler/candidate.h"

enum { RA_DIM_T = 0, RA_DIM_D = 1, RA_N_DIMS = 2 };
enum { RA_Q = 0, RA_K = 1, RA_V = 2, RA_O = 3, RA_N_BUFFERS = 4 };
enum { RA_MAX_D = 256 };

#define RA_TRY(expression)                                                                   \
  do {                                                                                       \
    int ra_code_ = (int)(expression);                                                        \
    if (ra_code_ != 0) {                                                                     \
      fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #expression, ra_code_); \
      return SCULLER_ERROR;                                                                  \
    }                                                                                        \
  } while (0)

#endif
