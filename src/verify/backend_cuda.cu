// The checker's CUDA half, built by nvcc together with a task's expected.cu into verify_backend.so (src/verify/backend.h):
//   nvcc -std=c++17 -O3 -shared -cudart shared -gencode arch=compute_90a,code=[compute_90a,sm_90a]
//        -Xcompiler -fPIC,-fno-gnu-unique -I include -I src -I TASK src/verify/backend_cuda.cu TASK/expected.cu -o verify_backend.so
// It has a context of its own on each device and maps the ranks' memory by descriptor; nothing that it computes lies in
// memory that a rank can reach.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "sculler/fill.h"
#include "verify/backend.h"

// Of the task. inputs[r * n_inputs + j]; outputs[r * n_outputs + j], where a replicated output has one pointer for all
// ranks. Everything lies on the current device.
extern "C" int sculler_expected_launch(const sculler_problem* problem, int n_ranks, const void* const* inputs,
                                       void* const* outputs, void* stream);

namespace {

constexpr int kThreads = 256;
constexpr int kWhyBytes = 256;
enum Role : int32_t { kInput = 0, kOutput = 1, kInOut = 2, kScratch = 3 };   // sculler::verify::Role

unsigned blocks_of(uint64_t elements) {
  return static_cast<unsigned>(std::min<uint64_t>((elements + kThreads - 1) / kThreads, 132 * 16));
}

__device__ uint64_t first_index() { return blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; }
__device__ uint64_t stride() { return static_cast<uint64_t>(gridDim.x) * blockDim.x; }

__global__ void fill_kernel(void* data, uint64_t n, uint64_t key, uint64_t row, uint32_t family, uint32_t dtype) {
  for (uint64_t i = first_index(); i < n; i += stride())
    sculler_store_bits(data, i, dtype, sculler_element(key, i, row, family, dtype));
}

__global__ void poison_kernel(void* data, uint64_t n, uint32_t dtype) {
  const uint32_t bits = sculler_poison(dtype);
  for (uint64_t i = first_index(); i < n; i += stride()) sculler_store_bits(data, i, dtype, bits);
}

struct Sums {
  double error_squares, expected_squares;
  unsigned long long max_bits, peak_bits;   // of non-negative doubles: ordered as integers
  unsigned long long bad, not_finite, unwritten, first_bad, first_unwritten, changed;
};

__device__ double warp_sum(double value) {
  for (int k = 16; k > 0; k /= 2) value += __shfl_down_sync(0xffffffffu, value, k);
  return value;
}
__device__ double warp_max(double value) {
  for (int k = 16; k > 0; k /= 2) value = fmax(value, __shfl_down_sync(0xffffffffu, value, k));
  return value;
}
__device__ unsigned long long as_bits(double value) { return static_cast<unsigned long long>(__double_as_longlong(value)); }

__global__ void summarize_kernel(const void* expected, uint64_t n, uint32_t dtype, Sums* sums) {
  double squares = 0, peak = 0;
  unsigned long long bad = 0;
  for (uint64_t i = first_index(); i < n; i += stride()) {
    const double e = sculler_bits_value(sculler_load_bits(expected, i, dtype), dtype);
    if (!(fabs(e) <= 1.7976931348623157e308)) ++bad;
    else {
      squares += e * e;
      peak = fmax(peak, fabs(e));
    }
  }
  squares = warp_sum(squares);
  peak = warp_max(peak);
  if (bad != 0) atomicAdd(&sums->not_finite, bad);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sums->expected_squares, squares);
    atomicMax(&sums->peak_bits, as_bits(peak));
  }
}

