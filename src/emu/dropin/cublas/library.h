// A cuBLAS handle: what its setters keep.
#pragma once

#include <cublas_api.h>

#include "emu/client/client.h"

#define SCULLER_EXPORT_C extern "C" __attribute__((visibility("default")))

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sm_count_target = 0;
};
