// Measures rates of the GPUs of one host, one process: prints "key value" lines with the keys of [measured] in a hardware
// profile. Compiled and started by `sculler calibrate`. Every figure is the median of kRepeats timed repetitions.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace {

constexpr int kRepeats = 15;
constexpr size_t kBytes = size_t{256} << 20;

void need(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}
#define NEED(call) need((call), #call)

// Median seconds of `enqueue` on all streams at once: from before the first call to the end of the last.
double seconds(const std::vector<int>& devices, const std::vector<cudaStream_t>& streams, const std::function<void(int)>& enqueue) {
  std::vector<double> times;
  for (int i = -3; i < kRepeats; ++i) {
    for (int d : devices) {
      NEED(cudaSetDevice(d));
      NEED(cudaDeviceSynchronize());
    }
    const auto start = std::chrono::steady_clock::now();
    for (size_t k = 0; k < devices.size(); ++k) {
      NEED(cudaSetDevice(devices[k]));
      enqueue(static_cast<int>(k));
    }
    for (size_t k = 0; k < devices.size(); ++k) {
      NEED(cudaSetDevice(devices[k]));
      NEED(cudaStreamSynchronize(streams[k]));
    }
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i >= 0) times.push_back(s);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

__global__ void copy_words(const uint4* from, uint4* to, size_t n) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x) to[i] = from[i];
}

__global__ void random_values(__nv_bfloat16* x, size_t n, unsigned seed) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x) {
    unsigned v = static_cast<unsigned>(i) * 2654435761u + seed;
    v ^= v >> 15;
    v *= 2246822519u;
    v ^= v >> 13;
    x[i] = __float2bfloat16(static_cast<float>(v >> 8) * (2.0f / 16777216.0f) - 1.0f);
  }
}

__global__ void nothing() {}

}  // namespace

int main() {
  int count = 0;
  NEED(cudaGetDeviceCount(&count));
  if (count == 0) {
    std::fprintf(stderr, "no GPU\n");
    return 1;
  }
  const int used = std::min(count, 2);
  std::vector<int> devices;
  std::vector<cudaStream_t> streams;
  std::vector<char*> from, to;
  int sms = 0;
  NEED(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  for (int d = 0; d < used; ++d) {
    NEED(cudaSetDevice(d));
    cudaStream_t stream;
    NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    char *a, *b;
    NEED(cudaMalloc(&a, kBytes));
    NEED(cudaMalloc(&b, kBytes));
    NEED(cudaMemset(a, 1, kBytes));
    devices.push_back(d);
    streams.push_back(stream);
    from.push_back(a);
    to.push_back(b);
  }

  // A launch that finds the stream idle, to its end as the host sees it.
  const double launch = seconds({0}, {streams[0]}, [&](int) { nothing<<<1, 32, 0, streams[0]>>>(); });
  std::printf("# kernel_round_trip_us %.2f\n", launch * 1e6);

  // Local: bytes moved are read and written.
  const double local = seconds({0}, {streams[0]}, [&](int) { NEED(cudaMemcpyAsync(to[0], from[0], kBytes, cudaMemcpyDeviceToDevice, streams[0])); });
  std::printf("local_copy_gbs %.0f\n", kBytes / (local - launch) / 1e9);
  const double kernel = seconds({0}, {streams[0]}, [&](int) {
    copy_words<<<sms * 4, 512, 0, streams[0]>>>(reinterpret_cast<uint4*>(from[0]), reinterpret_cast<uint4*>(to[0]), kBytes / 16);
  });
  std::printf("hbm_gbs %.0f\n", 2 * kBytes / (kernel - launch) / 1e9);

  {
    constexpr int kM = 8192, kN = 8192, kK = 4096;
    NEED(cudaSetDevice(0));
    __nv_bfloat16 *a, *b, *c;
    NEED(cudaMalloc(&a, size_t{kM} * kK * 2));
    NEED(cudaMalloc(&b, size_t{kN} * kK * 2));
    NEED(cudaMalloc(&c, size_t{kM} * kN * 2));
    random_values<<<sms * 4, 512, 0, streams[0]>>>(a, size_t{kM} * kK, 1);
    random_values<<<sms * 4, 512, 0, streams[0]>>>(b, size_t{kN} * kK, 2);
    cublasHandle_t blas;
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS || cublasSetStream(blas, streams[0]) != CUBLAS_STATUS_SUCCESS) {
      std::fprintf(stderr, "cuBLAS does not start\n");
      return 1;
    }
    const float one = 1, zero = 0;
    const double gemm = seconds({0}, {streams[0]}, [&](int) {
      if (cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, kN, kM, kK, &one, b, CUDA_R_16BF, kK, a, CUDA_R_16BF, kK, &zero, c, CUDA_R_16BF, kN, CUBLAS_COMPUTE_32F,
                       CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS) {
        std::fprintf(stderr, "cublasGemmEx failed\n");
        std::exit(1);
      }
    });
    std::printf("gemm_tflops %.0f\n", 2.0 * kM * kN * kK / (gemm - launch) / 1e12);
    cublasDestroy(blas);
  }

  if (used == 2) {
    int there = 0, back = 0;
    NEED(cudaDeviceCanAccessPeer(&there, 0, 1));
    NEED(cudaDeviceCanAccessPeer(&back, 1, 0));
    if (!there || !back) {
      std::printf("# the GPUs do not reach each other's memory\n");
      return 0;
    }
    for (int d = 0; d < 2; ++d) {
      NEED(cudaSetDevice(d));
      NEED(cudaDeviceEnablePeerAccess(1 - d, 0));
    }
    // Both directions at once; a figure is one direction's.
    const double copy = seconds(devices, streams, [&](int k) { NEED(cudaMemcpyPeerAsync(to[1 - k], 1 - k, from[k], k, kBytes, streams[k])); });
    std::printf("copy_gbs %.0f\n", kBytes / (copy - launch) / 1e9);
    const double store = seconds(devices, streams, [&](int k) {
      copy_words<<<sms * 2, 512, 0, streams[k]>>>(reinterpret_cast<uint4*>(from[k]), reinterpret_cast<uint4*>(to[1 - k]), kBytes / 16);
    });
    std::printf("store_gbs %.0f\n", kBytes / (store - launch) / 1e9);
    const double load = seconds(devices, streams, [&](int k) {
      copy_words<<<sms * 2, 512, 0, streams[k]>>>(reinterpret_cast<uint4*>(from[1 - k]), reinterpret_cast<uint4*>(to[k]), kBytes / 16);
    });
    std::printf("load_gbs %.0f\n", kBytes / (load - launch) / 1e9);
  }
  NEED(cudaGetLastError());
  return 0;
}