__global__ void compare_kernel(const void* data, const void* expected, uint64_t n, uint32_t dtype, double cap, Sums* sums) {
  const uint32_t poison = sculler_poison(dtype);
  double squares = 0, most = 0;
  for (uint64_t i = first_index(); i < n; i += stride()) {
    const uint32_t bits = sculler_load_bits(data, i, dtype);
    const double e = sculler_bits_value(sculler_load_bits(expected, i, dtype), dtype);
    const double error = fabs(sculler_bits_value(bits, dtype) - e);
    if (bits == poison) {
      atomicAdd(&sums->unwritten, 1ull);
      atomicMin(&sums->first_unwritten, static_cast<unsigned long long>(i));
    }
    if (!(error <= cap)) {   // NaN too
      atomicAdd(&sums->bad, 1ull);
      atomicMin(&sums->first_bad, static_cast<unsigned long long>(i));
    }
    if (!(error <= 1.7976931348623157e308)) atomicAdd(&sums->not_finite, 1ull);
    else {
      squares += error * error;
      most = fmax(most, error);
    }
  }
  squares = warp_sum(squares);
  most = warp_max(most);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sums->error_squares, squares);
    atomicMax(&sums->max_bits, as_bits(most));
  }
}

__global__ void changed_kernel(const void* data, uint64_t n, uint64_t key, uint64_t row, uint32_t family, uint32_t dtype,
                               Sums* sums) {
  unsigned long long changed = 0;
  for (uint64_t i = first_index(); i < n; i += stride())
    changed += sculler_load_bits(data, i, dtype) != sculler_element(key, i, row, family, dtype) ? 1 : 0;
  if (changed != 0) atomicAdd(&sums->changed, changed);
}

int say(char* why, const char* where, const char* what) {
  std::snprintf(why, kWhyBytes, "%s: %s", where, what);
  return 1;
}

}  // namespace

