/* all_reduce: names for dimensions and buffers. Y of every rank is the sum of all ranks' X. */
#ifndef SCULLER_ALL_REDUCE_PROBLEM_H
#define SCULLER_ALL_REDUCE_PROBLEM_H

#include <stdint.h>
#include <stdio.h>

#include "sculler/candidate.h"

enum { AR_DIM_N = 0, AR_N_DIMS = 1 };
enum { AR_X = 0, AR_Y = 1, AR_N_BUFFERS = 2 };

#define AR_TRY(expression)                                                                   \
  do {                                                                                       \
    int ar_code_ = (int)(expression);                                                        \
    if (ar_code_ != 0) {                                                                     \
      fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #expression, ar_code_); \
      return SCULLER_ERROR;                                                                  \
    }                                                                                        \
  } while (0)

#endif
