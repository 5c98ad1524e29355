// Requests and answers of the device layer (machine.h): plain values, no layout of any real
// library.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emu/check/observer.h"
#include "emu/device/codes.h"
#include "emu/vm/engine.h"
#include "emu/vm/memory.h"

namespace sculler::emu {

// Who calls: a rank's host thread. Every rank has thread 0; others matter for the per-thread
// default stream, NCCL groups and capture.
struct Host {
  int rank = 0;
  uint32_t thread = 0;
  uint32_t site = 0;  // where the call stands in the rank's code: Machine::host_site; 0: unknown
};

// Handles are opaque 64-bit numbers that a drop-in casts to the library's pointer types. Never an
// address that is mapped.
using StreamHandle = uint64_t;
using EventHandle = uint64_t;
using GraphHandle = uint64_t;
using GraphExecHandle = uint64_t;
using CommHandle = uint64_t;
inline constexpr StreamHandle kStreamDefault =
    0;  // means kStreamLegacy (a client built for per-thread says 2)
inline constexpr StreamHandle kStreamLegacy = 1;     // cudaStreamLegacy
inline constexpr StreamHandle kStreamPerThread = 2;  // cudaStreamPerThread

using Ticket = uint64_t;

// The answer to a call. `error` is a code of the library that was called. Where `ticket` is not 0
// the call blocks: the rank's thread must be answered when Machine::take_completions() names the
// ticket, with the error (and data) given there.
struct Outcome {
  int error = 0;
  Ticket ticket = 0;
  [[nodiscard]] bool pending() const { return ticket != 0; }
};

// A blocked call that is over.
struct Completion {
  Ticket ticket = 0;
  Host host;
  int error = 0;
  std::vector<uint8_t> data;  // what a copy to pageable memory brings, rows of `width` bytes packed
};

// A function that rank `host.rank` must run now (cudaLaunchHostFunc, cudaStreamAddCallback): then
// call host_call_done.
struct HostCall {
  uint64_t id = 0;
  int rank = 0;
  uint64_t function = 0, argument = 0;  // addresses in the rank
};

struct StreamInfo {
  uint32_t flags = 0;
  int priority = 0;
  CaptureStatus capture = CaptureStatus::kNone;
  uint64_t capture_id = 0;
};

// cudaMemcpy*, 1D and 2D, all directions; pitch 0 means width. Each side is device, pinned or
// managed memory (an address that the machine knows), or pageable memory of the rank: then the
// bytes travel with the message.
struct CopyRequest {
  Address destination = 0, source = 0;
  uint64_t width = 0, height = 1;  // bytes, rows
  uint64_t destination_pitch = 0, source_pitch = 0;
  std::optional<std::vector<uint8_t>> host_source;  // pageable source: width * height bytes, packed
  bool host_destination = false;  // pageable destination: bytes come in Completion::data
  StreamHandle stream = 0;
  bool blocking = false;  // cudaMemcpy (not Async)
};

struct MemsetRequest {
  Address destination = 0;
  uint64_t width = 0, height = 1, pitch = 0;  // width in bytes
  uint32_t value = 0;
  uint8_t value_bytes = 1;  // 1, 2, 4 (cuMemsetD8, D16, D32)
  StreamHandle stream = 0;
  bool blocking = false;
};

struct KernelLaunch {
  KernelId kernel = 0;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  std::vector<uint8_t> params;
  StreamHandle stream = 0;
};

struct StreamValue {  // cuStreamWriteValue32/64, cuStreamWaitValue32/64
  Address address = 0;
  uint64_t value = 0;
  uint8_t bytes = 4;  // 4 or 8
  WaitCondition condition = WaitCondition::kGeq;
  StreamHandle stream = 0;
};

struct DeviceProperties {
  std::string name = "NVIDIA H200";
  int major = 9, minor = 0;
  DeviceLimits limits{};
  uint64_t total_memory = uint64_t{141}
                          << 30;  // what is told; limits.memory_bytes is what can be allocated
  uint32_t l2_bytes = 60u << 20;
  uint32_t clock_khz = 1980000;
  uint32_t memory_clock_khz = 3201000, memory_bus_bits = 6144;
  uint32_t copy_engines = 3;
  bool multicast = false;
};

enum class Collective : uint8_t {
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSend,
  kRecv
};
[[nodiscard]] const char* name(Collective kind);  // "ncclAllGather"

// `count` is the argument of that name in nccl.h: elements sent by a rank (AllGather), received
// (ReduceScatter), all others per rank. kSend reads `send`, kRecv writes `recv`; `peer` is their
// partner, or the root.
struct CollectiveRequest {
  Collective kind = Collective::kAllGather;
  CommHandle comm = 0;
  Address send = 0, recv = 0;
  uint64_t count = 0;
  NcclType type = NcclType::kInt8;
  NcclOp op = NcclOp::kSum;
  int peer = 0;
  StreamHandle stream = 0;
  uint32_t site = 0;  // Host::site of this call, which a group submits later
};

struct CommInfo {
  int rank = 0, n_ranks = 0;  // within the communicator
  int lsa_size = 0;           // ranks that reach each other by loads and stores
  std::vector<int> world;     // world[i]: the job's rank that is comm rank i
  bool broken = false;  // aborted, or a member's context is broken: async error kNcclRemoteError
};

// A registered window as one rank's drop-in needs it to fill ncclWindow_vidmem, which lies at
// `handle` in that rank's device memory (`struct_bytes` long, zeroed): write it with
// Machine::write_internal. lsaFlatBase = flat_base, stride4G = stride >> 32; the copy of LSA rank i
// of the own node is flat_base + i * stride.
struct WindowInfo {
  Address handle = 0;   // ncclWindow_t
  Address pointer = 0;  // this rank's memory
  uint64_t bytes = 0;
  Address flat_base = 0;
  uint64_t stride = 0;  // multiple of 4 GiB
  int rank = 0, n_ranks = 0;
  int lsa_rank = 0;
  uint32_t id = 0;  // the same on all ranks; GIN knows the window by it
};

// What a device communicator asks of GIN.
struct GinNeeds {
  bool on = false;
  uint32_t signals = 0, counters = 0;  // the user's, from 0 on
  uint32_t barrier_signals = 0;
  bool operator==(const GinNeeds&) const = default;
};
// One rank's end of it, as its drop-in needs it to fill ncclDevComm and ncclGinProxyGpuCtx_t.
struct GinInfo {
  uint32_t contexts = 0, queue_size = 0;
  uint32_t signals = 0;         // a context, those of barriers and what lies between included
  uint32_t barrier_signal = 0;  // number of the first
  Address shadows = 0;          // contexts * signals words of 8 bytes
  struct Context {
    Address queues = 0;                  // queue_size descriptors a peer
    Address produced = 0, consumed = 0;  // an index of 4 bytes a peer
    Address counters = 0, signals = 0;   // words of 8 bytes
  };
  std::array<Context, 4> context{};
};

struct GemmRequest {                         // column-major as cublasGemmStridedBatchedEx
  uint8_t transpose_a = 0, transpose_b = 0;  // 0 N, 1 T (2 C = T for reals)
  int64_t m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  Address a = 0, b = 0, c = 0;
  CudaType a_type = CudaType::kR32F, b_type = CudaType::kR32F, c_type = CudaType::kR32F;
  bool compute_double = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements
  int64_t batch = 1;
  Address alpha_pointer = 0,
          beta_pointer = 0;  // CUBLAS_POINTER_MODE_DEVICE: read when the call starts
  StreamHandle stream = 0;
};

// What stopped a rank, or the job. A rank's context is broken from then on: its calls return
// `cuda_error`.
struct MachineFault {
  enum class Kind : uint8_t {
    kKernel,     // see fault
    kBadAccess,  // a copy, collective or library call touched what it may not
    kMismatch,   // NCCL calls of the ranks do not fit together
    kUnsupported,
    kStepLimit,
  };
  Kind kind = Kind::kKernel;
  int rank = -1;
  int cuda_error = kCudaLaunchFailure;
  Fault fault{};        // kKernel, kStepLimit, kUnsupported; its code also where a call did it
  std::string message;  // one sentence: what, where, what to do
};

struct DeadlockReport {
  struct Stream {
    uint32_t index = 0;  // 0 legacy default, 1.. in order of creation
    std::string head;    // "kernel ring, running", "ncclAllGather #3"
    std::string why;     // "waits for rank 1, whose stream 2 is empty"
    uint32_t queued = 0;
    CodeRef code{};  // the call that asked for the head
  };
  struct Rank {
    int rank = 0;
    std::vector<std::string> hosts;  // one a blocked thread: "cudaStreamSynchronize on stream 1"
    std::vector<CodeRef> host_code;  // beside hosts: the call
    std::vector<Stream> streams;     // with work only
  };
  std::vector<Rank> ranks;
  std::vector<WarpState> warps;
  std::string text;  // all of it, for people
};

}  // namespace sculler::emu
