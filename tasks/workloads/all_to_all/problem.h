/* all_to_all: names for dimensions and buffers. Block r of rank d's Y is block d of rank r's X; a block is M * N. */
#ifndef SCULLER_ALL_TO_ALL_PROBLEM_H
#define SCULLER_ALL_TO_ALL_PROBLEM_H

#include <stdint.h>
#include <stdio.h>

#include "sculler/candidate.h"

enum { AA_DIM_M = 0, AA_DIM_N = 1, AA_N_DIMS = 2 };
enum { AA_X = 0, AA_Y = 1, AA_N_BUFFERS = 2 };
enum { AA_MAX_RANKS = 8 };

#define AA_TRY(expression)                                                                   \
  do {                                                                                       \
    int aa_code_ = (int)(expression);                                                        \
    if (aa_code_ != 0) {                                                                     \
      fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #expression, aa_code_); \
      return SCULLER_ERROR;                                                                  \
    }                                                                                        \
  } while (0)

#endif
