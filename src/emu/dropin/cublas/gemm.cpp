// Matrix products. Accumulation is in float32 (float64 for double), whatever faster mode was asked
// for.
#include <cuda_fp16.h>

#include <cstring>

#include "library.h"

namespace {

namespace client = sculler::emu::client;
namespace wire = sculler::emu::wire;

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// What alpha and beta point at.
enum class Scalar { kHalf, kFloat, kDouble, kInt };

double scalar(const void* at, Scalar type) {
  switch (type) {
    case Scalar::kHalf: {
      __half_raw raw;
      std::memcpy(&raw, at, sizeof raw);
      return static_cast<double>(__half2float(__half(raw)));
    }
    case Scalar::kFloat: {
      float v = 0;
      std::memcpy(&v, at, sizeof v);
      return static_cast<double>(v);
    }
    case Scalar::kDouble: {
      double v = 0;
      std::memcpy(&v, at, sizeof v);
      return v;
    }
    case Scalar::kInt: {
      int v = 0;
      std::memcpy(&v, at, sizeof v);
      return v;
    }
  }
  return 0;
}

struct Product {
  cublasOperation_t transpose_a, transpose_b;
  int64_t m, n, k;
  const void *alpha, *a, *b, *beta;
  void* c;
  cudaDataType a_type, b_type, c_type;
  int64_t lda, ldb, ldc, stride_a, stride_b, stride_c, batch;
  Scalar scalars;
  bool compute_double;
};

cublasStatus_t post(cublasHandle_t handle, const Product& p) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (p.alpha == nullptr || p.beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (p.transpose_a > CUBLAS_OP_C || p.transpose_b > CUBLAS_OP_C)
    return CUBLAS_STATUS_INVALID_VALUE;
  wire::Gemm request;
  request.stream = number(handle->stream);
  request.a = number(p.a);
  request.b = number(p.b);
  request.c = number(p.c);
  request.transpose_a = static_cast<uint8_t>(p.transpose_a);
  request.transpose_b = static_cast<uint8_t>(p.transpose_b);
  request.m = p.m;
  request.n = p.n;
  request.k = p.k;
  request.lda = p.lda;
  request.ldb = p.ldb;
  request.ldc = p.ldc;
  request.stride_a = p.stride_a;
  request.stride_b = p.stride_b;
  request.stride_c = p.stride_c;
  request.batch = p.batch;
  request.type_a = static_cast<uint8_t>(p.a_type);
  request.type_b = static_cast<uint8_t>(p.b_type);
  request.type_c = static_cast<uint8_t>(p.c_type);
  request.compute_double = p.compute_double;
  if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
    if (p.scalars == Scalar::kHalf || p.scalars == Scalar::kInt) {
      client::unsupported("cublasGemmEx", "half or integer scalars in device memory");
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    request.alpha_at = number(p.alpha);
    request.beta_at = number(p.beta);
  } else {
    if (client::is_device(number(p.alpha)) || client::is_device(number(p.beta)))
      return CUBLAS_STATUS_INVALID_VALUE;
    request.alpha = scalar(p.alpha, p.scalars);
    request.beta = scalar(p.beta, p.scalars);
  }
  const int code = client::call(request);
  if (code == 15) client::unsupported("cublasGemm", client::last_failure());
  return code <= CUBLAS_STATUS_LICENSE_ERROR ? static_cast<cublasStatus_t>(code)
                                             : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool compute_of(cublasComputeType_t compute, Product& p) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC: p.scalars = Scalar::kHalf; return true;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32: p.scalars = Scalar::kFloat; return true;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      p.scalars = Scalar::kDouble;
      p.compute_double = true;
      return true;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC: p.scalars = Scalar::kInt; return true;
    default: return false;
  }
}

