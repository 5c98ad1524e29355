// Small kernels with and without their synchronisation. Compiled by: nvcc -arch=sm_90a -lineinfo -ptx cases.cu
#include <cuda_bf16.h>

#include <cuda/atomic>

// Rank 0 sends, rank 1 receives: 256 values and a flag, in rank 1's memory.
enum Mode { kNoFence, kFence, kReleaseAcquire, kDeviceScope, kRelaxed };
extern "C" __global__ void message(int rank, int mode, float* data, int* flag, float* out) {
  int t = threadIdx.x;
  cuda::atomic_ref<int, cuda::thread_scope_system> system(*flag);
  cuda::atomic_ref<int, cuda::thread_scope_device> device(*flag);
  volatile int* plain = flag;
  if (rank == 0) {
    data[t] = float(t);
    __syncthreads();
    if (t == 0) {
      if (mode == kFence) __threadfence_system();
      if (mode == kNoFence || mode == kFence) *plain = 1;
      if (mode == kReleaseAcquire) system.store(1, cuda::memory_order_release);
      if (mode == kDeviceScope) device.store(1, cuda::memory_order_release);
      if (mode == kRelaxed) system.store(1, cuda::memory_order_relaxed);
    }
  } else {
    if (t == 0) {
      if (mode == kNoFence || mode == kFence) { while (*plain == 0) {} }
      if (mode == kFence) __threadfence_system();
      if (mode == kReleaseAcquire) { while (system.load(cuda::memory_order_acquire) == 0) {} }
      if (mode == kDeviceScope) { while (device.load(cuda::memory_order_acquire) == 0) {} }
      if (mode == kRelaxed) { while (system.load(cuda::memory_order_relaxed) == 0) {} }
    }
    __syncthreads();
    out[t] = data[t] * 2.f;
  }
}

// One row of bf16 a warp; rows of odd length meet within 4-byte words.
extern "C" __global__ void rows(__nv_bfloat16* c, int n, int m) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row < m) {
    for (int i = threadIdx.x % 32; i < n; i += 32) c[row * n + i] = __float2bfloat16(float(row + i));
  }
}

// A sum through shared memory; `barrier` leaves one out.
extern "C" __global__ void reduce(const float* in, float* out, int barrier) {
  __shared__ float part[256];
  int t = threadIdx.x;
  part[t] = in[blockIdx.x * 256 + t];
  if (barrier) __syncthreads();
  for (int d = 128; d > 0; d /= 2) {
    if (t < d) part[t] += part[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

// Every rank adds its peers' values in place: reads race with the writes of those that are ahead unless a barrier of the
// ranks stands in front of the writes.
extern "C" __global__ void all_reduce(int rank, int n_ranks, float* const* data, unsigned* const* flags, int n, int barriers) {
  unsigned epoch = 0;
  auto barrier = [&] {
    __syncthreads();
    ++epoch;
    if (threadIdx.x < n_ranks) {
      cuda::atomic_ref<unsigned, cuda::thread_scope_system> theirs(flags[threadIdx.x][blockIdx.x * n_ranks + rank]);
      theirs.store(epoch, cuda::memory_order_release);
      cuda::atomic_ref<unsigned, cuda::thread_scope_system> mine(flags[rank][blockIdx.x * n_ranks + threadIdx.x]);
      while (mine.load(cuda::memory_order_acquire) < epoch) {}
    }
    __syncthreads();
  };
  barrier();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float sum = 0;
    for (int p = 0; p < n_ranks; ++p) sum += data[p][i];
    if (barriers > 1) barrier();
    data[rank][i] = sum;
  }
  barrier();
}

// Blocks wait until all of them have come: more than fit never do.
extern "C" __global__ void all_here(unsigned* count) {
  if (threadIdx.x == 0) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> here(*count);
    here.fetch_add(1, cuda::memory_order_acq_rel);
    while (here.load(cuda::memory_order_acquire) < gridDim.x) {}
  }
  __syncthreads();
}

// Warps of one block: the last ones never come to the second barrier.
extern "C" __global__ void left_out(float* out) {
  __syncthreads();
  if (threadIdx.x < 64) asm volatile("bar.sync 1, 128;");
  out[threadIdx.x] = 1.f;
}

extern "C" __global__ void copy(const float4* in, float4* out) { out[threadIdx.x] = in[threadIdx.x]; }

// The last block to finish sums what all have stored.
extern "C" __global__ void last_block(const float* in, float* part, unsigned* count, float* out, int fence) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = in[blockIdx.x];
    if (fence) __threadfence();
    last = atomicAdd(count, 1) == gridDim.x - 1;
    if (fence) __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) atomicAdd(out, part[threadIdx.x]);
}
