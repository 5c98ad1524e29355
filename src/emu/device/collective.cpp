// NCCL operations: groups, matching between the ranks, and moving the data. An operation starts
// when it is at the head of its stream; a collective runs when the matching operations of all ranks
// have started, a send when its receive has.
#include <cstring>

#include "emu/device/state.h"

namespace sculler::emu {

namespace {

std::string show(const CollectiveRequest& request) {
  std::string text = std::string(name(request.kind)) + " of " + std::to_string(request.count) +
                     " " + name(request.type);
  const bool reduces = request.kind == Collective::kAllReduce ||
                       request.kind == Collective::kReduceScatter ||
                       request.kind == Collective::kReduce;
  constexpr const char* kOps[] = {"sum", "prod", "max", "min", "avg"};
  if (reduces) text += std::string(" (") + kOps[static_cast<size_t>(request.op)] + ")";
  if (request.kind == Collective::kBroadcast || request.kind == Collective::kReduce) {
    text += ", root " + std::to_string(request.peer);
  }
  if (request.kind == Collective::kSend) text += " to rank " + std::to_string(request.peer);
  if (request.kind == Collective::kRecv) text += " from rank " + std::to_string(request.peer);
  return text;
}

bool same(const CollectiveRequest& a, const CollectiveRequest& b) {
  const bool reduces = a.kind == Collective::kAllReduce || a.kind == Collective::kReduceScatter ||
                       a.kind == Collective::kReduce;
  const bool rooted = a.kind == Collective::kBroadcast || a.kind == Collective::kReduce;
  return a.kind == b.kind && a.count == b.count && a.type == b.type && (!reduces || a.op == b.op) &&
         (!rooted || a.peer == b.peer);
}

bool pairwise(const NcclTask& task) {
  return task.request.kind == Collective::kSend || task.request.kind == Collective::kRecv;
}

// Bytes a rank must move over the link, the larger of the two directions.
uint64_t link_bytes(const std::vector<CollectiveRequest>& requests, int rank, int n) {
  uint64_t in = 0;
  uint64_t out = 0;
  for (const CollectiveRequest& request : requests) {
    const uint64_t bytes = request.count * type_bytes(request.type);
    const auto peers = static_cast<uint64_t>(n - 1);
    switch (request.kind) {
      case Collective::kAllGather:
      case Collective::kReduceScatter: in += peers * bytes; break;
      case Collective::kAllReduce: in += 2 * peers * bytes / static_cast<uint64_t>(n); break;
      case Collective::kBroadcast: (request.peer == rank ? out : in) += n > 1 ? bytes : 0; break;
      case Collective::kReduce: (request.peer == rank ? in : out) += n > 1 ? bytes : 0; break;
      case Collective::kSend: out += request.peer == rank ? 0 : bytes; break;
      case Collective::kRecv: in += request.peer == rank ? 0 : bytes; break;
    }
  }
  return std::max(in, out);
}

// NCCL 2.28 has kernels for symmetric windows for these only; the others run as on ordinary
// buffers.
bool has_symmetric_kernel(Collective kind) {
  return kind == Collective::kAllGather || kind == Collective::kAllReduce ||
         kind == Collective::kReduceScatter;
}

bool registered(const RankState& rank, Address address) {
  return std::any_of(rank.windows.begin(), rank.windows.end(), [&](const auto& entry) {
    return address >= entry.second.pointer && address - entry.second.pointer < entry.second.bytes;
  });
}

}  // namespace

// ---- Groups

Outcome Machine::nccl_group_start(Host host) {
  ++impl_->rank(host).groups[host.thread].depth;
  return {};
}

Outcome Machine::nccl_group_end(Host host) {
  RankState& r = impl_->rank(host);
  GroupState& group = r.groups[host.thread];
  if (group.depth == 0)
    return {impl_->explain(r, kNcclInvalidUsage, "ncclGroupEnd without ncclGroupStart"), 0};
  if (--group.depth > 0) return {};
  const auto requests = std::exchange(group.requests, {});
  auto meetings = std::exchange(group.meetings, {});
  if (r.sticky != 0) return {kNcclUnhandledCudaError, 0};
  if (!requests.empty()) {
    const Outcome outcome = impl_->submit(host, requests);
    if (outcome.error != 0) return outcome;
  }
  int error = 0;
  bool all = true;
  for (const auto& [meeting, index] : meetings) {
    all = all && meeting->over;
    if (meeting->over && error == 0) error = meeting->error[static_cast<size_t>(index)];
  }
  if (all) return {error, 0};
  const Ticket ticket = impl_->add_ticket(host, "ncclGroupEnd");
  impl_->tickets[ticket].broken = kNcclUnhandledCudaError;
  impl_->tickets[ticket].meetings = std::move(meetings);
  return {0, ticket};
}

Outcome Machine::nccl_collective(Host host, const CollectiveRequest& request) {
  RankState& r = impl_->rank(host);
  const auto refuse = [&](int code, const std::string& why) {
    return Outcome{impl_->explain(r, code, std::string(name(request.kind)) + ": " + why), 0};
  };
  if (r.sticky != 0) return {kNcclUnhandledCudaError, 0};
  const auto member = impl_->find_comm(host, request.comm);
  if (member == nullptr)
    return refuse(kNcclInvalidArgument, "the communicator does not exist on this rank");
  if (type_bytes(request.type) == 0) return refuse(kNcclInvalidArgument, "unknown data type");
  if (static_cast<uint8_t>(request.op) > static_cast<uint8_t>(NcclOp::kAvg)) {
    return refuse(kNcclInvalidArgument, "unknown reduction");
  }
  const bool peered = request.kind == Collective::kBroadcast ||
                      request.kind == Collective::kReduce || request.kind == Collective::kSend ||
                      request.kind == Collective::kRecv;
  if (peered && (request.peer < 0 || request.peer >= member->info.n_ranks)) {
    return refuse(kNcclInvalidArgument,
                  "rank " + std::to_string(request.peer) + " is not in the communicator");
  }
  if (request.count > kRankStride)
    return refuse(kNcclInvalidArgument, "count is larger than the device's memory");
  if (impl_->find_stream(host, request.stream) == nullptr) {
    return refuse(kNcclInvalidArgument, "the stream does not exist on this rank");
  }
  if (request.count != 1) ++impl_->host_collectives;
  GroupState& group = r.groups[host.thread];
  if (group.depth > 0) {
    if (group.requests.size() >= (1u << 20))
      return refuse(kNcclInvalidUsage, "too many calls in one group");
    group.requests.push_back(request);
    return {};
  }
  return impl_->submit(host, {request});
}

uint64_t Machine::host_collectives() const { return impl_->host_collectives; }

Outcome Machine::Impl::submit(Host host, std::vector<CollectiveRequest> requests) {
  RankState& r = rank(host);
  // One operation a communicator, in the order of first use.
  std::vector<CommHandle> order;
  std::map<CommHandle, std::vector<CollectiveRequest>> by_comm;
  for (const CollectiveRequest& request : requests) {
    auto& list = by_comm[request.comm];
    if (list.empty()) order.push_back(request.comm);
    list.push_back(request);
  }
  for (const CommHandle handle : order) {
    const auto& list = by_comm[handle];
    const auto member = find_comm(host, handle);
    if (member == nullptr)
      return {explain(r, kNcclInvalidArgument, "a communicator was destroyed within its group"), 0};
    std::vector<StreamState*> streams;
    for (const CollectiveRequest& request : list) {
      StreamState* stream = find_stream(host, request.stream);
      if (stream == nullptr)
        return {explain(r, kNcclInvalidArgument, "a stream was destroyed within a group"), 0};
      if (std::find(streams.begin(), streams.end(), stream) == streams.end())
        streams.push_back(stream);
    }
    NcclWork work;
    work.member = member;
    bool symmetric = true;
    for (const CollectiveRequest& request : list) {
      work.tasks.push_back(NcclTask{request, 0, false});
      symmetric = symmetric && has_symmetric_kernel(request.kind) && registered(r, request.send) &&
                  registered(r, request.recv);
    }
    TraceOp record =
        named(OpKind::kCollective, list.size() == 1 ? name(list.front().kind) : "NCCL group");
    record.symmetric = symmetric;
    record.n_ranks = static_cast<int16_t>(member->info.n_ranks);
    record.bytes = link_bytes(list, member->info.rank, member->info.n_ranks);
    StreamState* first = streams.front();
    if (first->capture != nullptr) {
      std::vector<uint32_t> more;
      for (StreamState* stream : streams) {
        if (stream->capture != first->capture) {
          first->capture->invalidated = true;
          return {explain(r, kNcclInvalidUsage, "streams of one group are partly captured"), 0};
        }
        more.insert(more.end(), stream->capture_tail.begin(), stream->capture_tail.end());
      }
      if (capture_work(host, *first, std::move(work), record, more) != 0)
        return {kNcclUnhandledCudaError, 0};
      for (StreamState* stream : streams) stream->capture_tail = first->capture_tail;
      continue;
    }
    std::vector<TokenRef> dependencies;
    for (size_t i = 1; i < streams.size(); ++i) dependencies.push_back(mark(*streams[i]));
    Op* op = nullptr;
    const int code = enqueue(host, first, std::move(work), record, std::move(dependencies), &op);
    if (code != 0) return {kNcclUnhandledCudaError, 0};
    number(*op, std::get<NcclWork>(op->work));
    for (size_t i = 1; i < streams.size(); ++i) {
      TraceOp wait = named(OpKind::kEventWait, "NCCL group");
      wait.from_graph = true;
      (void)enqueue(host, streams[i], WaitWork{}, wait, {mark(*first)});
    }
  }
  return {};
}

void Machine::Impl::trace_calls(TraceOp& op, const NcclWork& work) {
  if (!config.keep_trace) return;
  const std::vector<int>& world = work.member->info.world;
  auto members = std::find(trace.members.begin(), trace.members.end(), world);
  if (members == trace.members.end()) members = trace.members.insert(members, world);
  op.first_call = static_cast<uint32_t>(trace.calls.size());
  op.n_calls = static_cast<uint32_t>(work.tasks.size());
  for (const NcclTask& task : work.tasks) {
    const CollectiveRequest& request = task.request;
    TraceCall call;
    call.kind = request.kind;
    const bool peered = pairwise(task) || request.kind == Collective::kBroadcast ||
                        request.kind == Collective::kReduce;
    if (peered) call.peer = static_cast<int16_t>(world.at(static_cast<size_t>(request.peer)));
    call.members = static_cast<uint32_t>(members - trace.members.begin());
    call.bytes = request.count * type_bytes(request.type);
    call.send = request.send;
    call.recv = request.recv;
    call.site = request.site;
    trace.calls.push_back(call);
  }
}

void Machine::Impl::number(Op& op, NcclWork& work) {
  Member& member = *work.member;
  for (NcclTask& task : work.tasks) {
    if (!pairwise(task)) task.sequence = member.next_collective++;
  }
  if (member.last != nullptr && member.last_stream != op.stream) op.after = member.last;
  member.last = mark(*op.stream);
  member.last_stream = op.stream;
}

// ---- Matching

void Machine::Impl::start_nccl(Op& op) {
  auto& work = std::get<NcclWork>(op.work);
  Communicator& comm = *work.member->comm;
  const int me = work.member->info.rank;
  const uint64_t id = op.id;
  const int rank_index = op.rank;
  StreamState* stream = op.stream;
  // Running a collective may end this operation, or break this rank.
  const auto alive = [&] { return !stream->queue.empty() && stream->queue.front()->id == id; };
  for (size_t i = 0; alive() && i < work.tasks.size(); ++i) {
    const CollectiveRequest& request = work.tasks[i].request;
    if (work.tasks[i].done) continue;
    if (pairwise(work.tasks[i])) {
      const bool sends = request.kind == Collective::kSend;
      const auto pair = sends ? std::pair(me, request.peer) : std::pair(request.peer, me);
      (sends ? comm.sends : comm.recvs)[pair].push_back({&op, i});
      try_pair(comm, pair);
    } else {
      const uint64_t sequence = work.tasks[i].sequence;
      auto& sides = comm.collectives[sequence];
      if (sides.empty()) sides.resize(comm.world.size());
      for (size_t other = 0; other < sides.size(); ++other) {
        if (sides[other].op == nullptr) continue;
        const auto& theirs =
            std::get<NcclWork>(sides[other].op->work).tasks[sides[other].task].request;
        if (same(theirs, request)) continue;
        MachineFault fault;
        fault.kind = MachineFault::Kind::kMismatch;
        fault.fault.code = host_code(request.site);
        fault.message = "collective call " + std::to_string(sequence + 1) + " of communicator " +
                        std::to_string(comm.id) + " does not match: rank " +
                        std::to_string(comm.world[other]) + " calls " + show(theirs) + ", rank " +
                        std::to_string(rank_index) + " calls " + show(request) +
                        "; all ranks must make the same calls in the same order";
        break_rank(rank_index, std::move(fault));
        return;
      }
      sides[static_cast<size_t>(me)] = {&op, i};
      try_collective(comm, sequence);
    }
  }
  if (alive() && work.tasks.empty()) finish(op);
}

void Machine::Impl::task_done(Op& op, size_t task) {
  auto& work = std::get<NcclWork>(op.work);
  work.tasks[task].done = true;
  if (std::all_of(work.tasks.begin(), work.tasks.end(), [](const NcclTask& t) { return t.done; }))
    finish(op);
}

namespace {

struct Part {
  CollectiveRequest request;
  int world = 0;
  ActorId actor = 0;
  std::vector<uint8_t> input;
};

// Bytes that a rank reads and writes.
std::pair<uint64_t, uint64_t> extents(const CollectiveRequest& request, int rank, uint64_t n) {
  const uint64_t bytes = request.count * type_bytes(request.type);
  switch (request.kind) {
    case Collective::kAllGather: return {bytes, bytes * n};
    case Collective::kReduceScatter: return {bytes * n, bytes};
    case Collective::kAllReduce: return {bytes, bytes};
    case Collective::kBroadcast: return {rank == request.peer ? bytes : 0, bytes};
    case Collective::kReduce: return {bytes, rank == request.peer ? bytes : 0};
    case Collective::kSend: return {bytes, 0};
    case Collective::kRecv: return {0, bytes};
  }
  return {0, 0};
}

// Input and output must be apart or in the place that NCCL's in-place rule names.
bool misplaced(const CollectiveRequest& request, int rank, uint64_t n) {
  const auto [reads, writes] = extents(request, rank, n);
  if (reads == 0 || writes == 0) return false;
  const bool apart = request.send + reads <= request.recv || request.recv + writes <= request.send;
  if (apart) return false;
  const uint64_t mine = static_cast<uint64_t>(rank) * request.count * type_bytes(request.type);
  if (request.kind == Collective::kAllGather) return request.send != request.recv + mine;
  if (request.kind == Collective::kReduceScatter) return request.recv != request.send + mine;
  return request.send != request.recv;
}

// What rank `me` receives.
std::vector<uint8_t> result(const std::vector<Part>& parts, size_t me) {
  const CollectiveRequest& request = parts[me].request;
  const uint64_t bytes = request.count * type_bytes(request.type);
  const auto n = static_cast<int>(parts.size());
  const auto reduced = [&](uint64_t offset) {
    std::vector<uint8_t> sum;
    for (size_t i = 0; i < parts.size(); ++i) {
      std::vector<uint8_t> one(parts[i].input.begin() + static_cast<ptrdiff_t>(offset),
                               parts[i].input.begin() + static_cast<ptrdiff_t>(offset + bytes));
      if (request.op == NcclOp::kAvg) average_before(request.type, one.data(), request.count, n);
      if (i == 0) sum = std::move(one);
      else reduce(request.type, request.op, sum.data(), one.data(), request.count);
    }
    if (request.op == NcclOp::kAvg) average_after(request.type, sum.data(), request.count, n);
    return sum;
  };
  switch (request.kind) {
    case Collective::kAllGather: {
      std::vector<uint8_t> all;
      for (const Part& part : parts) all.insert(all.end(), part.input.begin(), part.input.end());
      return all;
    }
    case Collective::kAllReduce: return reduced(0);
    case Collective::kReduceScatter: return reduced(me * bytes);
    case Collective::kBroadcast: return parts[static_cast<size_t>(request.peer)].input;
    case Collective::kReduce:
      return me == static_cast<size_t>(request.peer) ? reduced(0) : std::vector<uint8_t>{};
    default: return {};
  }
}

}  // namespace

void Machine::Impl::try_collective(Communicator& comm, uint64_t sequence) {
  const auto found = comm.collectives.find(sequence);
  const auto missing = [](const Communicator::Side& side) { return side.op == nullptr; };
  if (std::any_of(found->second.begin(), found->second.end(), missing)) return;
  const std::vector<Communicator::Side> sides = std::move(found->second);
  comm.collectives.erase(found);
  const size_t n = sides.size();
  std::vector<Part> parts(n);
  const auto give_up = [&](size_t i, MachineFault::Kind kind, std::string why) {
    MachineFault fault;
    fault.kind = kind;
    fault.cuda_error = kCudaIllegalAddress;
    fault.fault.code = host_code(parts[i].request.site);
    fault.message = std::move(why);
    break_rank(comm.world[i], std::move(fault));
  };
  double begin = 0;
  for (size_t i = 0; i < n; ++i) {
    Part& part = parts[i];
    part.request = std::get<NcclWork>(sides[i].op->work).tasks[sides[i].task].request;
    part.world = sides[i].op->rank;
    part.actor = sides[i].op->stream->actor;
    begin = std::max(begin, sides[i].op->start);
    if (misplaced(part.request, static_cast<int>(i), n)) {
      return give_up(
          i, MachineFault::Kind::kBadAccess,
          std::string(name(part.request.kind)) + " of rank " + std::to_string(part.world) +
              ": the send and receive buffers overlap and are not in place as NCCL wants it");
    }
    const uint64_t reads = extents(part.request, static_cast<int>(i), n).first;
    std::string error;
    if (!touch(part.world, part.actor, Access::kLoad, part.request.send, reads,
               name(part.request.kind), part.request.site, &error)) {
      return give_up(i, MachineFault::Kind::kBadAccess, error);
    }
    part.input.resize(reads);
    if (reads > 0) std::memcpy(part.input.data(), pointer(part.request.send), reads);
  }
  // Every output is after the inputs that it holds.
  const CollectiveRequest& request = parts[0].request;
  const auto root = static_cast<size_t>(request.peer);
  if (request.kind == Collective::kBroadcast) {
    for (size_t i = 0; i < n; ++i) edge(parts[root].actor, parts[i].actor);
  } else if (request.kind == Collective::kReduce) {
    for (size_t i = 0; i < n; ++i) edge(parts[i].actor, parts[root].actor);
  } else {
    for (size_t i = 1; i < n; ++i) edge(parts[i - 1].actor, parts[i].actor);
    for (size_t i = 0; i + 1 < n; ++i) edge(parts[n - 1].actor, parts[i].actor);
  }
  for (size_t i = 0; i < n; ++i) {
    const uint64_t writes = extents(parts[i].request, static_cast<int>(i), n).second;
    std::string error;
    if (!touch(parts[i].world, parts[i].actor, Access::kStore, parts[i].request.recv, writes,
               name(parts[i].request.kind), parts[i].request.site, &error)) {
      return give_up(i, MachineFault::Kind::kBadAccess, error);
    }
    const std::vector<uint8_t> output = result(parts, i);
    if (writes > 0) std::memcpy(pointer(parts[i].request.recv), output.data(), writes);
  }
  const uint32_t meeting = next_meeting++;
  for (const Communicator::Side& side : sides) {
    side.op->start = begin;
    if (side.op->trace != UINT32_MAX && side.op->trace >= trace.base) {
      trace.ops[side.op->trace - trace.base].meeting = meeting;
    }
  }
  for (const Communicator::Side& side : sides) task_done(*side.op, side.task);
}

void Machine::Impl::try_pair(Communicator& comm, std::pair<int, int> pair) {
  auto& sends = comm.sends[pair];
  auto& recvs = comm.recvs[pair];
  while (!sends.empty() && !recvs.empty()) {
    const Communicator::Side from = sends.front();
    const Communicator::Side to = recvs.front();
    sends.pop_front();
    recvs.pop_front();
    const CollectiveRequest send = std::get<NcclWork>(from.op->work).tasks[from.task].request;
    const CollectiveRequest recv = std::get<NcclWork>(to.op->work).tasks[to.task].request;
    const uint64_t bytes = send.count * type_bytes(send.type);
    MachineFault fault;
    if (bytes != recv.count * type_bytes(recv.type)) {
      fault.kind = MachineFault::Kind::kMismatch;
      fault.fault.code = host_code(recv.site);
      fault.message = "rank " + std::to_string(from.op->rank) + " calls " + show(send) +
                      ", but rank " + std::to_string(to.op->rank) + " calls " + show(recv) +
                      "; the counts must agree";
      break_rank(to.op->rank, std::move(fault));
      return;
    }
    fault.kind = MachineFault::Kind::kBadAccess;
    fault.cuda_error = kCudaIllegalAddress;
    if (!touch(from.op->rank, from.op->stream->actor, Access::kLoad, send.send, bytes, "ncclSend",
               send.site, &fault.message)) {
      fault.fault.code = host_code(send.site);
      break_rank(from.op->rank, std::move(fault));
      return;
    }
    edge(from.op->stream->actor, to.op->stream->actor);
    if (!touch(to.op->rank, to.op->stream->actor, Access::kStore, recv.recv, bytes, "ncclRecv",
               recv.site, &fault.message)) {
      fault.fault.code = host_code(recv.site);
      break_rank(to.op->rank, std::move(fault));
      return;
    }
    if (bytes > 0) std::memmove(pointer(recv.recv), pointer(send.send), bytes);
    const double begin = std::max(from.op->start, to.op->start);
    from.op->start = to.op->start = begin;
    if (from.op->trace != UINT32_MAX && from.op->trace >= trace.base &&
        to.op->trace >= trace.base) {
      TraceOp& a = trace.ops[from.op->trace - trace.base];
      TraceOp& b = trace.ops[to.op->trace - trace.base];
      if (a.meeting == UINT32_MAX && b.meeting == UINT32_MAX) a.meeting = next_meeting++;
      if (a.meeting == UINT32_MAX) a.meeting = b.meeting;
      if (b.meeting != a.meeting) {
        const uint32_t old = b.meeting;
        b.meeting = a.meeting;
        for (TraceOp& t : trace.ops) {
          if (old != UINT32_MAX && t.meeting == old) t.meeting = a.meeting;
        }
      }
    }
    const bool own = from.op == to.op;
    if (own) std::get<NcclWork>(from.op->work).tasks[from.task].done = true;
    else task_done(*from.op, from.task);
    task_done(*to.op, to.task);
  }
}

}  // namespace sculler::emu
