// Inside the device layer: operations, streams, events, graphs, communicators, and Machine's state.
// Not for others.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "emu/device/gin.h"
#include "emu/device/machine.h"
#include "emu/device/random.h"

namespace sculler::emu {

// Actors that stand for "what this stream (or host) had done at a moment". An actor may be used
// again for a later moment of the same owner only: the later clock covers the earlier one, so
// nothing is ordered that is not.
struct ActorPool {
  Observer* observer = nullptr;
  int rank = 0;
  std::vector<ActorId> free;
  ActorId take() {
    if (observer == nullptr) return 0;
    if (free.empty()) return observer->add_stream(rank);
    const ActorId actor = free.back();
    free.pop_back();
    return actor;
  }
};

// A moment in a stream or host thread that others can wait for.
struct Token {
  explicit Token(std::shared_ptr<ActorPool> from) : pool(std::move(from)), actor(pool->take()) {}
  ~Token() {
    if (pool->observer != nullptr) pool->free.push_back(actor);
  }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  std::shared_ptr<ActorPool> pool;
  ActorId actor;
  bool done = false;
  double time = 0;              // virtual seconds
  uint32_t trace = UINT32_MAX;  // the operation whose end it is
  uint32_t stream = 0;          // index, for reports
  int rank = 0;
};
using TokenRef = std::shared_ptr<Token>;

struct Communicator;
struct Member;

struct NcclTask {
  CollectiveRequest request;
  uint64_t sequence = 0;  // of collectives in the communicator, of a pair for send and receive
  bool done = false;
};

struct KernelWork {
  LaunchRequest request;
};
struct CopyWork {
  CopyRequest request;
};
struct MemsetWork {
  MemsetRequest request;
};
struct RecordWork {
  TokenRef token;
};
struct WaitWork {};  // its dependencies only
struct HostWork {
  uint64_t function = 0, argument = 0;
};
struct WriteValueWork {
  StreamValue value;
};
struct WaitValueWork {
  StreamValue value;
};
struct NcclWork {
  std::shared_ptr<Member> member;
  std::vector<NcclTask> tasks;
};
struct GemmWork {
  GemmRequest request;
};
struct FreeWork {
  Address address = 0;
};
using Work = std::variant<KernelWork, CopyWork, MemsetWork, RecordWork, WaitWork, HostWork,
                          WriteValueWork, WaitValueWork, NcclWork, GemmWork, FreeWork>;

struct StreamState;

struct Op {
  uint64_t id = 0;
  int rank = 0;
  StreamState* stream = nullptr;
  Work work;
  bool running = false;
  std::vector<TokenRef> dependencies;  // happen before
  TokenRef after;     // order without happens-before (operations of one communicator)
  TokenRef host;      // what the host had done when it asked
  TokenRef ends;      // set when done, where somebody may need it
  Ticket ticket = 0;  // completed with this operation
  uint32_t site = 0;  // the call that asked for it
  uint32_t trace = UINT32_MAX;
  double start = 0;
  std::vector<uint8_t> result;  // bytes for pageable memory
};

struct Capture;

struct StreamState {
  StreamHandle handle = 0;
  uint32_t index = 0;
  int rank = 0;
  uint32_t flags = 0;
  int priority = 0;
  bool destroyed = false, internal = false;
  ActorId actor = 0;
  std::shared_ptr<ActorPool> pool;
  std::deque<std::unique_ptr<Op>> queue;
  TokenRef tail;           // marks the last operation, null if one came after
  TokenRef joined_host;    // last host moment joined
  TokenRef joined_legacy;  // last moment of the legacy default stream that this stream waits for
  uint32_t last_trace = UINT32_MAX;
  uint64_t operations = 0;   // enqueued
  uint64_t legacy_seen = 0;  // how many of them the legacy default stream waits for
  double time = 0;
  uint64_t draw = 0;  // priority schedule
  std::shared_ptr<Capture> capture;
  std::vector<uint32_t> capture_tail;  // nodes
  [[nodiscard]] bool blocking() const { return (flags & kStreamNonBlocking) == 0; }
};

struct EventState {
  EventHandle handle = 0;
  uint32_t flags = 0;
  TokenRef token;  // last record, null: never recorded
  std::shared_ptr<Capture> capture;
  std::vector<uint32_t> capture_nodes;
};

struct GraphNode {
  Work work;
  uint32_t site = 0;  // the captured call
  TraceOp trace{};
  TraceGrid grid{};  // shape of a kernel
  std::vector<uint32_t> dependencies;
};
struct Graph {
  std::vector<GraphNode> nodes;
};

struct Capture {
  uint64_t id = 0;
  CaptureMode mode = CaptureMode::kGlobal;
  uint32_t thread = 0;
  StreamState* origin = nullptr;
  bool invalidated = false;
  std::set<StreamState*> streams;
  std::shared_ptr<Graph> graph;
};

struct GraphExec {
  std::shared_ptr<const Graph> graph;
  std::vector<uint32_t> branch;       // of a node
  std::vector<StreamState*> streams;  // of a branch
};

struct Meeting;

// A blocked host thread.
struct TicketState {
  Host host;
  std::vector<std::pair<std::shared_ptr<Meeting>, int>>
      meetings;                 // ncclGroupEnd, with the member's index
  std::vector<TokenRef> waits;  // empty: completed by name
  std::string what;             // "cudaStreamSynchronize on stream 1"
  int ok = 0;                   // code when all is well
  int broken = 0;  // 0: the sticky CUDA code; else this one when the rank breaks (NCCL, cuBLAS)
  std::function<int()> then;  // run at completion, gives the code
};

// Collective calls that block the host: communicator set-up, window registration.
struct Meeting {
  enum class Kind : uint8_t { kInit, kSplit, kWindow, kDevComm };
  struct Arrival {
    bool here = false;
    Host host;
    Ticket ticket = 0;  // 0: inside a group; the group's end waits for `over`
    std::shared_ptr<Member> member;
    Address pointer = 0, handle = 0;
    uint64_t bytes = 0, struct_bytes = 0;
    GinNeeds gin{};
    int color = 0, key = 0;
  };
  Kind kind = Kind::kInit;
  std::vector<Arrival> arrivals;
  uint32_t n_here = 0;
  bool over = false;
  std::vector<int> error;              // of each member, when over
  std::shared_ptr<Communicator> comm;  // kInit: the one that comes to be
};

struct Communicator {
  struct Side {  // one rank's part of a collective in progress
    Op* op = nullptr;
    size_t task = 0;
  };
  uint32_t id = 0;
  std::vector<int> world;
  std::vector<std::weak_ptr<Member>> members;
  std::map<uint64_t, std::vector<Side>> collectives;  // by sequence
  std::map<std::pair<int, int>, std::deque<Side>> sends,
      recvs;                                              // by (source, destination), comm ranks
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;  // by host sequence
};

// One rank's handle on a communicator.
struct Member {
  CommHandle handle = 0;
  std::shared_ptr<Communicator> comm;
  CommInfo info;
  uint64_t next_collective = 0, next_meeting = 0;
  TokenRef last;  // its last operation
  const StreamState* last_stream = nullptr;
  bool ready = false, destroyed = false;
};

struct GroupState {
  int depth = 0;
  std::vector<CollectiveRequest> requests;
  std::vector<std::pair<std::shared_ptr<Meeting>, int>> meetings;  // with the member's index
};

struct RankState {
  int rank = 0;
  bool gone = false;
  int sticky = 0;
  std::string message;
  ActorId host = 0;
  std::shared_ptr<ActorPool> host_pool;
  TokenRef snapshot;  // of the host now; null when it has learnt something since
  double time = 0;
  std::map<StreamHandle, std::unique_ptr<StreamState>> streams;
  StreamState* legacy = nullptr;
  std::map<uint32_t, StreamHandle> per_thread;
  std::map<EventHandle, std::unique_ptr<EventState>> events;
  std::map<GraphHandle, std::shared_ptr<Graph>> graphs;
  std::map<GraphExecHandle, std::unique_ptr<GraphExec>> execs;
  std::map<CommHandle, std::shared_ptr<Member>> comms;
  std::map<Address, WindowInfo> windows;
  std::map<uint32_t, GroupState> groups;  // by thread
  std::set<ModuleId> modules;
  std::set<KernelId> kernels;
  uint32_t next_stream = 0;
  uint32_t captures = 0;  // active
};

struct Machine::Impl {
  explicit Impl(const MachineConfig& c);