template <class Int>
cublasStatus_t gemm_ex(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, Int m, Int n,
                       Int k, const void* alpha, const void* a, cudaDataType at, Int lda,
                       int64_t sa, const void* b, cudaDataType bt, Int ldb, int64_t sb,
                       const void* beta, void* c, cudaDataType ct, Int ldc, int64_t sc, Int batch,
                       cublasComputeType_t compute) {
  Product p{ta, tb,  m,   n,   k,  alpha, a,  b,     beta,           c,    at, bt,
            ct, lda, ldb, ldc, sa, sb,    sc, batch, Scalar::kFloat, false};
  if (!compute_of(compute, p)) {
    client::unsupported("cublasGemmEx", "compute type " + std::to_string(compute));
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return post(h, p);
}

}  // namespace

#define SCULLER_GEMM_EX(suffix, Int)                                                               \
  SCULLER_EXPORT_C cublasStatus_t cublasGemmEx##suffix(                                            \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, Int m, Int n, Int k,           \
      const void* alpha, const void* a, cudaDataType at, Int lda, const void* b, cudaDataType bt,  \
      Int ldb, const void* beta, void* c, cudaDataType ct, Int ldc, cublasComputeType_t compute,   \
      cublasGemmAlgo_t) {                                                                          \
    return gemm_ex<Int>(h, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc, \
                        0, 1, compute);                                                            \
  }                                                                                                \
  SCULLER_EXPORT_C cublasStatus_t cublasGemmStridedBatchedEx##suffix(                              \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, Int m, Int n, Int k,           \
      const void* alpha, const void* a, cudaDataType at, Int lda, long long sa, const void* b,     \
      cudaDataType bt, Int ldb, long long sb, const void* beta, void* c, cudaDataType ct, Int ldc, \
      long long sc, Int batch, cublasComputeType_t compute, cublasGemmAlgo_t) {                    \
    return gemm_ex<Int>(h, ta, tb, m, n, k, alpha, a, at, lda, sa, b, bt, ldb, sb, beta, c, ct,    \
                        ldc, sc, batch, compute);                                                  \
  }
SCULLER_GEMM_EX(, int)
SCULLER_GEMM_EX(_64, int64_t)

#define SCULLER_GEMM(name, batched, Real, type, Int, compute)                                    \
  SCULLER_EXPORT_C cublasStatus_t name(cublasHandle_t h, cublasOperation_t ta,                   \
                                       cublasOperation_t tb, Int m, Int n, Int k,                \
                                       const Real* alpha, const Real* a, Int lda, const Real* b, \
                                       Int ldb, const Real* beta, Real* c, Int ldc) {            \
    return gemm_ex<Int>(h, ta, tb, m, n, k, alpha, a, type, lda, 0, b, type, ldb, 0, beta, c,    \
                        type, ldc, 0, 1, compute);                                               \
  }                                                                                              \
  SCULLER_EXPORT_C cublasStatus_t batched(                                                       \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, Int m, Int n, Int k,         \
      const Real* alpha, const Real* a, Int lda, long long sa, const Real* b, Int ldb,           \
      long long sb, const Real* beta, Real* c, Int ldc, long long sc, Int batch) {               \
    return gemm_ex<Int>(h, ta, tb, m, n, k, alpha, a, type, lda, sa, b, type, ldb, sb, beta, c,  \
                        type, ldc, sc, batch, compute);                                          \
  }
SCULLER_GEMM(cublasSgemm_v2, cublasSgemmStridedBatched, float, CUDA_R_32F, int, CUBLAS_COMPUTE_32F)
SCULLER_GEMM(cublasSgemm_v2_64, cublasSgemmStridedBatched_64, float, CUDA_R_32F, int64_t,
             CUBLAS_COMPUTE_32F)
SCULLER_GEMM(cublasDgemm_v2, cublasDgemmStridedBatched, double, CUDA_R_64F, int, CUBLAS_COMPUTE_64F)
SCULLER_GEMM(cublasDgemm_v2_64, cublasDgemmStridedBatched_64, double, CUDA_R_64F, int64_t,
             CUBLAS_COMPUTE_64F)
SCULLER_GEMM(cublasHgemm, cublasHgemmStridedBatched, __half, CUDA_R_16F, int, CUBLAS_COMPUTE_16F)
SCULLER_GEMM(cublasHgemm_64, cublasHgemmStridedBatched_64, __half, CUDA_R_16F, int64_t,
             CUBLAS_COMPUTE_16F)
