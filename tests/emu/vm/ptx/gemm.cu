// Tensor cores the usual way: cp.async double buffering, ldmatrix, mma.sync. C[m][n] = sum A[m][k] B[n][k].
#include <cuda_bf16.h>
#include <cstdint>
__device__ inline uint32_t smem(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
template <bool kWait>
__device__ void gemm(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) {
  constexpr int TM = 64, TN = 64, TK = 32, PAD = 8;
  __shared__ __align__(16) __nv_bfloat16 a[2][TM][TK + PAD], b[2][TN][TK + PAD];
  const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN, t = threadIdx.x, lane = t % 32, warp = t / 32;
  float acc[2][4][4] = {};
  const int wm = warp / 2 * 32, wn = warp % 2 * 32;
  auto fetch = [&](int s, int k0) {
    for (int i = t; i < TM * TK / 8; i += 128) {
      const int r = i / (TK / 8), c = i % (TK / 8) * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&a[s][r][c])), "l"(A + (size_t)(m0 + r) * K + k0 + c));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&b[s][r][c])), "l"(B + (size_t)(n0 + r) * K + k0 + c));
    }
    asm volatile("cp.async.commit_group;");
  };
  fetch(0, 0);
  for (int k = 0; k < K; k += TK) {
    const int s = k / TK % 2;
    if (k + TK < K) {
      fetch(1 - s, k + TK);
      if (kWait) asm volatile("cp.async.wait_group 1;");
    } else if (kWait) {
      asm volatile("cp.async.wait_all;");
    }
    __syncthreads();
    for (int kk = 0; kk < TK; kk += 16) {
      uint32_t fa[2][4], fb[4][2];
      for (int i = 0; i < 2; ++i) {
        const uint32_t p = smem(&a[s][wm + i * 16 + lane % 16][kk + lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(p));
      }
      for (int j = 0; j < 4; ++j) {
        const uint32_t p = smem(&b[s][wn + j * 8 + lane % 8][kk + lane / 8 % 2 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(fb[j][0]), "=r"(fb[j][1]) : "r"(p));
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                       : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int r = 0; r < 4; ++r)
        C[(size_t)(m0 + wm + i * 16 + lane / 4 + r / 2 * 8) * N + n0 + wn + j * 8 + lane % 4 * 2 + r % 2] = acc[i][j][r];
}
extern "C" __global__ void __launch_bounds__(128) gemm_async(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) { gemm<true>(A, B, C, M, N, K); }
extern "C" __global__ void __launch_bounds__(128) gemm_no_wait(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) { gemm<false>(A, B, C, M, N, K); }

#define MMA(NAME, SHAPE, DT, AT, NA, NB)                                                                              \
  extern "C" __global__ void NAME(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d) {             \
    const int l = threadIdx.x;                                                                                        \
    uint32_t fa[4] = {}, fb[2] = {}, r[4];                                                                            \
    for (int i = 0; i < NA; ++i) fa[i] = a[i * 32 + l];                                                               \
    for (int i = 0; i < NB; ++i) fb[i] = b[i * 32 + l];                                                               \
    for (int i = 0; i < 4; ++i) r[i] = c[i * 32 + l];                                                                 \
    BODY##NA(SHAPE, DT, AT);                                                                                          \
    for (int i = 0; i < 4; ++i) d[i * 32 + l] = r[i];                                                                 \
  }
#define BODY4(SHAPE, DT, AT)                                                                                          \
  asm volatile("mma.sync.aligned." SHAPE ".row.col." DT "." AT "." AT "." DT " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
               : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]))
#define BODY2(SHAPE, DT, AT)                                                                                          \
  asm volatile("mma.sync.aligned." SHAPE ".row.col." DT "." AT "." AT "." DT " {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};" \
               : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fb[0]))
#define MMAF(NAME, SHAPE, AT, NA, NB)                                                                                 \
  extern "C" __global__ void NAME(const uint32_t* a, const uint32_t* b, const float* c, float* d) {                   \
    const int l = threadIdx.x;                                                                                        \
    uint32_t fa[4] = {}, fb[2] = {};                                                                                  \
    float r[4];                                                                                                       \
    for (int i = 0; i < NA; ++i) fa[i] = a[i * 32 + l];                                                               \
    for (int i = 0; i < NB; ++i) fb[i] = b[i * 32 + l];                                                               \
    for (int i = 0; i < 4; ++i) r[i] = c[i * 32 + l];                                                                 \
    FBODY##NA(SHAPE, "f32", AT);                                                                                      \
    for (int i = 0; i < 4; ++i) d[i * 32 + l] = r[i];                                                                 \
  }
#define FBODY4(SHAPE, DT, AT)                                                                                         \
  asm volatile("mma.sync.aligned." SHAPE ".row.col." DT "." AT "." AT "." DT " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
               : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]))
#define FBODY2(SHAPE, DT, AT)                                                                                         \
  asm volatile("mma.sync.aligned." SHAPE ".row.col." DT "." AT "." AT "." DT " {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};" \
               : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fb[0]))
MMAF(mma_bf16_k16, "m16n8k16", "bf16", 4, 2)
MMAF(mma_bf16_k8, "m16n8k8", "bf16", 2, 1)
MMAF(mma_f16_k16, "m16n8k16", "f16", 4, 2)
MMAF(mma_tf32_k8, "m16n8k8", "tf32", 4, 2)
MMAF(mma_tf32_k4, "m16n8k4", "tf32", 2, 1)
MMAF(mma_e4m3_k32, "m16n8k32", "e4m3", 4, 2)
MMA(mma_s8_k32, "m16n8k32", "s32", "s8", 4, 2)
MMA(mma_u8_k16, "m16n8k16", "s32", "u8", 2, 1)