  MachineConfig config;
  Engine engine;
  Observer* observer;
  Random random;
  Gin gin;
  uint32_t gin_held = 0;  // slices of the engine since GIN last went on
  std::vector<RankState> ranks;
  std::map<Ticket, TicketState> tickets;
  std::vector<Completion> completions;
  std::vector<HostCall> host_calls;
  std::map<uint64_t, Op*> host_running;
  std::map<GridId, Op*> grids;
  std::vector<MachineFault> faults;
  bool new_fault = false;
  bool stalled = false;
  size_t last_started_rank = 0;
  Trace trace;
  std::map<Address, uint32_t>
      signals;  // small values written by streams, by the word: the operation that did it
  std::map<std::array<uint8_t, 128>, std::shared_ptr<Meeting>> inits;
  uint64_t next_handle = 0x5c00'0000'1000;
  Ticket next_ticket = 1;
  uint64_t next_op = 1, next_host_call = 1, next_capture = 1;
  std::map<Offsets, uint32_t> sites;
  uint32_t next_comm = 1, next_window = 1, next_meeting = 0;
  uint64_t unique_ids = 0;
  uint64_t host_collectives = 0;

  // streams.cpp
  RankState& rank(Host host) { return ranks.at(static_cast<size_t>(host.rank)); }
  uint64_t handle() { return next_handle += 16; }
  StreamState* find_stream(Host host, StreamHandle handle);
  StreamState* add_stream(RankState& rank, uint32_t flags, int priority);
  void edge(ActorId from, ActorId to) const {
    if (observer != nullptr && from != to) observer->edge(from, to);
  }
  TokenRef host_token(RankState& rank);
  void host_acquires(RankState& rank, const Token& token);
  // A moment after all that is in the stream now; `recorded` already where the stream is empty.
  TokenRef mark(StreamState& stream);
  int check_usable(RankState& rank, StreamState* stream);
  int explain(RankState& rank, int code, std::string why);
  // Puts work into a stream (or into the graph that the stream captures). A CUDA code; *out is null
  // when captured.
  int enqueue(Host host, StreamState* stream, Work work, TraceOp trace,
              std::vector<TokenRef> dependencies = {}, Op** out = nullptr);
  Op* push(StreamState& stream, Work work, std::vector<TokenRef> dependencies);
  Outcome wait_for(Host host, std::vector<TokenRef> tokens, std::string what,
                   std::function<int()> then = {});
  Ticket add_ticket(Host host, std::string what);
  void complete(Ticket ticket, int error, std::vector<uint8_t> data = {});
  void check_tickets(int rank);
  // For the trace: `op` signals at [begin, begin + bytes) where that is small; a wait there depends
  // on the last signal.
  void signal(const Op& op, Address begin, uint64_t bytes);
  void signalled(const Op& op, const StreamValue& value);
  uint32_t trace_op(TraceOp op, const std::vector<TokenRef>& dependencies);
  void trace_calls(TraceOp& op, const NcclWork& work);
  TraceOp named(OpKind kind, const std::string& what);

