// Cooperative groups: grid sync, tiles; and groups of lanes that meet apart.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void grid_sync(int* x, int n) {
  auto g = cg::this_grid();
  for (int round = 0; round < 3; ++round) {
    const int i = static_cast<int>(g.thread_rank());
    x[i] = i + round;
    g.sync();
    x[n + i] = x[(i + 37) % n];
    g.sync();
  }
}
extern "C" __global__ void tiles(int* x) {
  auto t = cg::tiled_partition<8>(cg::this_thread_block());
  const int s = cg::reduce(t, static_cast<int>(threadIdx.x), cg::plus<int>());
  x[threadIdx.x] = s * 100 + static_cast<int>(t.meta_group_rank());
}
extern "C" __global__ void coalesced(int* x) {
  x[threadIdx.x] = -1;
  if (threadIdx.x % 3 == 0) {
    auto g = cg::coalesced_threads();
    x[threadIdx.x] = static_cast<int>(g.size() * 100 + g.thread_rank());
    g.sync();
  }
}
extern "C" __global__ void apart(int* x) {
  int v;
  if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffu, threadIdx.x, 1);
  else v = __shfl_xor_sync(0xffff0000u, threadIdx.x, 2);
  __syncwarp();
  x[threadIdx.x] = v;
}
extern "C" __global__ void named(int* x) {
  __shared__ int s[64];
  if (threadIdx.x < 64) {
    s[threadIdx.x] = threadIdx.x;
    asm volatile("bar.arrive 1, 128;");
  } else {
    asm volatile("bar.sync 1, 128;");
    x[threadIdx.x - 64] = s[threadIdx.x - 64];
  }
  x[64 + threadIdx.x] = __syncthreads_count(threadIdx.x % 5 == 0) * 4 + __syncthreads_and(threadIdx.x < 200) * 2 + __syncthreads_or(threadIdx.x == 3);
}
