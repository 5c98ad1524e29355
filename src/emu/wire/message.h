// The API calls of a rank as messages to the VM, and their replies. A rank's drop-in libraries send one request at a
// time a connection and wait for its reply. Everything that a rank sends is hostile: sizes are bounded here, meaning is
// checked by server/. Handles (streams, events, modules, kernels, graphs, communicators) are the VM's numbers.
//
// On the socket: Header, then `bytes` bytes of the request's fields; ReplyHeader, then the reply's fields. Sockets may be
// SOCK_STREAM or SOCK_SEQPACKET: pieces of at most kPieceBytes are sent, and receivers take any cut.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emu/wire/archive.h"

namespace sculler::emu::wire {

inline constexpr uint32_t kMagic = 0x314d5653;  // "SVM1"
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kPieceBytes = 64 << 10;
inline constexpr uint32_t kChunkBytes = 4 << 20;           // of a pageable copy
inline constexpr uint32_t kMaxMessageBytes = 64u << 20;    // a module's PTX is the largest
inline constexpr uint32_t kUniqueIdBytes = 128;

enum class Op : uint16_t {
  kHello = 1, kChannel, kReportUnsupported, kReportHostAccess,
  kLoadModule = 16, kUnloadModule, kGetKernel, kGetGlobal, kOccupancy,
  kAllocate = 32, kFree, kPointerInfo, kMemoryInfo,
  kCopy = 48, kCopyIn, kCopyOut, kFill,
  kStreamCreate = 64, kStreamDestroy, kStreamQuery, kStreamSynchronize, kStreamWaitEvent, kDeviceSynchronize,
  kEventCreate = 80, kEventDestroy, kEventRecord, kEventQuery, kEventSynchronize, kEventElapsed,
  kLaunch = 96, kHostFunction, kHostFunctionNext, kWriteValue, kWaitValue,
  kCaptureBegin = 112, kCaptureEnd, kStreamInfo, kGraphInfo, kGraphDestroy, kGraphInstantiate, kGraphLaunch,
  kGraphExecDestroy,
  kUniqueId = 144, kGroupStart, kGroupEnd, kCommInit, kCommSplit, kCommDestroy, kCommAbort, kCommInfo, kCollective,
  kNcclAllocate, kNcclFree, kWindowRegister, kWindowDeregister, kWindowInfo, kDevCommCreate, kDevCommDestroy,
  kAllocateInternal, kWriteInternal,
  kGemm = 176,
};

struct Header {
  uint32_t magic = kMagic;
  Op op = Op::kHello;
  uint16_t reserved = 0;
  uint32_t bytes = 0;
  uint32_t sequence = 0;
};
static_assert(sizeof(Header) == 16);

// `status` is 0 or a code of the library that was called: cudaError_t, ncclResult_t from kUniqueId on, cublasStatus_t for
// kGemm. A failure's only field is one sentence (FailureReply) that says why; it may be empty.
struct ReplyHeader {
  uint32_t magic = kMagic;
  int32_t status = 0;
  uint32_t bytes = 0;
  uint32_t sequence = 0;
};
static_assert(sizeof(ReplyHeader) == 16);

struct Empty {
  template <class A> void visit(A&) {}
};

struct FailureReply {
  std::string message;
  template <class A> void visit(A& a) { a(message); }
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  template <class A> void visit(A& a) { a(x, y, z); }
};

// ---- connection
struct HelloReply {
  int32_t rank = 0, n_ranks = 1;
  bool multicast_allowed = false;
  uint64_t memory_bytes = 0;           // of the emulated heap
  uint64_t total_memory = 0;           // what cudaGetDeviceProperties tells
  int32_t major = 9, minor = 0;
  uint32_t l2_bytes = 0, clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0, copy_engines = 0;
  uint32_t sms = 0, shared_per_sm = 0, shared_per_block = 0, registers_per_sm = 0, warps_per_sm = 0, blocks_per_sm = 0;
  uint32_t shared_reserved = 0, threads_per_block = 0;
  std::string device_name;             // reported by cudaGetDeviceProperties
  template <class A> void visit(A& a) {
    a(rank, n_ranks, multicast_allowed, memory_bytes, total_memory, major, minor, l2_bytes, clock_khz, memory_clock_khz,
      memory_bus_bits, copy_engines, shared_reserved, threads_per_block, sms, shared_per_sm, shared_per_block, registers_per_sm,
      warps_per_sm, blocks_per_sm, device_name);
  }
};
// The reply carries the descriptor of the rank's host memory (pinned, managed).
struct Hello {
  static constexpr Op kOp = Op::kHello;
  using Reply = HelloReply;
  uint32_t version = kVersion;
  uint32_t pid = 0;
  template <class A> void visit(A& a) { a(version, pid); }
};
// Carries one end of a socket pair: a connection of its own for another host thread.
struct Channel {
  static constexpr Op kOp = Op::kChannel;
  using Reply = Empty;
  template <class A> void visit(A&) {}
};
struct ReportUnsupported {
  static constexpr Op kOp = Op::kReportUnsupported;
  using Reply = Empty;
  std::string what;   // the function's name
  std::string why;
  template <class A> void visit(A& a) { a(what, why); }
};
struct ReportHostAccess {
  static constexpr Op kOp = Op::kReportHostAccess;
  using Reply = Empty;
  uint64_t address = 0;
  bool is_write = false;
  std::string where;  // "candidate.so+0x1234"
  template <class A> void visit(A& a) { a(address, is_write, where); }
};

// ---- modules
struct ModuleReply {
  uint64_t module = 0;
  template <class A> void visit(A& a) { a(module); }
};
struct LoadModule {
  static constexpr Op kOp = Op::kLoadModule;
  using Reply = ModuleReply;
  std::string ptx;
  template <class A> void visit(A& a) { a(ptx); }
};
struct UnloadModule {
  static constexpr Op kOp = Op::kUnloadModule;
  using Reply = Empty;
  uint64_t module = 0;
  template <class A> void visit(A& a) { a(module); }
};
struct KernelReply {
  uint64_t kernel = 0;
  std::vector<uint32_t> param_offsets, param_bytes;
  uint32_t all_param_bytes = 0, registers = 0, static_shared = 0, local_bytes = 0, max_threads = 0;
  std::array<uint32_t, 3> cluster{};
  template <class A> void visit(A& a) {
    a(kernel, param_offsets, param_bytes, all_param_bytes, registers, static_shared, local_bytes, max_threads, cluster);
  }
};
struct GetKernel {
  static constexpr Op kOp = Op::kGetKernel;
  using Reply = KernelReply;
  uint64_t module = 0;
  std::string name;
  template <class A> void visit(A& a) { a(module, name); }
};
struct GlobalReply {
  uint64_t address = 0, bytes = 0;
  template <class A> void visit(A& a) { a(address, bytes); }
};
struct GetGlobal {
  static constexpr Op kOp = Op::kGetGlobal;
  using Reply = GlobalReply;
  uint64_t module = 0;
  std::string name;
  template <class A> void visit(A& a) { a(module, name); }
};
struct OccupancyReply {
  uint32_t blocks_per_sm = 0;
  template <class A> void visit(A& a) { a(blocks_per_sm); }
};
struct Occupancy {
  static constexpr Op kOp = Op::kOccupancy;
  using Reply = OccupancyReply;
  uint64_t kernel = 0;
  uint32_t threads = 0, dynamic_shared = 0;
  template <class A> void visit(A& a) { a(kernel, threads, dynamic_shared); }
};

// ---- memory
enum class MemoryKind : uint8_t { kDevice = 0, kNccl, kPinned, kManaged, kNone };
struct AddressReply {
  uint64_t address = 0;
  template <class A> void visit(A& a) { a(address); }
};
struct Allocate {
  static constexpr Op kOp = Op::kAllocate;
  using Reply = AddressReply;
  MemoryKind kind = MemoryKind::kDevice;
  uint64_t bytes = 0;
  bool ordered = false;  // cudaMallocAsync: in order of `stream`
  uint64_t stream = 0;
  template <class A> void visit(A& a) { a(kind, bytes, ordered, stream); }
};
struct Free {
  static constexpr Op kOp = Op::kFree;
  using Reply = Empty;
  uint64_t address = 0;
  bool ordered = false;
  uint64_t stream = 0;
  template <class A> void visit(A& a) { a(address, ordered, stream); }
};
struct PointerReply {
  MemoryKind kind = MemoryKind::kNone;
  int32_t rank = -1;
  uint64_t begin = 0, bytes = 0;
  template <class A> void visit(A& a) { a(kind, rank, begin, bytes); }
};
struct PointerInfo {
  static constexpr Op kOp = Op::kPointerInfo;
  using Reply = PointerReply;
  uint64_t address = 0;
  template <class A> void visit(A& a) { a(address); }
};
struct MemoryReply {
  uint64_t free_bytes = 0, total_bytes = 0;
  template <class A> void visit(A& a) { a(free_bytes, total_bytes); }
};
struct MemoryInfo {
  static constexpr Op kOp = Op::kMemoryInfo;
  using Reply = MemoryReply;
  template <class A> void visit(A&) {}
};

// ---- copies. `height` rows of `width` bytes; pitches in bytes. All addresses are in the VM's ranges.
struct Copy {
  static constexpr Op kOp = Op::kCopy;
  using Reply = Empty;
  uint64_t to = 0, to_pitch = 0, from = 0, from_pitch = 0, width = 0, height = 1;
  uint64_t stream = 0;
  bool blocking = false;   // the host waits for its end
  template <class A> void visit(A& a) { a(to, to_pitch, from, from_pitch, width, height, stream, blocking); }
};
// Pageable host memory to the device: the bytes, rows of `width` packed, are taken when the call is made.
struct CopyIn {
  static constexpr Op kOp = Op::kCopyIn;
  using Reply = Empty;
  uint64_t to = 0, to_pitch = 0, width = 0, height = 1, stream = 0;
  bool blocking = false;
  std::vector<uint8_t> data;   // width * height, at most kChunkBytes
  template <class A> void visit(A& a) { a(to, to_pitch, width, height, stream, blocking, data); }
};
struct BytesReply {
  std::vector<uint8_t> data;
  template <class A> void visit(A& a) { a(data); }
};
// Device to pageable host memory: waits for the stream.
struct CopyOut {
  static constexpr Op kOp = Op::kCopyOut;
  using Reply = BytesReply;
  uint64_t from = 0, from_pitch = 0, width = 0, height = 1, stream = 0;   // width * height at most kChunkBytes
  template <class A> void visit(A& a) { a(from, from_pitch, width, height, stream); }
};
struct Fill {
  static constexpr Op kOp = Op::kFill;
  using Reply = Empty;
  uint64_t to = 0, pitch = 0, width = 0, height = 1;   // width in bytes
  uint32_t value = 0;
  uint8_t element_bytes = 1;                           // 1, 2 or 4
  uint64_t stream = 0;
  bool blocking = false;
  template <class A> void visit(A& a) { a(to, pitch, width, height, value, element_bytes, stream, blocking); }
};

// ---- streams and events. Streams 0 and 1 are the legacy default stream, 2 the calling thread's.
struct HandleReply {
  uint64_t handle = 0;
  template <class A> void visit(A& a) { a(handle); }
};
struct StreamCreate {
  static constexpr Op kOp = Op::kStreamCreate;
  using Reply = HandleReply;
  uint32_t flags = 0;   // cudaStreamCreateWithFlags
  int32_t priority = 0;
  template <class A> void visit(A& a) { a(flags, priority); }
};
template <Op kCode>
struct OnHandle {
  static constexpr Op kOp = kCode;
  using Reply = Empty;
  uint64_t handle = 0;
  template <class A> void visit(A& a) { a(handle); }
};
using StreamDestroy = OnHandle<Op::kStreamDestroy>;
using StreamQuery = OnHandle<Op::kStreamQuery>;              // status 600: not ready
using StreamSynchronize = OnHandle<Op::kStreamSynchronize>;
using EventDestroy = OnHandle<Op::kEventDestroy>;
using EventQuery = OnHandle<Op::kEventQuery>;
using EventSynchronize = OnHandle<Op::kEventSynchronize>;
struct StreamWaitEvent {
  static constexpr Op kOp = Op::kStreamWaitEvent;
  using Reply = Empty;
  uint64_t stream = 0, event = 0;
  template <class A> void visit(A& a) { a(stream, event); }
};
struct DeviceSynchronize {
  static constexpr Op kOp = Op::kDeviceSynchronize;
  using Reply = Empty;
  template <class A> void visit(A&) {}
};
struct EventCreate {
  static constexpr Op kOp = Op::kEventCreate;
  using Reply = HandleReply;
  uint32_t flags = 0;   // cudaEventCreateWithFlags
  template <class A> void visit(A& a) { a(flags); }
};
struct EventRecord {
  static constexpr Op kOp = Op::kEventRecord;
  using Reply = Empty;
  uint64_t event = 0, stream = 0;
  template <class A> void visit(A& a) { a(event, stream); }
};
struct ElapsedReply {
  float milliseconds = 0;   // virtual time
  template <class A> void visit(A& a) { a(milliseconds); }
};
struct EventElapsed {
  static constexpr Op kOp = Op::kEventElapsed;
  using Reply = ElapsedReply;
  uint64_t begin = 0, end = 0;
  template <class A> void visit(A& a) { a(begin, end); }
};

// ---- work
struct Launch {
  static constexpr Op kOp = Op::kLaunch;
  using Reply = Empty;
  uint64_t kernel = 0, stream = 0;
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  std::vector<uint8_t> params;
  template <class A> void visit(A& a) { a(kernel, stream, grid, block, cluster, dynamic_shared, cooperative, params); }
};
struct HostFunction {
  static constexpr Op kOp = Op::kHostFunction;
  using Reply = Empty;
  uint64_t stream = 0, function = 0, argument = 0;   // addresses in the rank
  template <class A> void visit(A& a) { a(stream, function, argument); }
};
struct HostFunctionReply {
  uint64_t id = 0, function = 0, argument = 0;
  template <class A> void visit(A& a) { a(id, function, argument); }
};
// Sent by the library's helper thread: `done` ended (0: none yet); the reply names the next one that is due.
struct HostFunctionNext {
  static constexpr Op kOp = Op::kHostFunctionNext;
  using Reply = HostFunctionReply;
  uint64_t done = 0;
  template <class A> void visit(A& a) { a(done); }
};
struct WriteValue {
  static constexpr Op kOp = Op::kWriteValue;
  using Reply = Empty;
  uint64_t stream = 0, address = 0, value = 0;
  uint8_t bytes = 4;
  template <class A> void visit(A& a) { a(stream, address, value, bytes); }
};
struct WaitValue {
  static constexpr Op kOp = Op::kWaitValue;
  using Reply = Empty;
  enum class Compare : uint8_t { kGreaterEqual = 0, kEqual, kAnd, kNor };  // as CUstreamWaitValue_flags
  uint64_t stream = 0, address = 0, value = 0;
  uint8_t bytes = 4;
  Compare compare = Compare::kGreaterEqual;
  template <class A> void visit(A& a) { a(stream, address, value, bytes, compare); }
};

// ---- graphs
struct CaptureBegin {
  static constexpr Op kOp = Op::kCaptureBegin;
  using Reply = Empty;
  uint64_t stream = 0;
  uint32_t mode = 0;
  template <class A> void visit(A& a) { a(stream, mode); }
};
struct CaptureEnd {
  static constexpr Op kOp = Op::kCaptureEnd;
  using Reply = HandleReply;
  uint64_t stream = 0;
  template <class A> void visit(A& a) { a(stream); }
};
struct StreamReply {
  uint32_t flags = 0;
  int32_t priority = 0;
  uint32_t capture_status = 0;   // cudaStreamCaptureStatus
  uint64_t capture_id = 0;
  template <class A> void visit(A& a) { a(flags, priority, capture_status, capture_id); }
};
struct StreamInfo {
  static constexpr Op kOp = Op::kStreamInfo;
  using Reply = StreamReply;
  uint64_t stream = 0;
  template <class A> void visit(A& a) { a(stream); }
};
struct GraphReply {
  uint64_t nodes = 0;
  template <class A> void visit(A& a) { a(nodes); }
};
struct GraphInfo {
  static constexpr Op kOp = Op::kGraphInfo;
  using Reply = GraphReply;
  uint64_t graph = 0;
  template <class A> void visit(A& a) { a(graph); }
};
using GraphDestroy = OnHandle<Op::kGraphDestroy>;
using GraphExecDestroy = OnHandle<Op::kGraphExecDestroy>;
struct GraphInstantiate {
  static constexpr Op kOp = Op::kGraphInstantiate;
  using Reply = HandleReply;
  uint64_t graph = 0;
  template <class A> void visit(A& a) { a(graph); }
};
struct GraphLaunch {
  static constexpr Op kOp = Op::kGraphLaunch;
  using Reply = Empty;
  uint64_t exec = 0, stream = 0;
  template <class A> void visit(A& a) { a(exec, stream); }
};

// ---- NCCL
template <Op kCode>
struct Plain {
  static constexpr Op kOp = kCode;
  using Reply = Empty;
  template <class A> void visit(A&) {}
};
using GroupStart = Plain<Op::kGroupStart>;
using GroupEnd = Plain<Op::kGroupEnd>;
struct UniqueIdReply {
  std::array<uint8_t, kUniqueIdBytes> id{};
  template <class A> void visit(A& a) { a(id); }
};
struct UniqueId {
  static constexpr Op kOp = Op::kUniqueId;
  using Reply = UniqueIdReply;
  template <class A> void visit(A&) {}
};
struct CommInit {
  static constexpr Op kOp = Op::kCommInit;
  using Reply = HandleReply;
  std::array<uint8_t, kUniqueIdBytes> id{};
  int32_t n_ranks = 0, rank = 0;
  template <class A> void visit(A& a) { a(id, n_ranks, rank); }
};
struct CommSplit {
  static constexpr Op kOp = Op::kCommSplit;
  using Reply = HandleReply;   // 0: this rank is left out
  uint64_t comm = 0;
  int32_t color = 0, key = 0;
  template <class A> void visit(A& a) { a(comm, color, key); }
};
using CommDestroy = OnHandle<Op::kCommDestroy>;
using CommAbort = OnHandle<Op::kCommAbort>;
struct CommReply {
  int32_t rank = 0, n_ranks = 0;
  std::vector<int32_t> world;   // VM rank of each member
  bool broken = false;
  template <class A> void visit(A& a) { a(rank, n_ranks, world, broken); }
};
struct CommInfo {
  static constexpr Op kOp = Op::kCommInfo;
  using Reply = CommReply;
  uint64_t comm = 0;
  template <class A> void visit(A& a) { a(comm); }
};
enum class CollectiveKind : uint8_t { kAllGather, kAllReduce, kReduceScatter, kBroadcast, kReduce, kSend, kRecv };
struct Collective {
  static constexpr Op kOp = Op::kCollective;
  using Reply = Empty;
  CollectiveKind kind = CollectiveKind::kAllGather;
  uint64_t comm = 0, send = 0, receive = 0, count = 0, stream = 0;
  uint32_t dtype = 0, reduction = 0;   // ncclDataType_t, ncclRedOp_t
  int32_t peer = 0;                    // or the root
  template <class A> void visit(A& a) { a(kind, comm, send, receive, count, stream, dtype, reduction, peer); }
};
struct NcclAllocate {
  static constexpr Op kOp = Op::kNcclAllocate;
  using Reply = AddressReply;
  uint64_t bytes = 0;
  template <class A> void visit(A& a) { a(bytes); }
};
using NcclFree = OnHandle<Op::kNcclFree>;
// Both make a window whose structure, `struct_bytes` long, lies at the address returned; the drop-in fills it through
// kWriteInternal with what kWindowInfo says, once the (collective) call or its group is over.
struct WindowRegister {
  static constexpr Op kOp = Op::kWindowRegister;
  using Reply = AddressReply;
  uint64_t comm = 0, address = 0, bytes = 0;
  uint32_t flags = 0, struct_bytes = 0;
  template <class A> void visit(A& a) { a(comm, address, bytes, flags, struct_bytes); }
};
struct DevCommCreate {
  static constexpr Op kOp = Op::kDevCommCreate;
  using Reply = AddressReply;
  uint64_t comm = 0, resource_bytes = 0;
  uint32_t struct_bytes = 0;
  template <class A> void visit(A& a) { a(comm, resource_bytes, struct_bytes); }
};
template <Op kCode>
struct OnWindow {
  static constexpr Op kOp = kCode;
  using Reply = Empty;
  uint64_t comm = 0, window = 0;
  template <class A> void visit(A& a) { a(comm, window); }
};
using WindowDeregister = OnWindow<Op::kWindowDeregister>;
using DevCommDestroy = OnWindow<Op::kDevCommDestroy>;
struct WindowReply {
  uint64_t pointer = 0, bytes = 0;
  uint64_t flat_base = 0, stride = 0;   // comm rank i's copy of `pointer`: flat_base + i * stride
  int32_t rank = 0, n_ranks = 0;
  template <class A> void visit(A& a) { a(pointer, bytes, flat_base, stride, rank, n_ranks); }
};
struct WindowInfo {
  static constexpr Op kOp = Op::kWindowInfo;
  using Reply = WindowReply;
  uint64_t window = 0;
  template <class A> void visit(A& a) { a(window); }
};
// Library-internal device memory of this rank: never an operand of a race.
struct AllocateInternal {
  static constexpr Op kOp = Op::kAllocateInternal;
  using Reply = AddressReply;
  uint64_t bytes = 0;   // at most 1 MiB
  template <class A> void visit(A& a) { a(bytes); }
};
struct WriteInternal {
  static constexpr Op kOp = Op::kWriteInternal;
  using Reply = Empty;
  uint64_t address = 0;
  std::vector<uint8_t> data;
  template <class A> void visit(A& a) { a(address, data); }
};

// ---- cuBLAS: C = alpha op(A) op(B) + beta C, column-major, batched by strides. Types are cudaDataType numbers.
struct Gemm {
  static constexpr Op kOp = Op::kGemm;
  using Reply = Empty;
  uint64_t stream = 0, a = 0, b = 0, c = 0;
  uint8_t transpose_a = 0, transpose_b = 0;   // cublasOperation_t
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0, stride_a = 0, stride_b = 0, stride_c = 0, batch = 1;
  uint8_t type_a = 0, type_b = 0, type_c = 0;
  bool compute_double = false;
  double alpha = 1, beta = 0;
  uint64_t alpha_at = 0, beta_at = 0;         // not 0: read there when the call starts
  template <class A> void visit(A& v) {
    v(stream, a, b, c, transpose_a, transpose_b, m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, batch, type_a,
      type_b, type_c, compute_double, alpha, beta, alpha_at, beta_at);
  }
};

template <class T>
std::vector<uint8_t> encode(const T& value) {
  std::vector<uint8_t> out;
  Writer writer(out);
  const_cast<T&>(value).visit(writer);
  return out;
}
template <class T>
bool decode(std::span<const uint8_t> bytes, T& value) {
  Reader reader(bytes);
  value.visit(reader);
  return reader.complete();
}

}  // namespace sculler::emu::wire
