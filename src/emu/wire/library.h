// Messages: NCCL and cuBLAS.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/wire/op.h"

namespace sculler::emu::wire {

// ---- NCCL
template <Op kCode>
struct Plain {
  static constexpr Op kOp = kCode;
  using Reply = Empty;
  template <class A>
  void visit(A&) {}
};
using GroupStart = Plain<Op::kGroupStart>;
using GroupEnd = Plain<Op::kGroupEnd>;
struct UniqueIdReply {
  std::array<uint8_t, kUniqueIdBytes> id{};
  template <class A>
  void visit(A& a) {
    a(id);
  }
};
struct UniqueId {
  static constexpr Op kOp = Op::kUniqueId;
  using Reply = UniqueIdReply;
  template <class A>
  void visit(A&) {}
};
struct CommInit {
  static constexpr Op kOp = Op::kCommInit;
  using Reply = HandleReply;
  std::array<uint8_t, kUniqueIdBytes> id{};
  int32_t n_ranks = 0, rank = 0;
  template <class A>
  void visit(A& a) {
    a(id, n_ranks, rank);
  }
};
struct CommSplit {
  static constexpr Op kOp = Op::kCommSplit;
  using Reply = HandleReply;  // 0: this rank is left out
  uint64_t comm = 0;
  int32_t color = 0, key = 0;
  template <class A>
  void visit(A& a) {
    a(comm, color, key);
  }
};
using CommDestroy = OnHandle<Op::kCommDestroy>;
using CommAbort = OnHandle<Op::kCommAbort>;
struct CommReply {
  int32_t rank = 0, n_ranks = 0;
  int32_t lsa_size = 0;        // ranks that reach each other by loads and stores
  std::vector<int32_t> world;  // VM rank of each member
  bool broken = false;
  template <class A>
  void visit(A& a) {
    a(rank, n_ranks, lsa_size, world, broken);
  }
};
struct CommInfo {
  static constexpr Op kOp = Op::kCommInfo;
  using Reply = CommReply;
  uint64_t comm = 0;
  template <class A>
  void visit(A& a) {
    a(comm);
  }
};
enum class CollectiveKind : uint8_t {
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSend,
  kRecv
};
struct Collective {
  static constexpr Op kOp = Op::kCollective;
  using Reply = Empty;
  CollectiveKind kind = CollectiveKind::kAllGather;
  uint64_t comm = 0, send = 0, receive = 0, count = 0, stream = 0;
  uint32_t dtype = 0, reduction = 0;  // ncclDataType_t, ncclRedOp_t
  int32_t peer = 0;                   // or the root
  template <class A>
  void visit(A& a) {
    a(kind, comm, send, receive, count, stream, dtype, reduction, peer);
  }
};
struct NcclAllocate {
  static constexpr Op kOp = Op::kNcclAllocate;
  using Reply = AddressReply;
  uint64_t bytes = 0;
  template <class A>
  void visit(A& a) {
    a(bytes);
  }
};
using NcclFree = OnHandle<Op::kNcclFree>;
// Both make a window whose structure, `struct_bytes` long, lies at the address returned; the
// drop-in fills it through kWriteInternal with what kWindowInfo says, once the (collective) call or
// its group is over.
struct WindowRegister {
  static constexpr Op kOp = Op::kWindowRegister;
  using Reply = AddressReply;
  uint64_t comm = 0, address = 0, bytes = 0;
  uint32_t flags = 0, struct_bytes = 0;
  template <class A>
  void visit(A& a) {
    a(comm, address, bytes, flags, struct_bytes);
  }
};
struct DevCommCreate {
  static constexpr Op kOp = Op::kDevCommCreate;
  using Reply = AddressReply;
  uint64_t comm = 0, resource_bytes = 0;
  uint32_t struct_bytes = 0;
  bool gin = false;
  uint32_t gin_signals = 0, gin_counters = 0, gin_barriers = 0;
  template <class A>
  void visit(A& a) {
    a(comm, resource_bytes, struct_bytes, gin, gin_signals, gin_counters, gin_barriers);
  }
};
// This rank's end of the network of a device communicator, whose resource window is `window`.
struct GinReply {
  uint32_t queue_size = 0;
  uint32_t signals = 0, barrier_signal = 0;
  uint64_t shadows = 0;
  // A context each.
  std::vector<uint64_t> queues, produced, consumed, counters, signal_words;
  template <class A>
  void visit(A& a) {
    a(queue_size, signals, barrier_signal, shadows, queues, produced, consumed, counters,
      signal_words);
  }
};
struct GinInfo {
  static constexpr Op kOp = Op::kGinInfo;
  using Reply = GinReply;
  uint64_t window = 0;
  template <class A>
  void visit(A& a) {
    a(window);
  }
};
template <Op kCode>
struct OnWindow {
  static constexpr Op kOp = kCode;
  using Reply = Empty;
  uint64_t comm = 0, window = 0;
  template <class A>
  void visit(A& a) {
    a(comm, window);
  }
};
using WindowDeregister = OnWindow<Op::kWindowDeregister>;
using DevCommDestroy = OnWindow<Op::kDevCommDestroy>;
struct WindowReply {
  uint64_t pointer = 0, bytes = 0;
  uint64_t flat_base = 0, stride = 0;  // LSA rank i's copy of `pointer`: flat_base + i * stride
  int32_t rank = 0, n_ranks = 0, lsa_rank = 0;
  uint64_t id = 0;  // what GIN knows the window by
  template <class A>
  void visit(A& a) {
    a(pointer, bytes, flat_base, stride, rank, n_ranks, lsa_rank, id);
  }
};
struct WindowInfo {
  static constexpr Op kOp = Op::kWindowInfo;
  using Reply = WindowReply;
  uint64_t window = 0;
  template <class A>
  void visit(A& a) {
    a(window);
  }
};
// Library-internal device memory of this rank: never an operand of a race.
struct AllocateInternal {
  static constexpr Op kOp = Op::kAllocateInternal;
  using Reply = AddressReply;
  uint64_t bytes = 0;  // at most 1 MiB
  template <class A>
  void visit(A& a) {
    a(bytes);
  }
};
struct WriteInternal {
  static constexpr Op kOp = Op::kWriteInternal;
  using Reply = Empty;
  uint64_t address = 0;
  std::vector<uint8_t> data;
  template <class A>
  void visit(A& a) {
    a(address, data);
  }
};

// ---- cuBLAS: C = alpha op(A) op(B) + beta C, column-major, batched by strides. Types are
// cudaDataType numbers.
struct Gemm {
  static constexpr Op kOp = Op::kGemm;
  using Reply = Empty;
  uint64_t stream = 0, a = 0, b = 0, c = 0;
  uint8_t transpose_a = 0, transpose_b = 0;  // cublasOperation_t
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0, stride_a = 0, stride_b = 0, stride_c = 0,
          batch = 1;
  uint8_t type_a = 0, type_b = 0, type_c = 0;
  bool compute_double = false;
  double alpha = 1, beta = 0;
  uint64_t alpha_at = 0, beta_at = 0;  // not 0: read there when the call starts
  template <class A>
  void visit(A& v) {
    v(stream, a, b, c, transpose_a, transpose_b, m, n, k, lda, ldb, ldc, stride_a, stride_b,
      stride_c, batch, type_a, type_b, type_c, compute_double, alpha, beta, alpha_at, beta_at);
  }
};

}  // namespace sculler::emu::wire
