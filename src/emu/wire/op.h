// The API calls of a rank as messages to the VM, and their replies. A rank's drop-in libraries send
// one request at a time a connection and wait for its reply. Everything that a rank sends is
// hostile: sizes are bounded here, meaning is checked by server/. Handles (streams, events,
// modules, kernels, graphs, communicators) are the VM's numbers.
//
// On the socket: Header, then `bytes` bytes of the request's fields; ReplyHeader, then the reply's
// fields. Sockets may be SOCK_STREAM or SOCK_SEQPACKET: pieces of at most kPieceBytes are sent, and
// receivers take any cut.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emu/wire/archive.h"

namespace sculler::emu::wire {

inline constexpr uint32_t kMagic = 0x314d5653;  // "SVM1"
inline constexpr uint32_t kVersion = 2;
inline constexpr uint32_t kPieceBytes = 64 << 10;
inline constexpr uint32_t kChunkBytes = 4 << 20;         // of a pageable copy
inline constexpr uint32_t kMaxMessageBytes = 32u << 20;  // a module's PTX is the largest
inline constexpr uint32_t kUniqueIdBytes = 128;

enum class Op : uint16_t {
  kHello = 1,
  kChannel,
  kReportUnsupported,
  kReportHostAccess,
  kLoadModule = 16,
  kUnloadModule,
  kGetKernel,
  kGetGlobal,
  kOccupancy,
  kAllocate = 32,
  kFree,
  kPointerInfo,
  kMemoryInfo,
  kCopy = 48,
  kCopyIn,
  kCopyOut,
  kFill,
  kStreamCreate = 64,
  kStreamDestroy,
  kStreamQuery,
  kStreamSynchronize,
  kStreamWaitEvent,
  kDeviceSynchronize,
  kEventCreate = 80,
  kEventDestroy,
  kEventRecord,
  kEventQuery,
  kEventSynchronize,
  kEventElapsed,
  kLaunch = 96,
  kHostFunction,
  kHostFunctionNext,
  kWriteValue,
  kWaitValue,
  kCaptureBegin = 112,
  kCaptureEnd,
  kStreamInfo,
  kGraphInfo,
  kGraphDestroy,
  kGraphInstantiate,
  kGraphLaunch,
  kGraphExecDestroy,
  kUniqueId = 144,
  kGroupStart,
  kGroupEnd,
  kCommInit,
  kCommSplit,
  kCommDestroy,
  kCommAbort,
  kCommInfo,
  kCollective,
  kNcclAllocate,
  kNcclFree,
  kWindowRegister,
  kWindowDeregister,
  kWindowInfo,
  kDevCommCreate,
  kDevCommDestroy,
  kGinInfo,
  kAllocateInternal,
  kWriteInternal,
  kGemm = 176,
};

// Where the candidate made the call: offsets of return addresses in its shared object, innermost
// first, 0 behind the last. What the rank says of itself: the VM keeps and prints numbers.
inline constexpr const char* kCandidateName = "candidate.so";
using Site = std::array<uint32_t, 6>;

struct Header {
  uint32_t magic = kMagic;
  Op op = Op::kHello;
  uint16_t reserved = 0;
  uint32_t bytes = 0;
  uint32_t sequence = 0;
  Site site{};
};
static_assert(sizeof(Header) == 40);

// `status` is 0 or a code of the library that was called: cudaError_t, ncclResult_t from kUniqueId
// on, cublasStatus_t for kGemm. A failure's only field is one sentence (FailureReply) that says
// why; it may be empty.
struct ReplyHeader {
  uint32_t magic = kMagic;
  int32_t status = 0;
  uint32_t bytes = 0;
  uint32_t sequence = 0;
};
static_assert(sizeof(ReplyHeader) == 16);

struct Empty {
  template <class A>
  void visit(A&) {}
};

struct FailureReply {
  std::string message;
  template <class A>
  void visit(A& a) {
    a(message);
  }
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  template <class A>
  void visit(A& a) {
    a(x, y, z);
  }
};
struct AddressReply {
  uint64_t address = 0;
  template <class A>
  void visit(A& a) {
    a(address);
  }
};
struct HandleReply {
  uint64_t handle = 0;
  template <class A>
  void visit(A& a) {
    a(handle);
  }
};
template <Op kCode>
struct OnHandle {
  static constexpr Op kOp = kCode;
  using Reply = Empty;
  uint64_t handle = 0;
  template <class A>
  void visit(A& a) {
    a(handle);
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
