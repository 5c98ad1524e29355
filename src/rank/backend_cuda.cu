// The CUDA half of a rank, built by nvcc into rank_backend.so for cuda and emu alike (src/rank/backend.h):
//   nvcc -std=c++17 -shared -cudart shared -gencode arch=compute_90a,code=[compute_90a,sm_90a] --no-compress
//        -Xcompiler -fPIC,-fno-gnu-unique -I include -I src src/rank/backend_cuda.cu -o rank_backend.so -lnccl
// On workloads each buffer of a set is an ncclMemAlloc'ed window; on kernels it is memory that can be exported.
#include <cuda.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "rank/backend.h"
#include "rank/protocol.h"

namespace {

using sculler::rank::FaultCode;

// What a range of memory begins with, and where it ends.
struct Range {
  const char* begin;
  uint64_t bytes;
};
constexpr uint64_t kPage = uint64_t{2} << 20;

// What the GPU does first where there is no barrier. Every block reads a word of every page: translations went with
// the other context, and a program that runs by itself would not miss them.
__global__ void take_over(const Range* ranges, int n, unsigned* sink) {
  unsigned seen = 0;
  for (int r = 0; r < n; ++r) {
    for (uint64_t at = threadIdx.x * kPage; at + 4 <= ranges[r].bytes; at += blockDim.x * kPage)
      seen |= *reinterpret_cast<const volatile unsigned*>(ranges[r].begin + at);
  }
  if (seen == 0xffffffffu && n < 0) *sink = seen;
}

// One block, one barrier of all ranks: what each rank did before is visible to all after.
__global__ void opening_barrier(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> session(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  session.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

// In NCCL 2.28 only device code can ask for a peer's address.
__global__ void resolve_peer(ncclWindow_t window, int lsa_peer, void** out) {
  *out = ncclGetLsaPointer(window, 0, lsa_peer);
}

// Driver calls through the runtime, so that nothing is linked against libcuda.
struct Driver {
  decltype(&cuMemRetainAllocationHandle) retain = nullptr;
  decltype(&cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&cuMemGetAddressRange) address_range = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
};

struct Buffer {
  void* ptr = nullptr;
  uint64_t bytes = 0;       // asked for, the shift included
  ncclWindow_t window = nullptr;
  std::vector<void*> peers;
};

int set_error(sculler_backend_error* error, FaultCode fault, int number, const char* where, const char* what) {
  error->fault = static_cast<int32_t>(fault);
  error->number = number;
  std::snprintf(error->text, sizeof error->text, "%s: %s", where, what);
  return 1;
}
int cuda_error(sculler_backend_error* error, FaultCode fault, cudaError_t code, const char* where) {
  char text[160];
  std::snprintf(text, sizeof text, "%s (%s)", cudaGetErrorName(code), cudaGetErrorString(code));
  return set_error(error, code == cudaErrorMemoryAllocation ? FaultCode::kOutOfMemory : fault, static_cast<int>(code),
                   where, text);
}

}  // namespace

#define TRY_CUDA(call, fault)                                                             \
  do {                                                                                    \
    const cudaError_t code_ = (call);                                                     \
    if (code_ != cudaSuccess) return cuda_error(error, FaultCode::fault, code_, #call);   \
  } while (0)
#define TRY_DRIVER(call, fault)                                                                                   \
  do {                                                                                                            \
    const CUresult code_ = (call);                                                                                \
    if (code_ != CUDA_SUCCESS)                                                                                    \
      return set_error(error, code_ == CUDA_ERROR_OUT_OF_MEMORY ? FaultCode::kOutOfMemory : FaultCode::fault,     \
                       static_cast<int>(code_), #call, "the driver refuses");                                     \
  } while (0)
#define TRY_NCCL(call, fault)                                                                                          \
  do {                                                                                                                 \
    const ncclResult_t code_ = (call);                                                                                 \
    if (code_ != ncclSuccess) return set_error(error, FaultCode::fault, static_cast<int>(code_), #call, ncclGetErrorString(code_)); \
  } while (0)

struct sculler_backend {
  sculler_backend_spec spec{};
  std::vector<uint64_t> bytes;
  int device = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t before = nullptr, after = nullptr;
  ncclComm_t comm = nullptr;
  ncclDevComm dev_comm{};
  bool lsa_barrier = false;      // else an all-reduce of one word
  void* word = nullptr;
  void* scrub = nullptr;         // twice the L2
  size_t scrub_bytes = 0;
  Range* ranges = nullptr;       // of all buffers, on the device
  int sms = 0;
  cudaGraphExec_t graph = nullptr;
  bool timing = false;           // both events of this run are recorded
  Driver driver;
  std::vector<Buffer> buffers;   // set * n_buffers + buffer
  std::vector<sculler_buffer> public_buffers;
  std::vector<sculler_set> public_sets;
  sculler_pool pool{};
  sculler_rank rank{};

  Buffer& at(int32_t set, int32_t buffer) {
    return buffers[static_cast<size_t>(set) * static_cast<size_t>(spec.n_buffers) + static_cast<size_t>(buffer)];
  }

  template <class Function>
  int entry(const char* name, Function& into, sculler_backend_error* error) {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult found{};
    TRY_CUDA(cudaGetDriverEntryPointByVersion(name, &pointer, 12000, cudaEnableDefault, &found), kEnvironment);
    if (pointer == nullptr || found != cudaDriverEntryPointSuccess) {
      return set_error(error, FaultCode::kEnvironment, 0, name, "the driver does not have it");
    }
    into = reinterpret_cast<Function>(pointer);
    return 0;
  }

  int load_driver(sculler_backend_error* error) {
    return entry("cuMemRetainAllocationHandle", driver.retain, error) ||
           entry("cuMemExportToShareableHandle", driver.export_handle, error) ||
           entry("cuMemGetAddressRange", driver.address_range, error) || entry("cuMemCreate", driver.create, error) ||
           entry("cuMemRelease", driver.release, error) || entry("cuMemAddressReserve", driver.reserve, error) ||
           entry("cuMemMap", driver.map, error) || entry("cuMemSetAccess", driver.set_access, error) ||
           entry("cuMemGetAllocationGranularity", driver.granularity, error);
  }

  // Memory of one device that can be exported as a POSIX descriptor.
  int allocate_exportable(Buffer& b, sculler_backend_error* error) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    size_t unit = 0;
    TRY_DRIVER(driver.granularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), kEnvironment);
    const size_t size = (b.bytes + unit - 1) / unit * unit;
    CUmemGenericAllocationHandle handle{};
    TRY_DRIVER(driver.create(&handle, size, &prop, 0), kEnvironment);
    CUdeviceptr address = 0;
    TRY_DRIVER(driver.reserve(&address, size, 0, 0, 0), kEnvironment);
    TRY_DRIVER(driver.map(address, size, 0, handle, 0), kEnvironment);
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    TRY_DRIVER(driver.set_access(address, size, &access, 1), kEnvironment);
    TRY_DRIVER(driver.release(handle), kEnvironment);   // the mapping keeps it
    b.ptr = reinterpret_cast<void*>(address);
    return 0;
  }

  int allocate(Buffer& b, sculler_backend_error* error) {
    if (spec.workload != 0) {
      TRY_NCCL(ncclMemAlloc(&b.ptr, b.bytes), kOutOfMemory);
      return 0;
    }
    if (spec.export_handles != 0) return allocate_exportable(b, error);
    TRY_CUDA(cudaMalloc(&b.ptr, b.bytes), kEnvironment);
    return 0;
  }

  int make_communicator(const void* id, sculler_backend_error* error) {
    int version = 0;
    TRY_NCCL(ncclGetVersion(&version), kEnvironment);
    if (spec.expect_nccl != 0 && version != spec.expect_nccl) {
      char text[160];
      std::snprintf(text, sizeof text, "is %d at run time, the candidate was built with the headers of %d", version,
                    spec.expect_nccl);
      return set_error(error, FaultCode::kEnvironment, version, "NCCL", text);
    }
    ncclUniqueId unique{};
    std::memcpy(&unique, id, sizeof unique);
    TRY_NCCL(ncclCommInitRank(&comm, spec.n_ranks, unique, spec.rank), kEnvironment);
    ncclDevCommRequirements needs{};
    needs.lsaBarrierCount = 1;
    TRY_NCCL(ncclDevCommCreate(comm, &needs, &dev_comm), kEnvironment);
    (void)cudaGetLastError();   // ncclDevCommCreate can leave a stale error
    lsa_barrier = dev_comm.lsaSize == spec.n_ranks;
    TRY_CUDA(cudaMalloc(&word, 256), kEnvironment);
    TRY_CUDA(cudaMemsetAsync(word, 0, 256, stream), kEnvironment);
    TRY_CUDA(cudaStreamSynchronize(stream), kEnvironment);
    return 0;
  }

  int register_window(Buffer& b, sculler_backend_error* error) {
    TRY_NCCL(ncclCommWindowRegister(comm, b.ptr, b.bytes, &b.window, NCCL_WIN_COLL_SYMMETRIC), kEnvironment);
    b.peers.assign(static_cast<size_t>(spec.n_ranks), nullptr);
    const int first = spec.rank - dev_comm.lsaRank;   // world rank of the LSA team's first
    for (int peer = 0; peer < dev_comm.lsaSize; ++peer) {
      void*& into = b.peers[static_cast<size_t>(first + peer)];
      resolve_peer<<<1, 1, 0, stream>>>(b.window, peer, static_cast<void**>(word));
      TRY_CUDA(cudaGetLastError(), kEnvironment);
      TRY_CUDA(cudaMemcpyAsync(&into, word, sizeof into, cudaMemcpyDeviceToHost, stream), kEnvironment);
      TRY_CUDA(cudaStreamSynchronize(stream), kEnvironment);
    }
    // The own address as the allocator gave it: an alias would be another address to checkers and tensor maps.
    b.peers[static_cast<size_t>(spec.rank)] = b.ptr;
    return 0;
  }

  void publish() {
    public_buffers.resize(buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      Buffer& b = buffers[i];
      for (void*& peer : b.peers)
        if (peer != nullptr) peer = static_cast<char*>(peer) + spec.shift;
      public_buffers[i] = {static_cast<char*>(b.ptr) + spec.shift, b.bytes - spec.shift, b.window, spec.shift,
                           b.peers.empty() ? nullptr : b.peers.data()};
    }
    for (int32_t s = 0; s < spec.n_sets; ++s) {
      public_sets.push_back({static_cast<uint32_t>(spec.n_buffers), 0,
                             public_buffers.data() + static_cast<size_t>(s) * static_cast<size_t>(spec.n_buffers)});
    }
    pool = {static_cast<uint32_t>(spec.n_sets), 0, public_sets.data()};
    rank.abi_version = SCULLER_ABI_VERSION;
    rank.rank = spec.rank;
    rank.n_ranks = spec.n_ranks;
    rank.device = device;
    rank.stream = stream;
    rank.comm = comm;
    rank.lsa_rank = comm != nullptr ? dev_comm.lsaRank : 0;
    rank.lsa_size = comm != nullptr ? dev_comm.lsaSize : 1;
    rank.n_threads = spec.n_threads;
  }
};

namespace {

int open_backend(const sculler_backend_spec* spec, sculler_backend** out, sculler_backend_error* error) {
  int count = 0;
  TRY_CUDA(cudaGetDeviceCount(&count), kEnvironment);
  if (count < 1 || (spec->export_handles != 0 && count < spec->n_ranks)) {
    char text[96];
    std::snprintf(text, sizeof text, "%d GPUs are asked for and %d are there", spec->n_ranks, count);
    return set_error(error, FaultCode::kEnvironment, count, "devices", text);
  }
  auto* self = new sculler_backend;
  self->spec = *spec;
  self->bytes.assign(spec->bytes, spec->bytes + spec->n_buffers);
  self->spec.bytes = self->bytes.data();
  self->device = spec->rank % count;
  *out = self;
  TRY_CUDA(cudaSetDevice(self->device), kEnvironment);
  TRY_CUDA(cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking), kEnvironment);
  TRY_CUDA(cudaEventCreate(&self->before), kEnvironment);
  TRY_CUDA(cudaEventCreate(&self->after), kEnvironment);
  return self->spec.export_handles != 0 ? self->load_driver(error) : 0;
}

int unique_id(sculler_backend*, void* id, sculler_backend_error* error) {
  static_assert(sizeof(ncclUniqueId) == 128, "the control message carries 128 bytes");
  ncclUniqueId unique{};
  TRY_NCCL(ncclGetUniqueId(&unique), kEnvironment);
  std::memcpy(id, &unique, sizeof unique);
  return 0;
}

int connect(sculler_backend* self, const void* id, sculler_backend_error* error) {
  if (self->spec.workload != 0) {
    if (int bad = self->make_communicator(id, error)) return bad;
  }
  for (int32_t s = 0; s < self->spec.n_sets; ++s) {
    for (int32_t b = 0; b < self->spec.n_buffers; ++b) {
      Buffer buffer;
      buffer.bytes = self->bytes[static_cast<size_t>(b)] + self->spec.shift;
      if (int bad = self->allocate(buffer, error)) return bad;
      self->buffers.push_back(std::move(buffer));
    }
  }
  if (self->comm != nullptr) {
    for (Buffer& b : self->buffers)
      if (int bad = self->register_window(b, error)) return bad;
  }
  self->publish();
  return 0;
}

int buffer_of(sculler_backend* self, int32_t set, int32_t index, uint64_t* address, uint64_t* bytes, int32_t* fd,
              sculler_backend_error* error) {
  Buffer& b = self->at(set, index);
  *address = reinterpret_cast<uint64_t>(b.ptr) + self->spec.shift;
  *bytes = b.bytes - self->spec.shift;
  *fd = -1;
  if (self->spec.export_handles == 0) return 0;
  Driver& d = self->driver;
  CUmemGenericAllocationHandle handle{};
  TRY_DRIVER(d.retain(&handle, b.ptr), kEnvironment);
  CUdeviceptr base = 0;
  size_t size = 0;
  TRY_DRIVER(d.address_range(&base, &size, reinterpret_cast<CUdeviceptr>(b.ptr)), kEnvironment);
  if (base != reinterpret_cast<CUdeviceptr>(b.ptr)) {
    return set_error(error, FaultCode::kEnvironment, 0, "export", "a buffer does not begin its allocation");
  }
  int descriptor = -1;
  TRY_DRIVER(d.export_handle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), kEnvironment);
  TRY_DRIVER(d.release(handle), kEnvironment);
  *bytes = size;   // the checker maps the whole allocation
  *fd = descriptor;
  return 0;
}

const sculler_rank* rank_of(sculler_backend* self) { return &self->rank; }
const sculler_pool* pool_of(sculler_backend* self) { return &self->pool; }

int flush(sculler_backend* self, sculler_backend_error* error) {
  if (self->scrub == nullptr) {
    int l2 = 0;
    TRY_CUDA(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, self->device), kEnvironment);
    self->scrub_bytes = 2 * static_cast<size_t>(l2);
    if (self->scrub_bytes == 0) return 0;
    TRY_CUDA(cudaMalloc(&self->scrub, self->scrub_bytes), kEnvironment);
  }
  TRY_CUDA(cudaCtxResetPersistingL2Cache(), kLaunch);
  TRY_CUDA(cudaMemsetAsync(self->scrub, 0, self->scrub_bytes, self->stream), kLaunch);
  return 0;
}

int take_over_gpu(sculler_backend* self, sculler_backend_error* error) {
  if (self->ranges == nullptr) {
    std::vector<Range> ranges;
    for (const Buffer& b : self->buffers) ranges.push_back({static_cast<const char*>(b.ptr), b.bytes});
    TRY_CUDA(cudaDeviceGetAttribute(&self->sms, cudaDevAttrMultiProcessorCount, self->device), kEnvironment);
    TRY_CUDA(cudaMalloc(&self->ranges, ranges.size() * sizeof(Range)), kEnvironment);
    TRY_CUDA(cudaMemcpy(self->ranges, ranges.data(), ranges.size() * sizeof(Range), cudaMemcpyHostToDevice), kEnvironment);
  }
  take_over<<<static_cast<unsigned>(self->sms), 256, 0, self->stream>>>(self->ranges, static_cast<int>(self->buffers.size()), nullptr);
  TRY_CUDA(cudaGetLastError(), kLaunch);
  return 0;
}

int barrier(sculler_backend* self, int32_t flush_l2, sculler_backend_error* error) {
  if (flush_l2 != 0) {
    if (int bad = flush(self, error)) return bad;
  }
  if (self->comm == nullptr) {
    // The checker fills a GPU's memory in a context of its own: the change to this one, 135 us on an H200, must not be
    // the first thing in the region.
    if (self->spec.export_handles != 0) {
      if (int bad = take_over_gpu(self, error)) return bad;
    }
  } else if (self->lsa_barrier) {
    opening_barrier<<<1, 32, 0, self->stream>>>(self->dev_comm);
    TRY_CUDA(cudaGetLastError(), kLaunch);
  } else {
    TRY_NCCL(ncclAllReduce(self->word, self->word, 1, ncclInt32, ncclSum, self->comm, self->stream), kLaunch);
  }
  TRY_CUDA(cudaDeviceSynchronize(), kLaunch);
  return 0;
}

int begin(sculler_backend* self, sculler_backend_error* error) {
  self->timing = false;
  TRY_CUDA(cudaEventRecord(self->before, self->stream), kLaunch);
  return 0;
}

int end(sculler_backend* self, sculler_backend_error* error) {
  // Launch errors of the candidate, whether it looked at them or not.
  TRY_CUDA(cudaGetLastError(), kLaunch);
  TRY_CUDA(cudaEventRecord(self->after, self->stream), kLaunch);
  self->timing = true;
  return 0;
}

int synchronize(sculler_backend* self, uint64_t* event_ns, sculler_backend_error* error) {
  *event_ns = 0;
  TRY_CUDA(cudaDeviceSynchronize(), kLaunch);
  TRY_CUDA(cudaGetLastError(), kLaunch);
  if (self->timing) {
    float ms = 0;
    TRY_CUDA(cudaEventElapsedTime(&ms, self->before, self->after), kLaunch);
    *event_ns = static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
    self->timing = false;
  }
  return 0;
}

int capture_begin(sculler_backend* self, sculler_backend_error* error) {
  if (self->graph != nullptr) {
    TRY_CUDA(cudaGraphExecDestroy(self->graph), kLaunch);
    self->graph = nullptr;
  }
  TRY_CUDA(cudaStreamBeginCapture(self->stream, cudaStreamCaptureModeThreadLocal), kLaunch);
  return 0;
}

int capture_end(sculler_backend* self, sculler_backend_error* error) {
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(self->stream, &graph);
  (void)cudaGetLastError();   // a call that cannot be captured is no failure of the candidate
  if (ended != cudaSuccess || graph == nullptr) return cuda_error(error, FaultCode::kLaunch, ended, "cudaStreamEndCapture");
  const cudaError_t made = cudaGraphInstantiate(&self->graph, graph, 0);
  (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  if (made != cudaSuccess) {
    self->graph = nullptr;
    return cuda_error(error, FaultCode::kLaunch, made, "cudaGraphInstantiate");
  }
  TRY_CUDA(cudaDeviceSynchronize(), kLaunch);
  return 0;
}

int replay(sculler_backend* self, sculler_backend_error* error) {
  TRY_CUDA(cudaGraphLaunch(self->graph, self->stream), kLaunch);
  return 0;
}

// The process ends right after: the driver takes back what it gave.
void close_backend(sculler_backend*) {}

const sculler_backend_api kApi = {kBackendVersion, 0,       open_backend, unique_id, connect,     buffer_of,    rank_of,
                                  pool_of,         barrier, begin,        end,       synchronize, close_backend,
                                  capture_begin,   capture_end, replay};

}  // namespace

extern "C" __attribute__((visibility("default"))) const sculler_backend_api* sculler_rank_backend() { return &kApi; }
