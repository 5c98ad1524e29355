// The four programs that the emulator's speed is stated for. Built to speed.ptx by generate.sh.
#include <cuda_bf16.h>
#include <cstdint>
__device__ inline uint32_t smem(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// A tile of tensor-core work as GEMMs have it: cp.async into two stages, ldmatrix, mma.sync.
extern "C" __global__ void __launch_bounds__(128) mma_tile(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int N, int K) {
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
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_all;");
    }
    __syncthreads();
    for (int kk = 0; kk < TK; kk += 16) {
      uint32_t fa[2][4], fb[4][2];
      for (int i = 0; i < 2; ++i)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(smem(&a[s][wm + i * 16 + lane % 16][kk + lane / 16 * 8])));
      for (int j = 0; j < 4; ++j)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(fb[j][0]), "=r"(fb[j][1]) : "r"(smem(&b[s][wn + j * 8 + lane % 8][kk + lane / 8 % 2 * 8])));
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

// A barrier between ranks as NCCL's LSA barrier is made: release into every peer's inbox, acquire from the own one, peers
// found by `base + rank * stride`; each lane of every warp has a peer and a slot. Between barriers a rank writes its part
// and reads what its neighbour wrote.
extern "C" __global__ void lsa_barrier(char* base, size_t stride, size_t data, int rank, int rounds) {
  const int lane = threadIdx.x % 32, peer = lane % 4, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int slot = warp * 32 + lane / 4;
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  float* mine = reinterpret_cast<float*>(base + rank * stride + data);
  const float* next = reinterpret_cast<const float*>(base + (rank + 1) % 4 * stride + data);
  uint32_t* to = reinterpret_cast<uint32_t*>(base + peer * stride) + slot + rank * 8;
  const uint32_t* from = reinterpret_cast<const uint32_t*>(base + rank * stride) + slot + peer * 8;
  auto barrier = [&](int round, int second) {
    __syncthreads();
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to + second), "r"(round) : "memory");
    uint32_t got;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(got) : "l"(from + second) : "memory");
    } while (__any_sync(~0u, static_cast<int>(got) < round));
    __syncthreads();
  };
  for (int round = 1; round <= rounds; ++round) {
    for (int k = 0; k < 8; ++k) mine[k * n + i] = static_cast<float>(round + rank + k);
    barrier(round, 0);
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += next[k * n + i];
    mine[8 * n + i] = sum;
    barrier(round, 65536);
  }
}

extern "C" __global__ void copy16(const uint4* from, uint4* to, size_t n) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n; i += static_cast<size_t>(gridDim.x) * blockDim.x)
    to[i] = from[i];
}

extern "C" __global__ void atomics(const uint32_t* in, uint32_t* bins, int n) {
  __shared__ uint32_t local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const uint32_t v = in[i] * 2654435761u;
    atomicAdd(&local[v >> 24], 1u);
    atomicMax(&bins[256 + (v >> 16 & 255)], v);
  }
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
