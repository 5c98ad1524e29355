// Plain kernels: indexing, loops, shared memory, shuffles, atomics, divergence, calls, printing.
#include <cstdio>
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void reduce(const int* in, int* out, int n) {
  __shared__ int part[32];
  int s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += in[i];
  for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(~0u, s, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x == 0) atomicAdd(out, s);
  }
}
extern "C" __global__ void collatz(const unsigned* in, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = in[i], steps = 0;
  while (v != 1) {
    v = (v & 1) ? 3 * v + 1 : v / 2;
    ++steps;
  }
  out[i] = steps;
}
__noinline__ __device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fib(threadIdx.x % 12); }
extern "C" __global__ void say(int v) {
  if (threadIdx.x < 2) printf("thread %d says %5.2f %s %llx\n", threadIdx.x, v * 0.5, "text", 0x123456789abull);
}
__device__ int counter = 5;
__constant__ int table[4] = {1, 2, 3, 4};
extern "C" __global__ void globals(int* out) {
  out[threadIdx.x] = table[threadIdx.x & 3];
  atomicAdd(&counter, 1);
}
// A lane takes a lock that another lane of its warp may hold: must not hang.
extern "C" __global__ void lock(int* mutex, int* sum) {
  while (atomicCAS(mutex, 0, 1) != 0) {}
  __threadfence();
  *(volatile int*)sum = *(volatile int*)sum + 1;
  __threadfence();
  atomicExch(mutex, 0);
}
extern "C" __global__ void sine(double* x) { x[threadIdx.x] = sin(x[threadIdx.x]); }
extern "C" __global__ void wait_for(volatile int* flag, int* out) {
  while (*flag == 0) {}
  *out = *flag;
}
extern "C" __global__ void half_barrier(int* out) {
  if (threadIdx.x < 32) __syncthreads();
  out[threadIdx.x] = 1;
  if (threadIdx.x >= 32) while (((volatile int*)out)[0] != 2) {}
}
extern "C" __global__ void spin_on_last(volatile int* flag) {
  if (blockIdx.x == gridDim.x - 1) *flag = 1;
  else while (*flag == 0) {}
}
extern "C" __global__ void dynamic(int* out, int n) {
  extern __shared__ int buffer[];
  buffer[threadIdx.x] = threadIdx.x * 3;
  __syncthreads();
  out[threadIdx.x] = buffer[(threadIdx.x + n) % blockDim.x];
}
// Polling through block barriers: every warp goes in circles, none alone.
extern "C" __global__ void poll_together(volatile int* flag, int* out) {
  __shared__ int done;
  for (;;) {
    if (threadIdx.x == 0) done = *flag;
    __syncthreads();
    if (done) break;
    __syncthreads();
  }
  out[threadIdx.x] = done;
}
extern "C" __global__ void give_up(volatile int* flag, long long ticks, int* out) {
  const long long start = clock64();
  while (*flag == 0)
    if (clock64() - start > ticks) {
      *out = -1;
      return;
    }
  *out = 1;
}