  // schedule.cpp
  Progress run(uint64_t budget);
  bool ready(const Op& op);
  void start(Op& op);
  void finish(Op& op);
  bool execute(Op& op, std::string* error);  // copies, memsets, values, gemm, free: at once
  void engine_step(uint64_t budget);
  bool gin_step(bool all);
  void break_rank(int rank, MachineFault fault);
  void drop(int rank, int code);
  double cost(const Op& op) const;
  bool condition(const StreamValue& value) const;

  // memory_ops.cpp
  bool touch(int rank, ActorId actor, Access access, Address begin, uint64_t bytes,
             std::string_view what, uint32_t site, std::string* error);
  bool run_copy(Op& op, CopyRequest& request, std::string* error);
  bool run_memset(const Op& op, const MemsetRequest& request, std::string* error);

  // gemm.cpp
  bool run_gemm(const Op& op, const GemmRequest& request, std::string* error);

  // graph.cpp
  int capture_work(Host host, StreamState& stream, Work work, const TraceOp& trace,
                   const std::vector<uint32_t>& more);

  // nccl.cpp
  std::shared_ptr<Member> find_comm(Host host, CommHandle handle);
  Outcome arrive(Host host, std::shared_ptr<Meeting> meeting, uint32_t index,
                 Meeting::Arrival arrival, const std::string& what,
                 const std::shared_ptr<Communicator>& comm);
  void hold(Meeting& meeting, const std::shared_ptr<Communicator>& comm);  // all are here
  int hold_windows(Meeting& meeting, Communicator& comm, std::string* why);
  int hold_gin(Meeting& meeting, const Communicator& comm, std::string* why);
  // Ranks of a communicator that share a node and follow each other, the same number everywhere.
  [[nodiscard]] int lsa_size(const std::vector<int>& world);
  Outcome submit(Host host, std::vector<CollectiveRequest> requests);

  void number(Op& op,
              NcclWork& work);  // sequence numbers and order within the communicator, at enqueue

  // collective.cpp
  void start_nccl(Op& op);
  void try_collective(Communicator& comm, uint64_t sequence);
  void try_pair(Communicator& comm, std::pair<int, int> pair);
  void task_done(Op& op, size_t task);
  std::string why_waiting(const Op& op) const;          // report.cpp
  std::string describe(const Op& op) const;             // report.cpp
  [[nodiscard]] static uint32_t site_of(const Op& op);  // report.cpp
};

[[nodiscard]] inline void* pointer(Address address) {
  return reinterpret_cast<void*>(
      static_cast<uintptr_t>(address));  // NOLINT: device memory is mapped at its address
}
[[nodiscard]] uint64_t type_bytes(NcclType type);
[[nodiscard]] const char* name(NcclType type);
// into[i] = op(into[i], from[i]) in the type's own arithmetic, one rounding an operation.
void reduce(NcclType type, NcclOp op, void* into, const void* from, uint64_t count);
// kAvg: before (floating point: multiply each input by 1/n) and after (integers: divide the sum by
// n).
void average_before(NcclType type, void* values, uint64_t count, int n);
void average_after(NcclType type, void* values, uint64_t count, int n);

}  // namespace sculler::emu