#define TRY_CUDA(call)                                                                \
  do {                                                                                \
    const cudaError_t code_ = (call);                                                 \
    if (code_ != cudaSuccess) return say(why, #call, cudaGetErrorName(code_));        \
  } while (0)
#define TRY_DRIVER(call)                                                              \
  do {                                                                                \
    const CUresult code_ = (call);                                                    \
    if (code_ != CUDA_SUCCESS) {                                                      \
      char text_[48];                                                                 \
      std::snprintf(text_, sizeof text_, "CUresult %d", static_cast<int>(code_));     \
      return say(why, #call, text_);                                                  \
    }                                                                                 \
  } while (0)

struct sculler_verify_backend {
  struct Driver {
    decltype(&cuMemImportFromShareableHandle) import_handle = nullptr;
    decltype(&cuMemAddressReserve) reserve = nullptr;
    decltype(&cuMemMap) map = nullptr;
    decltype(&cuMemSetAccess) set_access = nullptr;
    decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  };
  struct ExpectedBuffer {
    void* data = nullptr;
    double squares = 0, peak = 0;
  };
  // Of one content on one device: rank * n_outputs + output.
  using Expected = std::vector<ExpectedBuffer>;
  struct OnDevice {
    int id = 0;
    cudaStream_t stream = nullptr;
    std::vector<void*> inputs;          // rank * n_inputs + input, for expected outputs
    std::map<int32_t, Expected> expected;
    std::vector<int32_t> age;           // contents, oldest first
  };
  struct OnRank {
    size_t device = 0;                  // index in devices
    cudaStream_t stream = nullptr;
    Sums* sums = nullptr;               // device
    std::vector<void*> mapped;          // set * n_buffers + buffer
  };

  sculler_verify_spec spec{};
  sculler_problem problem{};
  std::vector<sculler_verify_buffer> buffers;
  std::vector<OnDevice> devices;
  std::vector<OnRank> ranks;
  Driver driver;

  static bool is_input(const sculler_verify_buffer& b) { return b.role == kInput || b.role == kInOut; }
  static bool is_output(const sculler_verify_buffer& b) { return b.role == kOutput || b.role == kInOut; }
  int count_inputs() const { return static_cast<int>(std::count_if(buffers.begin(), buffers.end(), is_input)); }
  int count_outputs() const { return static_cast<int>(std::count_if(buffers.begin(), buffers.end(), is_output)); }

  void*& slot(int32_t rank, int32_t set, int32_t buffer) {
    return ranks[static_cast<size_t>(rank)].mapped[static_cast<size_t>(set * spec.n_buffers + buffer)];
  }
  uint64_t key(int32_t rank, int32_t buffer, int32_t content) const {
    const bool replicated = buffers[static_cast<size_t>(buffer)].replicated != 0;
    return sculler_fill_key(spec.seed, static_cast<uint32_t>(content), replicated ? 0u : static_cast<uint32_t>(rank),
                            static_cast<uint32_t>(buffer));
  }
  // Makes the rank's device current.
  OnRank* enter(int32_t rank, char* why) {
    OnRank& r = ranks[static_cast<size_t>(rank)];
    if (cudaSetDevice(devices[r.device].id) != cudaSuccess) {
      say(why, "cudaSetDevice", "fails");
      return nullptr;
    }
    return &r;
  }

  template <class Function>
  int entry(const char* name, Function& into, char* why) {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult found{};
    TRY_CUDA(cudaGetDriverEntryPointByVersion(name, &pointer, 12000, cudaEnableDefault, &found));
    if (pointer == nullptr || found != cudaDriverEntryPointSuccess) return say(why, name, "the driver does not have it");
    into = reinterpret_cast<Function>(pointer);
    return 0;
  }

  int open(char* why) {
    int count = 0;
    TRY_CUDA(cudaGetDeviceCount(&count));
    for (int32_t r = 0; r < spec.n_ranks; ++r) {
      const int id = spec.devices != nullptr ? spec.devices[r] : r;
      if (id < 0 || id >= count) {
        char text[96];
        std::snprintf(text, sizeof text, "GPU %d is asked for and %d are there", id, count);
        return say(why, "devices", text);
      }
      size_t index = 0;
      while (index < devices.size() && devices[index].id != id) ++index;
      TRY_CUDA(cudaSetDevice(id));
      if (index == devices.size()) {
        OnDevice d;
        d.id = id;
        TRY_CUDA(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking));
        devices.push_back(std::move(d));
      }
      OnRank rank;
      rank.device = index;
      TRY_CUDA(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
      TRY_CUDA(cudaMalloc(reinterpret_cast<void**>(&rank.sums), sizeof(Sums)));
      rank.mapped.assign(static_cast<size_t>(spec.n_sets * spec.n_buffers), nullptr);
      ranks.push_back(std::move(rank));
    }
    return entry("cuMemImportFromShareableHandle", driver.import_handle, why) ||
           entry("cuMemAddressReserve", driver.reserve, why) || entry("cuMemMap", driver.map, why) ||
           entry("cuMemSetAccess", driver.set_access, why) ||
           entry("cuMemGetAllocationGranularity", driver.granularity, why);
  }

  int adopt(int32_t rank, int32_t set, int32_t buffer, int32_t fd, uint64_t bytes, char* why) {
    OnRank* r = enter(rank, why);
    if (r == nullptr) return 1;
    if (slot(rank, set, buffer) != nullptr) return say(why, "adopt", "it was sent already");
    const int id = devices[r->device].id;
    CUmemGenericAllocationHandle handle{};
    TRY_DRIVER(driver.import_handle(&handle, reinterpret_cast<void*>(static_cast<uintptr_t>(fd)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = id;
    size_t unit = 0;
    TRY_DRIVER(driver.granularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    // The driver refuses to map more than the allocation has.
    const size_t size = (bytes + unit - 1) / unit * unit;
    CUdeviceptr address = 0;
    TRY_DRIVER(driver.reserve(&address, size, 0, 0, 0));
    TRY_DRIVER(driver.map(address, size, 0, handle, 0));
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    TRY_DRIVER(driver.set_access(address, size, &access, 1));
    slot(rank, set, buffer) = reinterpret_cast<void*>(address + spec.shift);
    return 0;
  }

  int fill_memory(void* data, const sculler_verify_buffer& b, uint64_t fill_key, cudaStream_t stream, char* why) {
    fill_kernel<<<blocks_of(b.elements), kThreads, 0, stream>>>(data, b.elements, fill_key, b.row_elements, b.family, b.dtype);
    TRY_CUDA(cudaGetLastError());
    return 0;
  }

  int read_sums(OnRank& r, Sums& into, char* why) {
    TRY_CUDA(cudaMemcpyAsync(&into, r.sums, sizeof into, cudaMemcpyDeviceToHost, r.stream));
    TRY_CUDA(cudaStreamSynchronize(r.stream));
    return 0;
  }
  int clear_sums(OnRank& r, char* why) {
    Sums zero{};
    zero.first_bad = zero.first_unwritten = UINT64_MAX;
    // Pageable source: the copy is staged before the call returns.
    TRY_CUDA(cudaMemcpyAsync(r.sums, &zero, sizeof zero, cudaMemcpyHostToDevice, r.stream));
    return 0;
  }

  void drop_oldest(OnDevice& d) {
    if (d.age.empty()) return;
    auto it = d.expected.find(d.age.front());
    d.age.erase(d.age.begin());
    std::vector<void*> freed;
    for (ExpectedBuffer& e : it->second) {
      if (e.data == nullptr || std::find(freed.begin(), freed.end(), e.data) != freed.end()) continue;
      cudaFree(e.data);
      freed.push_back(e.data);
    }
    d.expected.erase(it);
  }

  int allocate(OnDevice& d, void** into, uint64_t bytes, char* why) {
    cudaError_t code = cudaMalloc(into, bytes);
    while (code == cudaErrorMemoryAllocation && !d.age.empty()) {
      (void)cudaGetLastError();
      drop_oldest(d);
      code = cudaMalloc(into, bytes);
    }
    TRY_CUDA(code);
    return 0;
  }

  int prepare_on(OnDevice& d, int32_t content, char* why) {
    if (d.expected.count(content) != 0) return 0;
    TRY_CUDA(cudaSetDevice(d.id));
    const auto n_in = static_cast<size_t>(count_inputs()), n_out = static_cast<size_t>(count_outputs());
    const auto n_ranks = static_cast<size_t>(spec.n_ranks);
    if (d.inputs.empty()) {
      for (size_t r = 0; r < n_ranks; ++r) {
        for (const sculler_verify_buffer& b : buffers) {
          if (!is_input(b)) continue;
          void* data = nullptr;
          const size_t j = d.inputs.size() % n_in;
          if (b.replicated != 0 && r > 0) data = d.inputs[j];
          else if (int bad = allocate(d, &data, b.bytes, why)) return bad;
          d.inputs.push_back(data);
        }
      }
    }
    size_t at = 0;
    for (size_t r = 0; r < n_ranks; ++r) {
      for (int32_t b = 0; b < spec.n_buffers; ++b) {
        const sculler_verify_buffer& buffer = buffers[static_cast<size_t>(b)];
        if (!is_input(buffer)) continue;
        void* data = d.inputs[at++];
        if (buffer.replicated != 0 && r > 0) continue;
        if (int bad = fill_memory(data, buffer, key(static_cast<int32_t>(r), b, content), d.stream, why)) return bad;
      }
    }
    Expected made(n_ranks * n_out);
    std::vector<void*> outputs;
    std::vector<const sculler_verify_buffer*> specs;
    for (const sculler_verify_buffer& b : buffers)
      if (is_output(b)) specs.push_back(&b);
    for (size_t i = 0; i < made.size(); ++i) {
      const sculler_verify_buffer& b = *specs[i % n_out];
      if (b.replicated != 0 && i >= n_out) made[i].data = made[i % n_out].data;
      else if (int bad = allocate(d, &made[i].data, b.bytes, why)) return bad;
      // What the task's kernel leaves out is poison, which no comparison accepts.
      if (b.replicated == 0 || i < n_out) {
        poison_kernel<<<blocks_of(b.elements), kThreads, 0, d.stream>>>(made[i].data, b.elements, b.dtype);
        TRY_CUDA(cudaGetLastError());
      }
      outputs.push_back(made[i].data);
    }
    std::vector<const void*> inputs(d.inputs.begin(), d.inputs.end());
    if (const int code = sculler_expected_launch(&problem, spec.n_ranks, inputs.data(), outputs.data(), d.stream)) {
      char text[48];
      std::snprintf(text, sizeof text, "returned %d", code);
      return say(why, "sculler_expected_launch", text);
    }
    TRY_CUDA(cudaGetLastError());
    Sums* sums = nullptr;
    TRY_CUDA(cudaMalloc(reinterpret_cast<void**>(&sums), sizeof(Sums)));
    for (size_t i = 0; i < made.size(); ++i) {
      const sculler_verify_buffer& b = *specs[i % n_out];
      if (b.replicated != 0 && i >= n_out) {
        made[i] = made[i % n_out];
        continue;
      }
      Sums host{};
      TRY_CUDA(cudaMemsetAsync(sums, 0, sizeof(Sums), d.stream));
      summarize_kernel<<<blocks_of(b.elements), kThreads, 0, d.stream>>>(made[i].data, b.elements, b.dtype, sums);
      TRY_CUDA(cudaGetLastError());
      TRY_CUDA(cudaMemcpyAsync(&host, sums, sizeof host, cudaMemcpyDeviceToHost, d.stream));
      TRY_CUDA(cudaStreamSynchronize(d.stream));
      if (host.not_finite != 0) return say(why, "expected.cu", "leaves elements out or makes values that are not finite");
      made[i].squares = host.expected_squares;
      std::memcpy(&made[i].peak, &host.peak_bits, sizeof made[i].peak);
    }
    TRY_CUDA(cudaFree(sums));
    d.expected.emplace(content, std::move(made));
    d.age.push_back(content);
    return 0;
  }

  const ExpectedBuffer* expected_of(int32_t rank, int32_t buffer, int32_t content, char* why) {
    OnDevice& d = devices[ranks[static_cast<size_t>(rank)].device];
    if (prepare_on(d, content, why) != 0) return nullptr;
    size_t j = 0;
    for (int32_t b = 0; b < buffer; ++b)
      if (is_output(buffers[static_cast<size_t>(b)])) ++j;
    return &d.expected[content][static_cast<size_t>(rank) * static_cast<size_t>(count_outputs()) + j];
  }
};

namespace {

using Backend = sculler_verify_backend;

int open_backend(const sculler_verify_spec* spec, Backend** out, char* why) {
  auto self = std::make_unique<Backend>();
  self->spec = *spec;
  self->problem = *spec->problem;
  self->buffers.assign(spec->buffers, spec->buffers + spec->n_buffers);
  if (self->count_outputs() == 0) return say(why, "buffers", "no output");
  if (int bad = self->open(why)) return bad;
  self->spec.devices = nullptr;
  self->spec.buffers = nullptr;
  self->spec.problem = nullptr;
  *out = self.release();
  return 0;
}

int adopt(Backend* self, int32_t rank, int32_t set, int32_t buffer, int32_t fd, uint64_t bytes, char* why) {
  return self->adopt(rank, set, buffer, fd, bytes, why);
}

int fill(Backend* self, int32_t rank, int32_t set, int32_t buffer, int32_t content, char* why) {
  Backend::OnRank* r = self->enter(rank, why);
  if (r == nullptr) return 1;
  return self->fill_memory(self->slot(rank, set, buffer), self->buffers[static_cast<size_t>(buffer)],
                           self->key(rank, buffer, content), r->stream, why);
}

int poison(Backend* self, int32_t rank, int32_t set, int32_t buffer, char* why) {
  Backend::OnRank* r = self->enter(rank, why);
  if (r == nullptr) return 1;
  const sculler_verify_buffer& b = self->buffers[static_cast<size_t>(buffer)];
  poison_kernel<<<blocks_of(b.elements), kThreads, 0, r->stream>>>(self->slot(rank, set, buffer), b.elements, b.dtype);
  TRY_CUDA(cudaGetLastError());
  return 0;
}

int settle(Backend* self, char* why) {
  for (int32_t r = 0; r < self->spec.n_ranks; ++r) {
    Backend::OnRank* rank = self->enter(r, why);
    if (rank == nullptr) return 1;
    TRY_CUDA(cudaStreamSynchronize(rank->stream));
  }
  return 0;
}

int prepare(Backend* self, int32_t content, char* why) {
  for (Backend::OnDevice& d : self->devices)
    if (int bad = self->prepare_on(d, content, why)) return bad;
  return 0;
}

int expected(Backend* self, int32_t rank, int32_t buffer, int32_t content, uint64_t first, uint64_t count, void* into,
             char* why) {
  if (self->enter(rank, why) == nullptr) return 1;
  const Backend::ExpectedBuffer* e = self->expected_of(rank, buffer, content, why);
  if (e == nullptr) return 1;
  const uint32_t size = sculler_dtype_bytes(self->buffers[static_cast<size_t>(buffer)].dtype);
  TRY_CUDA(cudaMemcpy(into, static_cast<const char*>(e->data) + first * size, count * size, cudaMemcpyDeviceToHost));
  return 0;
}

// `against` is null: what the task's kernel made.
int compare_with(Backend* self, int32_t rank, int32_t set, int32_t buffer, int32_t content, const void* against,
                 double max_abs, sculler_verify_sums* out, char* why) {
  const Backend::ExpectedBuffer* e = self->expected_of(rank, buffer, content, why);
  if (e == nullptr) return 1;
  Backend::OnRank* r = self->enter(rank, why);
  if (r == nullptr) return 1;
  const sculler_verify_buffer& b = self->buffers[static_cast<size_t>(buffer)];
  const double cap = std::max(max_abs, e->peak * sculler_peak_fraction(b.dtype));
  if (int bad = self->clear_sums(*r, why)) return bad;
  compare_kernel<<<blocks_of(b.elements), kThreads, 0, r->stream>>>(
      self->slot(rank, set, buffer), against != nullptr ? against : e->data, b.elements, b.dtype, cap, r->sums);
  TRY_CUDA(cudaGetLastError());
  Sums s{};
  if (int bad = self->read_sums(*r, s, why)) return bad;
  *out = {};
  out->error_squares = s.error_squares;
  out->expected_squares = e->squares;
  std::memcpy(&out->max_abs, &s.max_bits, sizeof out->max_abs);
  out->peak = e->peak;
  out->bad = s.bad;
  out->not_finite = s.not_finite;
  out->unwritten = s.unwritten;
  out->first_bad = s.bad != 0 ? static_cast<int64_t>(s.first_bad) : -1;
  out->first_unwritten = s.unwritten != 0 ? static_cast<int64_t>(s.first_unwritten) : -1;
  return 0;
}

int compare(Backend* self, int32_t rank, int32_t set, int32_t buffer, int32_t content, double max_abs,
            sculler_verify_sums* out, char* why) {
  return compare_with(self, rank, set, buffer, content, nullptr, max_abs, out, why);
}

int repeat(Backend* self, int32_t rank, int32_t set, int32_t other, int32_t buffer, int32_t content, double max_abs,
           sculler_verify_sums* out, char* why) {
  return compare_with(self, rank, set, buffer, content, self->slot(rank, other, buffer), max_abs, out, why);
}

int changed(Backend* self, int32_t rank, int32_t set, int32_t buffer, int32_t content, uint64_t* elements, char* why) {
  Backend::OnRank* r = self->enter(rank, why);
  if (r == nullptr) return 1;
  const sculler_verify_buffer& b = self->buffers[static_cast<size_t>(buffer)];
  if (int bad = self->clear_sums(*r, why)) return bad;
  changed_kernel<<<blocks_of(b.elements), kThreads, 0, r->stream>>>(self->slot(rank, set, buffer), b.elements,
                                                                   self->key(rank, buffer, content), b.row_elements,
                                                                   b.family, b.dtype, r->sums);
  TRY_CUDA(cudaGetLastError());
  Sums s{};
  if (int bad = self->read_sums(*r, s, why)) return bad;
  *elements = s.changed;
  return 0;
}

void close_backend(Backend* self) { delete self; }   // the process ends: the driver takes back the rest

const sculler_verify_api kApi = {kVerifyBackendVersion, open_backend, adopt,   fill,    poison,       settle,
                                 prepare,               expected,     compare, repeat,  changed,      close_backend};

}  // namespace

extern "C" __attribute__((visibility("default"))) const sculler_verify_api* sculler_verify_backend_api() { return &kApi; }
