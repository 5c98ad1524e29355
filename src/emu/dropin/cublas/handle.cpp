#include "library.h"

SCULLER_EXPORT_C cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (sculler::emu::client::world() == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
SCULLER_EXPORT_C cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
SCULLER_EXPORT_C cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
SCULLER_EXPORT_C cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  switch (type) {
    case MAJOR_VERSION: *value = CUBLAS_VER_MAJOR; return CUBLAS_STATUS_SUCCESS;
    case MINOR_VERSION: *value = CUBLAS_VER_MINOR; return CUBLAS_STATUS_SUCCESS;
    case PATCH_LEVEL: *value = CUBLAS_VER_PATCH; return CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
SCULLER_EXPORT_C size_t cublasGetCudartVersion() { return CUDART_VERSION; }

#define SCULLER_SETTER(function, type, member)                              \
  SCULLER_EXPORT_C cublasStatus_t function(cublasHandle_t handle, type v) { \
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;            \
    handle->member = v;                                                     \
    return CUBLAS_STATUS_SUCCESS;                                           \
  }
#define SCULLER_GETTER(function, type, member)                               \
  SCULLER_EXPORT_C cublasStatus_t function(cublasHandle_t handle, type* v) { \
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;             \
    if (v == nullptr) return CUBLAS_STATUS_INVALID_VALUE;                    \
    *v = handle->member;                                                     \
    return CUBLAS_STATUS_SUCCESS;                                            \
  }
SCULLER_SETTER(cublasSetStream_v2, cudaStream_t, stream)
SCULLER_GETTER(cublasGetStream_v2, cudaStream_t, stream)
SCULLER_SETTER(cublasSetPointerMode_v2, cublasPointerMode_t, pointer_mode)
SCULLER_GETTER(cublasGetPointerMode_v2, cublasPointerMode_t, pointer_mode)
SCULLER_SETTER(cublasSetMathMode, cublasMath_t, math_mode)
SCULLER_GETTER(cublasGetMathMode, cublasMath_t, math_mode)
SCULLER_SETTER(cublasSetAtomicsMode, cublasAtomicsMode_t, atomics_mode)
SCULLER_GETTER(cublasGetAtomicsMode, cublasAtomicsMode_t, atomics_mode)
SCULLER_SETTER(cublasSetSmCountTarget, int, sm_count_target)
SCULLER_GETTER(cublasGetSmCountTarget, int, sm_count_target)

// The emulated products need no workspace.
SCULLER_EXPORT_C cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void*, size_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

SCULLER_EXPORT_C const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
#define SCULLER_NAME(name) \
  case name: return #name
    SCULLER_NAME(CUBLAS_STATUS_SUCCESS);
    SCULLER_NAME(CUBLAS_STATUS_NOT_INITIALIZED);
    SCULLER_NAME(CUBLAS_STATUS_ALLOC_FAILED);
    SCULLER_NAME(CUBLAS_STATUS_INVALID_VALUE);
    SCULLER_NAME(CUBLAS_STATUS_ARCH_MISMATCH);
    SCULLER_NAME(CUBLAS_STATUS_MAPPING_ERROR);
    SCULLER_NAME(CUBLAS_STATUS_EXECUTION_FAILED);
    SCULLER_NAME(CUBLAS_STATUS_INTERNAL_ERROR);
    SCULLER_NAME(CUBLAS_STATUS_NOT_SUPPORTED);
    SCULLER_NAME(CUBLAS_STATUS_LICENSE_ERROR);
#undef SCULLER_NAME
  }
  return "CUBLAS_STATUS_UNKNOWN";
}
SCULLER_EXPORT_C const char* cublasGetStatusString(cublasStatus_t status) {
  return cublasGetStatusName(status);
}
