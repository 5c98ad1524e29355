// The CUDA runtime API, one part a word on the command line. Exit 0 where all is as CUDA promises.
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CK(x)                                                                                        \
  do {                                                                                               \
    cudaError_t e_ = (x);                                                                            \
    if (e_ != cudaSuccess) {                                                                         \
      std::printf("%s:%d %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_));                 \
      std::exit(3);                                                                                  \
    }                                                                                                \
  } while (0)
#define WANT(x)                                                       \
  do {                                                                \
    if (!(x)) {                                                       \
      std::printf("%s:%d: not %s\n", __FILE__, __LINE__, #x);         \
      std::exit(4);                                                   \
    }                                                                 \
  } while (0)

__device__ int d_counter = 5;
__constant__ float c_factor[4];

template <class T>
__global__ void add(T* p, int n, T by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += by;
}
__global__ void scale(float* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= c_factor[i % 4];
}
__global__ void count() { atomicAdd(&d_counter, 1); }
__global__ void reverse(int* p) {
  extern __shared__ int s[];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
__global__ void write_at(int* p, size_t i) { p[i] = 1; }
__global__ void spin(volatile int* p) {
  while (*p == 0) {
  }
}
__global__ void racy(int* p) { p[0] = threadIdx.x + blockIdx.x; }
__global__ void hello() { printf("block %d thread %d\n", blockIdx.x, threadIdx.x); }

static void basics() {
  const int n = 1000;
  float* p = nullptr;
  CK(cudaMalloc(&p, n * 4));
  CK(cudaMemset(p, 0, n * 4));
  add<float><<<4, 256>>>(p, n, 1.5f);
  CK(cudaGetLastError());
  const float factor[4] = {1, 2, 3, 4};
  CK(cudaMemcpyToSymbol(c_factor, factor, sizeof factor));
  scale<<<4, 256>>>(p, n);
  std::vector<float> h(n);
  CK(cudaMemcpy(h.data(), p, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) WANT(h[i] == 1.5f * factor[i % 4]);
  count<<<2, 32>>>();
  int c = 0;
  CK(cudaMemcpyFromSymbol(&c, d_counter, 4));
  WANT(c == 5 + 64);
  void* at = nullptr;
  size_t bytes = 0;
  CK(cudaGetSymbolAddress(&at, d_counter));
  CK(cudaGetSymbolSize(&bytes, d_counter));
  WANT(at != nullptr && bytes == 4);

  int* q = nullptr;
  CK(cudaMalloc(&q, 256 * 4));
  std::vector<int> v(256);
  for (int i = 0; i < 256; ++i) v[i] = i;
  CK(cudaMemcpy(q, v.data(), 1024, cudaMemcpyHostToDevice));
  reverse<<<1, 256, 1024>>>(q);
  CK(cudaMemcpy(v.data(), q, 1024, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 256; ++i) WANT(v[i] == 255 - i);

  // Rows with pitch, both ways.
  float* m = nullptr;
  size_t pitch = 0;
  CK(cudaMallocPitch(&m, &pitch, 100, 8));
  std::vector<char> rows(8 * 100), back(8 * 100);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<char>(i * 7);
  CK(cudaMemcpy2D(m, pitch, rows.data(), 100, 100, 8, cudaMemcpyHostToDevice));
  CK(cudaMemcpy2D(back.data(), 100, m, pitch, 100, 8, cudaMemcpyDeviceToHost));
  WANT(rows == back);
  // More than a message holds.
  std::vector<int> large(3 << 20), again(3 << 20);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<int>(i * 2654435761u);
  int* l = nullptr;
  CK(cudaMalloc(&l, large.size() * 4));
  CK(cudaMemcpy(l, large.data(), large.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(again.data(), l, large.size() * 4, cudaMemcpyDeviceToHost));
  WANT(large == again);
  CK(cudaFree(l));
  CK(cudaFree(m));
  CK(cudaFree(q));
  CK(cudaFree(p));

  cudaDeviceProp prop;
  CK(cudaGetDeviceProperties(&prop, 0));
  int sms = 0;
  CK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  WANT(prop.multiProcessorCount == sms && sms > 0 && prop.major == 9);
}

static void streams() {
  cudaStream_t a, b;
  cudaEvent_t begin, end;
  CK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CK(cudaStreamCreate(&b));
  CK(cudaEventCreate(&begin));
  CK(cudaEventCreateWithFlags(&end, cudaEventDefault));
  int* host = nullptr;
  CK(cudaMallocHost(&host, 4096));
  std::memset(host, 0, 4096);
  int* p = nullptr;
  CK(cudaMalloc(&p, 4096));
  CK(cudaEventRecord(begin, a));
  CK(cudaMemsetAsync(p, 0, 4096, a));
  add<int><<<4, 256, 0, a>>>(p, 1024, 3);
  CK(cudaEventRecord(end, a));
  CK(cudaStreamWaitEvent(b, end, 0));
  add<int><<<4, 256, 0, b>>>(p, 1024, 4);
  CK(cudaMemcpyAsync(host, p, 4096, cudaMemcpyDeviceToHost, b));
  std::atomic<int> called{0};
  CK(cudaLaunchHostFunc(b, [](void* x) { static_cast<std::atomic<int>*>(x)->store(1); }, &called));
  CK(cudaStreamSynchronize(b));
  WANT(called == 1);
  for (int i = 0; i < 1024; ++i) WANT(host[i] == 7);
  float ms = -1;
  CK(cudaEventElapsedTime(&ms, begin, end));
  WANT(ms >= 0);
  WANT(cudaStreamQuery(a) == cudaSuccess && cudaEventQuery(end) == cudaSuccess);
  // A kernel writes to pinned memory.
  add<int><<<4, 256, 0, a>>>(host, 1024, 1);
  CK(cudaDeviceSynchronize());
  for (int i = 0; i < 1024; ++i) WANT(host[i] == 8);
  cudaPointerAttributes attributes;
  CK(cudaPointerGetAttributes(&attributes, host));
  WANT(attributes.type == cudaMemoryTypeHost);
  CK(cudaPointerGetAttributes(&attributes, p));
  WANT(attributes.type == cudaMemoryTypeDevice);
  CK(cudaPointerGetAttributes(&attributes, &ms));
  WANT(attributes.type == cudaMemoryTypeUnregistered);

  // Another host thread with its own connection.
  std::thread([&] {
    CK(cudaSetDevice(0));
    add<int><<<4, 256, 0, a>>>(p, 1024, 10);
    CK(cudaStreamSynchronize(a));
  }).join();
  CK(cudaMemcpy(host, p, 4096, cudaMemcpyDeviceToHost));
  WANT(host[17] == 17);

  CK(cudaFreeHost(host));
  CK(cudaFree(p));
  CK(cudaEventDestroy(begin));
  CK(cudaEventDestroy(end));
  CK(cudaStreamDestroy(a));
  CK(cudaStreamDestroy(b));
}

static void graphs() {
  cudaStream_t s, t;
  cudaEvent_t fork, join;
  CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  CK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  int *p = nullptr, *q = nullptr;
  CK(cudaMalloc(&p, 4096));
  CK(cudaMalloc(&q, 4096));
  CK(cudaMemset(p, 0, 4096));
  CK(cudaDeviceSynchronize());  // s does not wait for the default stream
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  cudaStreamCaptureStatus status;
  CK(cudaStreamIsCapturing(s, &status));
  WANT(status == cudaStreamCaptureStatusActive);
  add<int><<<4, 256, 0, s>>>(p, 1024, 1);
  CK(cudaEventRecord(fork, s));
  CK(cudaStreamWaitEvent(t, fork, 0));
  CK(cudaMemcpyAsync(q, p, 4096, cudaMemcpyDeviceToDevice, t));
  CK(cudaEventRecord(join, t));
  CK(cudaStreamWaitEvent(s, join, 0));
  add<int><<<4, 256, 0, s>>>(q, 1024, 100);
  CK(cudaStreamEndCapture(s, &graph));
  size_t nodes = 0;
  CK(cudaGraphGetNodes(graph, nullptr, &nodes));
  WANT(nodes == 3);
  CK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) CK(cudaGraphLaunch(exec, s));
  CK(cudaStreamSynchronize(s));
  int h[2];
  CK(cudaMemcpy(&h[0], p, 4, cudaMemcpyDeviceToHost));
  CK(cudaMemcpy(&h[1], q, 4, cudaMemcpyDeviceToHost));
  WANT(h[0] == 3 && h[1] == 103);
  CK(cudaGraphExecDestroy(exec));
  CK(cudaGraphDestroy(graph));
}

static void errors() {
  int* p = nullptr;
  CK(cudaMalloc(&p, 1024));
  add<int><<<1, 2048>>>(p, 1, 1);  // too many threads
  WANT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  WANT(cudaGetLastError() == cudaSuccess);
  reverse<<<1, 32, 100 << 10>>>(p);  // dynamic shared memory without opt-in
  WANT(cudaGetLastError() == cudaErrorInvalidValue);
  CK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  CK(cudaMemset(p, 0, 1024));
  reverse<<<1, 32, 100 << 10>>>(p);
  CK(cudaDeviceSynchronize());
  int blocks = 0;
  CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, 32, 100 << 10));
  WANT(blocks == 2);
  int n = 1;
  int one = 1;
  void* args[] = {&p, &n, &one};
  WANT(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&add<int>), dim3(100000), dim3(256), args, 0, nullptr) ==
       cudaErrorCooperativeLaunchTooLarge);
  WANT(cudaFree(reinterpret_cast<void*>(0x1234567)) == cudaErrorInvalidValue);
  WANT(std::strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
  cudaGetLastError();
}

static void driver() {
  CUresult (*write)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
  cudaDriverEntryPointQueryResult found;
  CK(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", reinterpret_cast<void**>(&write), 12000, cudaEnableDefault,
                                      &found));
  WANT(found == cudaDriverEntryPointSuccess && write != nullptr);
  int* p = nullptr;
  CK(cudaMalloc(&p, 4));
  WANT(write(nullptr, reinterpret_cast<CUdeviceptr>(p), 42, 0) == CUDA_SUCCESS);
  int h = 0;
  CK(cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost));
  WANT(h == 42);
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int* p = nullptr;
  CK(cudaMalloc(&p, 4096));
  if (what == "basics") basics();
  else if (what == "streams") streams();
  else if (what == "graphs") graphs();
  else if (what == "errors") errors();
  else if (what == "driver") driver();
  else if (what == "print") { hello<<<1, 2>>>(); CK(cudaDeviceSynchronize()); }
  else if (what == "host_read") std::printf("%d\n", *static_cast<volatile int*>(p));
  else if (what == "bounds") { write_at<<<1, 1>>>(p, 1024); std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize())); }
  else if (what == "deadlock") { CK(cudaMemset(p, 0, 4)); spin<<<1, 32>>>(p); cudaDeviceSynchronize(); }
  else if (what == "race") { racy<<<4, 32>>>(p); CK(cudaDeviceSynchronize()); }
  else if (what == "uninitialised") { add<int><<<1, 32>>>(p, 32, 1); CK(cudaDeviceSynchronize()); }
  else if (what == "unsupported") std::printf("%s\n", cudaGetErrorName(cudaHostRegister(&p, 8, 0)));
  else if (what == "array") { cudaArray_t a; cudaChannelFormatDesc d{}; std::printf("%s\n", cudaGetErrorName(cudaMallocArray(&a, &d, 8, 8, 0))); }
  else if (what == "multicast") {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuMulticastCreate", &f, 12010, cudaEnableDefault, &found);
    std::printf("%s %d %p\n", cudaGetErrorName(e), found, f);
    return f == nullptr && found == cudaDriverEntryPointSymbolNotFound ? 0 : 5;
  } else {
    std::printf("unknown part\n");
    return 2;
  }
  std::printf("good\n");
  return 0;
}
