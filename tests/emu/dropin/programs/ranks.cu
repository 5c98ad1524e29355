// NCCL over several ranks, one part a word on the command line; the unique id travels through a file, as MPI would carry it.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CK(x)                                                                                \
  do {                                                                                       \
    cudaError_t e_ = (x);                                                                    \
    if (e_ != cudaSuccess) {                                                                 \
      std::printf("%s:%d %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_));         \
      std::exit(3);                                                                          \
    }                                                                                        \
  } while (0)
#define NK(x)                                                                                \
  do {                                                                                       \
    ncclResult_t e_ = (x);                                                                   \
    if (e_ != ncclSuccess) {                                                                 \
      std::printf("%s:%d %s: %s; %s\n", __FILE__, __LINE__, #x, ncclGetErrorString(e_), ncclGetLastError(nullptr)); \
      std::exit(3);                                                                          \
    }                                                                                        \
  } while (0)
#define WANT(x)                                                     \
  do {                                                              \
    if (!(x)) {                                                     \
      std::printf("rank %d %s:%d: not %s\n", g_rank, __FILE__, __LINE__, #x); \
      std::exit(4);                                                 \
    }                                                               \
  } while (0)

static int g_rank, g_size;

// Push my slice to all peers between two barriers.
template <bool kClosing>
__global__ void push(ncclWindow_t win, size_t bytes, ncclDevComm dev) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), dev, ncclTeamTagLsa(), blockIdx.x);
  bar.sync(ncclCoopCta(), cuda::memory_order_acquire);
  const size_t n = bytes / 16, base = (size_t)dev.lsaRank * bytes;
  const uint4* src = (const uint4*)ncclGetLocalPointer(win, base);
  for (int d = 1; d < dev.lsaSize; d++) {
    uint4* dst = (uint4*)ncclGetLsaPointer(win, base, (dev.lsaRank + d) % dev.lsaSize);
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) dst[i] = src[i];
  }
  if (kClosing) bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
__global__ void sum(ncclWindow_t win, size_t words, unsigned long long* out) {
  const uint32_t* p = (const uint32_t*)ncclGetLocalPointer(win, 0);
  unsigned long long acc = 0;
  for (size_t i = threadIdx.x; i < words; i += blockDim.x) acc += p[i];
  atomicAdd(out, acc);
}
__global__ void a2a(ncclDevComm dev, ncclLLA2AHandle h, float* out) {
  ncclCoopCta cta;
  ncclLLA2ASession<ncclCoopCta> s(cta, dev, ncclTeamLsa(dev), h, 0, dev.nRanks);
  const int i = threadIdx.x;
  if (i < dev.nRanks) s.send(i, dev.rank, 100.0f * dev.rank + i);
  if (i < dev.nRanks) out[i] = s.template recv<float>(i);
  s.endEpoch(cta);
}
__global__ void find(ncclDevComm dev, const void* p, ncclWindow_t* out) {
  ncclWindow_t w = ncclFindWindow(ncclCoopCta(), dev, p);
  if (threadIdx.x == 0) *out = w;
}

static ncclComm_t connect(const char* path) {
  ncclUniqueId id;
  if (g_rank == 0) {
    NK(ncclGetUniqueId(&id));
    const std::string temporary = std::string(path) + ".part";
    FILE* f = std::fopen(temporary.c_str(), "w");
    std::fwrite(&id, sizeof id, 1, f);
    std::fclose(f);
    std::rename(temporary.c_str(), path);
  } else {
    FILE* f = nullptr;
    while ((f = std::fopen(path, "r")) == nullptr) usleep(1000);
    WANT(std::fread(&id, sizeof id, 1, f) == 1);
    std::fclose(f);
  }
  ncclComm_t comm;
  NK(ncclCommInitRank(&comm, g_size, id, g_rank));
  int count = 0, rank = -1;
  NK(ncclCommCount(comm, &count));
  NK(ncclCommUserRank(comm, &rank));
  WANT(count == g_size && rank == g_rank);
  return comm;
}

static void lsa(ncclComm_t comm, bool closing) {
  const size_t per = 8192;
  void* buffer;
  ncclWindow_t win;
  NK(ncclMemAlloc(&buffer, per * g_size));
  NK(ncclCommWindowRegister(comm, buffer, per * g_size, &win, NCCL_WIN_COLL_SYMMETRIC));
  WANT(win != nullptr);
  std::vector<uint32_t> h(per / 4);
  for (size_t i = 0; i < h.size(); ++i) h[i] = (uint32_t)(g_rank * 1000003u + i);
  CK(cudaMemcpy((char*)buffer + per * g_rank, h.data(), per, cudaMemcpyHostToDevice));
  ncclDevCommRequirements need;
  std::memset(&need, 0, sizeof need);
  need.lsaBarrierCount = 2;
  ncclDevComm dev;
  NK(ncclDevCommCreate(comm, &need, &dev));
  (void)cudaGetLastError();
  unsigned long long* out;
  CK(cudaMalloc(&out, 8));
  CK(cudaMemset(out, 0, 8));
  cudaStream_t st;
  CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
  CK(cudaDeviceSynchronize());
  if (closing) push<true><<<2, 128, 0, st>>>(win, per, dev);
  else push<false><<<2, 128, 0, st>>>(win, per, dev);
  CK(cudaGetLastError());
  sum<<<1, 256, 0, st>>>(win, per * g_size / 4, out);
  CK(cudaStreamSynchronize(st));
  unsigned long long got = 0, want = 0;
  CK(cudaMemcpy(&got, out, 8, cudaMemcpyDeviceToHost));
  for (int r = 0; r < g_size; ++r)
    for (size_t i = 0; i < per / 4; ++i) want += (uint32_t)(r * 1000003u + i);
  if (closing) WANT(got == want);

  ncclWindow_t* found;
  CK(cudaMallocHost(&found, 8));
  find<<<1, 32, 0, st>>>(dev, (char*)buffer + 100, found);
  CK(cudaStreamSynchronize(st));
  WANT(*found == win);
  NK(ncclDevCommDestroy(comm, &dev));
  NK(ncclCommWindowDeregister(comm, win));
  NK(ncclMemFree(buffer));
}

static void ll(ncclComm_t comm) {
  ncclDevResourceRequirements r;
  ncclLLA2AHandle h;
  NK(ncclLLA2ACreateRequirement(1, ncclLLA2ACalcSlots(g_size, sizeof(float)), &h, &r));
  ncclDevCommRequirements need;
  std::memset(&need, 0, sizeof need);
  need.resourceRequirementsList = &r;
  ncclDevComm dev;
  NK(ncclDevCommCreate(comm, &need, &dev));
  float* out;
  CK(cudaMalloc(&out, 4 * g_size));
  for (int round = 0; round < 3; ++round) {
    a2a<<<1, 32>>>(dev, h, out);
    CK(cudaDeviceSynchronize());
    std::vector<float> got(g_size);
    CK(cudaMemcpy(got.data(), out, 4 * g_size, cudaMemcpyDeviceToHost));
    for (int i = 0; i < g_size; ++i) WANT(got[i] == 100.0f * i + g_rank);
  }
  NK(ncclDevCommDestroy(comm, &dev));
}

static void collectives(ncclComm_t comm) {
  const int n = 64;
  float *send, *recv;
  CK(cudaMalloc(&send, n * 4 * g_size));
  CK(cudaMalloc(&recv, n * 4 * g_size));
  cudaStream_t st;
  CK(cudaStreamCreate(&st));
  std::vector<float> h(n * g_size), got(n * g_size);
  for (int i = 0; i < n * g_size; ++i) h[i] = (float)(g_rank * 1000 + i);
  CK(cudaMemcpy(send, h.data(), h.size() * 4, cudaMemcpyHostToDevice));
  const auto fetch = [&] {
    CK(cudaStreamSynchronize(st));
    CK(cudaMemcpy(got.data(), recv, got.size() * 4, cudaMemcpyDeviceToHost));
  };
  NK(ncclAllGather(send, recv, n, ncclFloat, comm, st));
  fetch();
  for (int r = 0; r < g_size; ++r)
    for (int i = 0; i < n; ++i) WANT(got[r * n + i] == (float)(r * 1000 + i));
  NK(ncclAllReduce(send, recv, n * g_size, ncclFloat, ncclSum, comm, st));
  fetch();
  for (int i = 0; i < n * g_size; ++i) WANT(got[i] == (float)(1000 * g_size * (g_size - 1) / 2 + g_size * i));
  NK(ncclReduceScatter(send, recv, n, ncclFloat, ncclSum, comm, st));
  fetch();
  for (int i = 0; i < n; ++i) WANT(got[i] == (float)(1000 * g_size * (g_size - 1) / 2 + g_size * (g_rank * n + i)));
  NK(ncclBroadcast(send, recv, n, ncclFloat, 1, comm, st));
  fetch();
  for (int i = 0; i < n; ++i) WANT(got[i] == (float)(1000 + i));
  NK(ncclAlltoAll(send, recv, n, ncclFloat, comm, st));
  fetch();
  for (int r = 0; r < g_size; ++r)
    for (int i = 0; i < n; ++i) WANT(got[r * n + i] == (float)(r * 1000 + g_rank * n + i));
  NK(ncclGroupStart());
  NK(ncclSend(send, n, ncclFloat, (g_rank + 1) % g_size, comm, st));
  NK(ncclRecv(recv, n, ncclFloat, (g_rank + g_size - 1) % g_size, comm, st));
  NK(ncclGroupEnd());
  fetch();
  for (int i = 0; i < n; ++i) WANT(got[i] == (float)((g_rank + g_size - 1) % g_size * 1000 + i));
  ncclComm_t half;
  NK(ncclCommSplit(comm, g_rank % 2, g_rank, &half, nullptr));
  int count = 0;
  NK(ncclCommCount(half, &count));
  WANT(count == (g_size + 1 - g_rank % 2) / 2);
  NK(ncclCommDestroy(half));
}

static void blas() {
  const int m = 32, n = 48, k = 40;
  std::vector<__nv_bfloat16> a(m * k), b(k * n);
  std::vector<float> c(m * n, 1.0f), want(m * n);
  for (int i = 0; i < m * k; ++i) a[i] = __nv_bfloat16((float)(i % 7 - 3));
  for (int i = 0; i < k * n; ++i) b[i] = __nv_bfloat16((float)(i % 5 - 2));
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      float s = 0;
      for (int l = 0; l < k; ++l) s += __bfloat162float(a[i * k + l]) * __bfloat162float(b[j * k + l]);
      want[j * m + i] = 2 * s + 0.5f;
    }
  __nv_bfloat16 *da, *db;
  float* dc;
  CK(cudaMalloc(&da, a.size() * 2));
  CK(cudaMalloc(&db, b.size() * 2));
  CK(cudaMalloc(&dc, c.size() * 4));
  CK(cudaMemcpy(da, a.data(), a.size() * 2, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(db, b.data(), b.size() * 2, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dc, c.data(), c.size() * 4, cudaMemcpyHostToDevice));
  cublasHandle_t handle;
  WANT(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  cudaStream_t st;
  CK(cudaStreamCreate(&st));
  WANT(cublasSetStream(handle, st) == CUBLAS_STATUS_SUCCESS);
  const float alpha = 2, beta = 0.5f;
  WANT(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, da, CUDA_R_16BF, k, db, CUDA_R_16BF, k, &beta, dc,
                    CUDA_R_32F, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  CK(cudaStreamSynchronize(st));
  CK(cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < m * n; ++i) WANT(c[i] == want[i]);
  WANT(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  g_rank = std::atoi(std::getenv("SCULLER_RANK"));
  g_size = std::atoi(std::getenv("SCULLER_RANKS"));
  CK(cudaSetDevice(g_rank));
  if (what == "blas") {
    blas();
    return 0;
  }
  ncclComm_t comm = connect(argv[2]);
  if (what == "lsa") lsa(comm, true);
  else if (what == "no_barrier") lsa(comm, false);
  else if (what == "ll") ll(comm);
  else if (what == "collectives") collectives(comm);
  else if (what == "missing") {  // rank 0 leaves a collective out
    float* p;
    CK(cudaMalloc(&p, 1024));
    CK(cudaMemset(p, 0, 1024));
    if (g_rank != 0) NK(ncclAllReduce(p, p, 16, ncclFloat, ncclSum, comm, 0));
    CK(cudaDeviceSynchronize());
  } else {
    return 2;
  }
  NK(ncclCommDestroy(comm));
  return 0;
}
