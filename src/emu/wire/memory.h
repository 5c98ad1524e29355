// Messages: connection, modules, memory and copies.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/wire/op.h"

namespace sculler::emu::wire {

// ---- connection
struct HelloReply {
  int32_t rank = 0, n_ranks = 1;
  bool multicast_allowed = false;
  uint64_t memory_bytes = 0;  // of the emulated heap
  uint64_t total_memory = 0;  // what cudaGetDeviceProperties tells
  int32_t major = 9, minor = 0;
  uint32_t l2_bytes = 0, clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0, copy_engines = 0;
  uint32_t sms = 0, shared_per_sm = 0, shared_per_block = 0, registers_per_sm = 0, warps_per_sm = 0,
           blocks_per_sm = 0;
  uint32_t shared_reserved = 0, threads_per_block = 0;
  std::string device_name;  // reported by cudaGetDeviceProperties
  template <class A>
  void visit(A& a) {
    a(rank, n_ranks, multicast_allowed, memory_bytes, total_memory, major, minor, l2_bytes,
      clock_khz, memory_clock_khz, memory_bus_bits, copy_engines, shared_reserved,
      threads_per_block, sms, shared_per_sm, shared_per_block, registers_per_sm, warps_per_sm,
      blocks_per_sm, device_name);
  }
};
// The reply carries the descriptor of the rank's host memory (pinned, managed).
struct Hello {
  static constexpr Op kOp = Op::kHello;
  using Reply = HelloReply;
  uint32_t version = kVersion;
  uint32_t pid = 0;
  template <class A>
  void visit(A& a) {
    a(version, pid);
  }
};
// Carries one end of a socket pair: a connection of its own for another host thread.
struct Channel {
  static constexpr Op kOp = Op::kChannel;
  using Reply = Empty;
  template <class A>
  void visit(A&) {}
};
struct ReportUnsupported {
  static constexpr Op kOp = Op::kReportUnsupported;
  using Reply = Empty;
  std::string what;  // the function's name
  std::string why;
  template <class A>
  void visit(A& a) {
    a(what, why);
  }
};
struct ReportHostAccess {
  static constexpr Op kOp = Op::kReportHostAccess;
  using Reply = Empty;
  uint64_t address = 0;
  bool is_write = false;
  std::string where;  // "candidate.so+0x1234"
  template <class A>
  void visit(A& a) {
    a(address, is_write, where);
  }
};

// ---- modules
struct ModuleReply {
  uint64_t module = 0;
  template <class A>
  void visit(A& a) {
    a(module);
  }
};
struct LoadModule {
  static constexpr Op kOp = Op::kLoadModule;
  using Reply = ModuleReply;
  std::string ptx;
  template <class A>
  void visit(A& a) {
    a(ptx);
  }
};
struct UnloadModule {
  static constexpr Op kOp = Op::kUnloadModule;
  using Reply = Empty;
  uint64_t module = 0;
  template <class A>
  void visit(A& a) {
    a(module);
  }
};
struct KernelReply {
  uint64_t kernel = 0;
  std::vector<uint32_t> param_offsets, param_bytes;
  uint32_t all_param_bytes = 0, registers = 0, static_shared = 0, local_bytes = 0, max_threads = 0;
  std::array<uint32_t, 3> cluster{};
  template <class A>
  void visit(A& a) {
    a(kernel, param_offsets, param_bytes, all_param_bytes, registers, static_shared, local_bytes,
      max_threads, cluster);
  }
};
struct GetKernel {
  static constexpr Op kOp = Op::kGetKernel;
  using Reply = KernelReply;
  uint64_t module = 0;
  std::string name;
  template <class A>
  void visit(A& a) {
    a(module, name);
  }
};
struct GlobalReply {
  uint64_t address = 0, bytes = 0;
  template <class A>
  void visit(A& a) {
    a(address, bytes);
  }
};
struct GetGlobal {
  static constexpr Op kOp = Op::kGetGlobal;
  using Reply = GlobalReply;
  uint64_t module = 0;
  std::string name;
  template <class A>
  void visit(A& a) {
    a(module, name);
  }
};
struct OccupancyReply {
  uint32_t blocks_per_sm = 0;
  template <class A>
  void visit(A& a) {
    a(blocks_per_sm);
  }
};
struct Occupancy {
  static constexpr Op kOp = Op::kOccupancy;
  using Reply = OccupancyReply;
  uint64_t kernel = 0;
  uint32_t threads = 0, dynamic_shared = 0;
  template <class A>
  void visit(A& a) {
    a(kernel, threads, dynamic_shared);
  }
};

// ---- memory
enum class MemoryKind : uint8_t { kDevice = 0, kNccl, kPinned, kManaged, kNone };
struct Allocate {
  static constexpr Op kOp = Op::kAllocate;
  using Reply = AddressReply;
  MemoryKind kind = MemoryKind::kDevice;
  uint64_t bytes = 0;
  bool ordered = false;  // cudaMallocAsync: in order of `stream`
  uint64_t stream = 0;
  template <class A>
  void visit(A& a) {
    a(kind, bytes, ordered, stream);
  }
};
struct Free {
  static constexpr Op kOp = Op::kFree;
  using Reply = Empty;
  uint64_t address = 0;
  bool ordered = false;
  uint64_t stream = 0;
  template <class A>
  void visit(A& a) {
    a(address, ordered, stream);
  }
};
struct PointerReply {
  MemoryKind kind = MemoryKind::kNone;
  int32_t rank = -1;
  uint64_t begin = 0, bytes = 0;
  template <class A>
  void visit(A& a) {
    a(kind, rank, begin, bytes);
  }
};
struct PointerInfo {
  static constexpr Op kOp = Op::kPointerInfo;
  using Reply = PointerReply;
  uint64_t address = 0;
  template <class A>
  void visit(A& a) {
    a(address);
  }
};
struct MemoryReply {
  uint64_t free_bytes = 0, total_bytes = 0;
  template <class A>
  void visit(A& a) {
    a(free_bytes, total_bytes);
  }
};
struct MemoryInfo {
  static constexpr Op kOp = Op::kMemoryInfo;
  using Reply = MemoryReply;
  template <class A>
  void visit(A&) {}
};

// ---- copies. `height` rows of `width` bytes; pitches in bytes. All addresses are in the VM's
// ranges.
struct Copy {
  static constexpr Op kOp = Op::kCopy;
  using Reply = Empty;
  uint64_t to = 0, to_pitch = 0, from = 0, from_pitch = 0, width = 0, height = 1;
  uint64_t stream = 0;
  bool blocking = false;  // the host waits for its end
  template <class A>
  void visit(A& a) {
    a(to, to_pitch, from, from_pitch, width, height, stream, blocking);
  }
};
// Pageable host memory to the device: the bytes, rows of `width` packed, are taken when the call is
// made.
struct CopyIn {
  static constexpr Op kOp = Op::kCopyIn;
  using Reply = Empty;
  uint64_t to = 0, to_pitch = 0, width = 0, height = 1, stream = 0;
  bool blocking = false;
  std::vector<uint8_t> data;  // width * height, at most kChunkBytes
  template <class A>
  void visit(A& a) {
    a(to, to_pitch, width, height, stream, blocking, data);
  }
};
struct BytesReply {
  std::vector<uint8_t> data;
  template <class A>
  void visit(A& a) {
    a(data);
  }
};
// Device to pageable host memory: waits for the stream.
struct CopyOut {
  static constexpr Op kOp = Op::kCopyOut;
  using Reply = BytesReply;
  uint64_t from = 0, from_pitch = 0, width = 0, height = 1,
           stream = 0;  // width * height at most kChunkBytes
  template <class A>
  void visit(A& a) {
    a(from, from_pitch, width, height, stream);
  }
};
struct Fill {
  static constexpr Op kOp = Op::kFill;
  using Reply = Empty;
  uint64_t to = 0, pitch = 0, width = 0, height = 1;  // width in bytes
  uint32_t value = 0;
  uint8_t element_bytes = 1;  // 1, 2 or 4
  uint64_t stream = 0;
  bool blocking = false;
  template <class A>
  void visit(A& a) {
    a(to, pitch, width, height, value, element_bytes, stream, blocking);
  }
};

}  // namespace sculler::emu::wire
