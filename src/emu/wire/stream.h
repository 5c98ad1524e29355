// Messages: streams, events, launches, graphs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/wire/op.h"

namespace sculler::emu::wire {

// ---- streams and events. Streams 0 and 1 are the legacy default stream, 2 the calling thread's.
struct StreamCreate {
  static constexpr Op kOp = Op::kStreamCreate;
  using Reply = HandleReply;
  uint32_t flags = 0;  // cudaStreamCreateWithFlags
  int32_t priority = 0;
  template <class A>
  void visit(A& a) {
    a(flags, priority);
  }
};
using StreamDestroy = OnHandle<Op::kStreamDestroy>;
using StreamQuery = OnHandle<Op::kStreamQuery>;  // status 600: not ready
using StreamSynchronize = OnHandle<Op::kStreamSynchronize>;
using EventDestroy = OnHandle<Op::kEventDestroy>;
using EventQuery = OnHandle<Op::kEventQuery>;
using EventSynchronize = OnHandle<Op::kEventSynchronize>;
struct StreamWaitEvent {
  static constexpr Op kOp = Op::kStreamWaitEvent;
  using Reply = Empty;
  uint64_t stream = 0, event = 0;
  template <class A>
  void visit(A& a) {
    a(stream, event);
  }
};
struct DeviceSynchronize {
  static constexpr Op kOp = Op::kDeviceSynchronize;
  using Reply = Empty;
  template <class A>
  void visit(A&) {}
};
struct EventCreate {
  static constexpr Op kOp = Op::kEventCreate;
  using Reply = HandleReply;
  uint32_t flags = 0;  // cudaEventCreateWithFlags
  template <class A>
  void visit(A& a) {
    a(flags);
  }
};
struct EventRecord {
  static constexpr Op kOp = Op::kEventRecord;
  using Reply = Empty;
  uint64_t event = 0, stream = 0;
  template <class A>
  void visit(A& a) {
    a(event, stream);
  }
};
struct ElapsedReply {
  float milliseconds = 0;  // virtual time
  template <class A>
  void visit(A& a) {
    a(milliseconds);
  }
};
struct EventElapsed {
  static constexpr Op kOp = Op::kEventElapsed;
  using Reply = ElapsedReply;
  uint64_t begin = 0, end = 0;
  template <class A>
  void visit(A& a) {
    a(begin, end);
  }
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
  template <class A>
  void visit(A& a) {
    a(kernel, stream, grid, block, cluster, dynamic_shared, cooperative, params);
  }
};
struct HostFunction {
  static constexpr Op kOp = Op::kHostFunction;
  using Reply = Empty;
  uint64_t stream = 0, function = 0, argument = 0;  // addresses in the rank
  template <class A>
  void visit(A& a) {
    a(stream, function, argument);
  }
};
struct HostFunctionReply {
  uint64_t id = 0, function = 0, argument = 0;
  template <class A>
  void visit(A& a) {
    a(id, function, argument);
  }
};
// Sent by the library's helper thread: `done` ended (0: none yet); the reply names the next one
// that is due.
struct HostFunctionNext {
  static constexpr Op kOp = Op::kHostFunctionNext;
  using Reply = HostFunctionReply;
  uint64_t done = 0;
  template <class A>
  void visit(A& a) {
    a(done);
  }
};
struct WriteValue {
  static constexpr Op kOp = Op::kWriteValue;
  using Reply = Empty;
  uint64_t stream = 0, address = 0, value = 0;
  uint8_t bytes = 4;
  template <class A>
  void visit(A& a) {
    a(stream, address, value, bytes);
  }
};
struct WaitValue {
  static constexpr Op kOp = Op::kWaitValue;
  using Reply = Empty;
  enum class Compare : uint8_t {
    kGreaterEqual = 0,
    kEqual,
    kAnd,
    kNor
  };  // as CUstreamWaitValue_flags
  uint64_t stream = 0, address = 0, value = 0;
  uint8_t bytes = 4;
  Compare compare = Compare::kGreaterEqual;
  template <class A>
  void visit(A& a) {
    a(stream, address, value, bytes, compare);
  }
};

// ---- graphs
struct CaptureBegin {
  static constexpr Op kOp = Op::kCaptureBegin;
  using Reply = Empty;
  uint64_t stream = 0;
  uint32_t mode = 0;
  template <class A>
  void visit(A& a) {
    a(stream, mode);
  }
};
struct CaptureEnd {
  static constexpr Op kOp = Op::kCaptureEnd;
  using Reply = HandleReply;
  uint64_t stream = 0;
  template <class A>
  void visit(A& a) {
    a(stream);
  }
};
struct StreamReply {
  uint32_t flags = 0;
  int32_t priority = 0;
  uint32_t capture_status = 0;  // cudaStreamCaptureStatus
  uint64_t capture_id = 0;
  template <class A>
  void visit(A& a) {
    a(flags, priority, capture_status, capture_id);
  }
};
struct StreamInfo {
  static constexpr Op kOp = Op::kStreamInfo;
  using Reply = StreamReply;
  uint64_t stream = 0;
  template <class A>
  void visit(A& a) {
    a(stream);
  }
};
struct GraphReply {
  uint64_t nodes = 0;
  template <class A>
  void visit(A& a) {
    a(nodes);
  }
};
struct GraphInfo {
  static constexpr Op kOp = Op::kGraphInfo;
  using Reply = GraphReply;
  uint64_t graph = 0;
  template <class A>
  void visit(A& a) {
    a(graph);
  }
};
using GraphDestroy = OnHandle<Op::kGraphDestroy>;
using GraphExecDestroy = OnHandle<Op::kGraphExecDestroy>;
struct GraphInstantiate {
  static constexpr Op kOp = Op::kGraphInstantiate;
  using Reply = HandleReply;
  uint64_t graph = 0;
  template <class A>
  void visit(A& a) {
    a(graph);
  }
};
struct GraphLaunch {
  static constexpr Op kOp = Op::kGraphLaunch;
  using Reply = Empty;
  uint64_t exec = 0, stream = 0;
  template <class A>
  void visit(A& a) {
    a(exec, stream);
  }
};

}  // namespace sculler::emu::wire
