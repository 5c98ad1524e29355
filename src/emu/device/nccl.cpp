// Communicators, groups, windows: the host's side of NCCL.
#include <cstring>
#include <numeric>

#include "emu/device/state.h"

namespace sculler::emu {

std::shared_ptr<Member> Machine::Impl::find_comm(Host host, CommHandle handle) {
  const RankState& r = rank(host);
  const auto found = r.comms.find(handle);
  return found == r.comms.end() || found->second->destroyed || !found->second->ready
             ? nullptr
             : found->second;
}

namespace {

const char* name(Meeting::Kind kind) {
  switch (kind) {
    case Meeting::Kind::kInit: return "ncclCommInitRank";
    case Meeting::Kind::kSplit: return "ncclCommSplit";
    case Meeting::Kind::kWindow: return "ncclCommWindowRegister";
    case Meeting::Kind::kDevComm: return "ncclDevCommCreate";
  }
  return "nccl";
}

constexpr const char* kNoComm = "the communicator does not exist on this rank or was destroyed";

}  // namespace

Outcome Machine::Impl::arrive(Host host, std::shared_ptr<Meeting> meeting, uint32_t index,
                              Meeting::Arrival arrival, const std::string& what,
                              const std::shared_ptr<Communicator>& comm) {
  Meeting::Arrival& place = meeting->arrivals[index];
  place = std::move(arrival);
  place.here = true;
  place.host = host;
  ++meeting->n_here;
  const bool all = meeting->n_here == meeting->arrivals.size();
  GroupState& group = rank(host).groups[host.thread];
  if (group.depth > 0) {
    group.meetings.emplace_back(meeting, static_cast<int>(index));
    if (all) hold(*meeting, comm);
    return {};
  }
  if (all) {
    hold(*meeting, comm);
    return {meeting->error[index], 0};
  }
  const Ticket ticket = add_ticket(host, what);
  tickets[ticket].broken = kNcclUnhandledCudaError;
  place.ticket = ticket;
  return {0, ticket};
}

void Machine::Impl::hold(Meeting& meeting, const std::shared_ptr<Communicator>& comm) {
  const size_t n = meeting.arrivals.size();
  meeting.error.assign(n, kNcclSuccess);
  std::string why;
  switch (meeting.kind) {
    case Meeting::Kind::kInit:
      for (Meeting::Arrival& a : meeting.arrivals) a.member->ready = true;
      break;
    case Meeting::Kind::kSplit: {
      std::map<int, std::vector<size_t>> colors;
      for (size_t i = 0; i < n; ++i) {
        if (meeting.arrivals[i].color >= 0) colors[meeting.arrivals[i].color].push_back(i);
      }
      for (auto& [color, group] : colors) {
        std::stable_sort(group.begin(), group.end(), [&](size_t a, size_t b) {
          return meeting.arrivals[a].key < meeting.arrivals[b].key;
        });
        auto child = std::make_shared<Communicator>();
        child->id = next_comm++;
        for (const size_t i : group) {
          child->world.push_back(comm->world[i]);
          child->members.push_back(meeting.arrivals[i].member);
        }
        for (size_t place = 0; place < group.size(); ++place) {
          Member& member = *meeting.arrivals[group[place]].member;
          member.comm = child;
          member.info = CommInfo{static_cast<int>(place), static_cast<int>(group.size()),
                                 lsa_size(child->world), child->world, false};
          member.ready = true;
        }
      }
      break;
    }
    case Meeting::Kind::kWindow:
    case Meeting::Kind::kDevComm: {
      int code = hold_windows(meeting, *comm, &why);
      if (code == 0 && meeting.kind == Meeting::Kind::kDevComm)
        code = hold_gin(meeting, *comm, &why);
      if (code != 0) {
        meeting.error.assign(n, code);
        for (const Meeting::Arrival& a : meeting.arrivals) rank(a.host).message = why;
      }
      break;
    }
  }
  // A real rendezvous: every host is after all of them.
  for (size_t i = 1; i < n; ++i) {
    edge(rank(meeting.arrivals[i - 1].host).host, rank(meeting.arrivals[i].host).host);
  }
  for (size_t i = 0; i + 1 < n; ++i) {
    edge(rank(meeting.arrivals[n - 1].host).host, rank(meeting.arrivals[i].host).host);
  }
  for (const Meeting::Arrival& a : meeting.arrivals) rank(a.host).snapshot = nullptr;
  meeting.over = true;
  for (size_t i = 0; i < n; ++i) {
    if (meeting.arrivals[i].ticket != 0) complete(meeting.arrivals[i].ticket, meeting.error[i]);
  }
  // Groups that wait for this meeting among others.
  std::vector<std::pair<Ticket, int>> finished;
  for (auto& [ticket, state] : tickets) {
    if (state.meetings.empty()) continue;
    int error = state.ok;
    bool all = true;
    for (const auto& [other, index] : state.meetings) {
      all = all && other->over;
      if (other->over && error == 0) error = other->error[static_cast<size_t>(index)];
    }
    if (all) finished.emplace_back(ticket, error);
  }
  for (const auto& [ticket, error] : finished) complete(ticket, error);
}

int Machine::Impl::lsa_size(const std::vector<int>& world) {
  int common = 0, run = 1;
  for (size_t i = 1; i < world.size(); ++i) {
    if (engine.memory().same_node(world[i - 1], world[i])) {
      ++run;
      continue;
    }
    common = std::gcd(common, run);
    run = 1;
  }
  return std::gcd(common, run);
}

int Machine::Impl::hold_gin(Meeting& meeting, const Communicator& comm, std::string* why) {
  std::vector<Address> windows;
  for (size_t i = 0; i < meeting.arrivals.size(); ++i) {
    if (!(meeting.arrivals[i].gin == meeting.arrivals[0].gin)) {
      *why = "ncclDevCommCreate: rank " + std::to_string(comm.world[0]) + " and rank " +
             std::to_string(comm.world[i]) +
             " ask for different numbers of GIN signals, counters or barriers; all ranks must "
             "agree";
      return kNcclInvalidUsage;
    }
    windows.push_back(meeting.arrivals[i].handle);
  }
  if (!meeting.arrivals[0].gin.on) return kNcclSuccess;
  const Status made = gin.create(comm.world, windows, meeting.arrivals[0].gin);
  if (made) return kNcclSuccess;
  *why = "ncclDevCommCreate: " + made.error().text();
  return kNcclSystemError;
}

int Machine::Impl::hold_windows(Meeting& meeting, Communicator& comm, std::string* why) {
  Memory& memory = engine.memory();
  const size_t n = meeting.arrivals.size();
  const bool resources = meeting.kind == Meeting::Kind::kDevComm;
  // NCCL's arithmetic: the copy of LSA rank i lies at flat_base + i * stride.
  const auto world = [&](size_t i) { return static_cast<uint64_t>(comm.world[i]); };
  const uint64_t step = n > 1 ? world(1) - world(0) : 1;
  for (size_t i = 1; i < n; ++i) {
    if (world(i) != world(0) + i * step || step > kMaxRanks) {
      *why =
          "windows of a communicator whose ranks are not evenly spaced (in rising order) are not "
          "emulated";
      return kNcclInvalidUsage;
    }
  }
  for (size_t i = 1; i < n; ++i) {
    if (meeting.arrivals[i].bytes != meeting.arrivals[0].bytes) {
      *why = std::string(name(meeting.kind)) + ": rank " + std::to_string(comm.world[0]) +
             " asks for " + std::to_string(meeting.arrivals[0].bytes) + " bytes, rank " +
             std::to_string(comm.world[i]) + " for " + std::to_string(meeting.arrivals[i].bytes) +
             "; all ranks must agree";
      return kNcclInvalidUsage;
    }
  }
  if (resources) {
    for (size_t i = 0; i < n; ++i) {
      Meeting::Arrival& a = meeting.arrivals[i];
      const auto address =
          memory.allocate(comm.world[i], std::max<uint64_t>(a.bytes, 16), Allocation::Kind::kNccl,
                          "resources of a device communicator", true, 4096);
      if (!address) {
        *why = address.error().text();
        return kNcclSystemError;
      }
      a.pointer = *address;
    }
  }
  const auto offset = [&](size_t i) {
    return meeting.arrivals[i].pointer - kDeviceBase - world(i) * kRankStride;
  };
  for (size_t i = 1; i < n; ++i) {
    if (offset(i) != offset(0)) {
      *why = "UNSUPPORTED: the memory of a window lies at offset " + std::to_string(offset(0)) +
             " on rank " + std::to_string(comm.world[0]) + " and at " + std::to_string(offset(i)) +
             " on rank " + std::to_string(comm.world[i]) +
             "; the emulator needs every rank to allocate in the same order and sizes before it "
             "registers a window";
      return kNcclInvalidUsage;
    }
  }
  const uint32_t id = next_window++;
  for (size_t i = 0; i < n; ++i) {
    const Meeting::Arrival& a = meeting.arrivals[i];
    Allocation* allocation = memory.find(a.pointer);
    if (allocation != nullptr) allocation->peer_accessible = true;
    WindowInfo info;
    info.handle = a.handle;
    info.pointer = a.pointer;
    info.bytes = a.bytes;
    const auto lsa = static_cast<size_t>(lsa_size(comm.world));
    info.flat_base = meeting.arrivals[i / lsa * lsa].pointer;
    info.stride = step * kRankStride;
    info.lsa_rank = static_cast<int>(i % lsa);
    info.rank = static_cast<int>(i);
    info.n_ranks = static_cast<int>(n);
    info.id = id;
    ranks[static_cast<size_t>(comm.world[i])].windows[a.handle] = info;
  }
  return kNcclSuccess;
}

// ---- Machine: communicators

std::array<uint8_t, 128> Machine::nccl_unique_id(Host host) {
  std::array<uint8_t, 128> id{};
  const uint64_t words[3] = {0x7363756c6c6572ull, static_cast<uint64_t>(host.rank),
                             ++impl_->unique_ids};
  std::memcpy(id.data(), words, sizeof words);
  return id;
}

Outcome Machine::nccl_comm_init(Host host, int n_ranks, const std::array<uint8_t, 128>& id,
                                int comm_rank, CommHandle* out) {
  RankState& r = impl_->rank(host);
  *out = 0;
  if (r.sticky != 0) return {kNcclUnhandledCudaError, 0};
  const auto refuse = [&](std::string why) {
    return Outcome{impl_->explain(r, kNcclInvalidArgument, "ncclCommInitRank: " + std::move(why)),
                   0};
  };
  if (n_ranks < 1 || n_ranks > config().engine.n_ranks) {
    return refuse(std::to_string(n_ranks) + " ranks asked, the job has " +
                  std::to_string(config().engine.n_ranks));
  }
  if (comm_rank < 0 || comm_rank >= n_ranks)
    return refuse("rank " + std::to_string(comm_rank) + " is out of range");
  std::shared_ptr<Meeting>& meeting = impl_->inits[id];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>();
    meeting->kind = Meeting::Kind::kInit;
    meeting->arrivals.resize(static_cast<size_t>(n_ranks));
    meeting->comm = std::make_shared<Communicator>();
    meeting->comm->id = impl_->next_comm++;
    meeting->comm->world.assign(static_cast<size_t>(n_ranks), -1);
    meeting->comm->members.resize(static_cast<size_t>(n_ranks));
  }
  const auto place = static_cast<size_t>(comm_rank);
  if (meeting->arrivals.size() != static_cast<size_t>(n_ranks)) {
    return refuse("the ranks disagree on the number of ranks");
  }
  if (meeting->arrivals[place].here)
    return refuse("rank " + std::to_string(comm_rank) + " was taken before");
  for (const int world : meeting->comm->world) {
    if (world == host.rank) return refuse("one process holds one rank of a communicator");
  }
  auto member = std::make_shared<Member>();
  member->handle = impl_->handle();
  member->comm = meeting->comm;
  meeting->comm->world[place] = host.rank;
  meeting->comm->members[place] = member;
  r.comms.emplace(member->handle, member);
  *out = member->handle;
  Meeting::Arrival arrival;
  arrival.member = member;
  const std::shared_ptr<Meeting> held = meeting;
  if (held->n_here + 1 == held->arrivals.size()) impl_->inits.erase(id);
  for (size_t i = 0; i < held->arrivals.size(); ++i) {
    if (const auto other = held->comm->members[i].lock()) {
      other->info = CommInfo{static_cast<int>(i), n_ranks, impl_->lsa_size(held->comm->world),
                             held->comm->world, false};
    }
  }
  return impl_->arrive(
      host, held, static_cast<uint32_t>(comm_rank), std::move(arrival),
      "ncclCommInitRank as rank " + std::to_string(comm_rank) + " of " + std::to_string(n_ranks),
      held->comm);
}

namespace {

// The next host-blocking collective call of this member; null where the ranks' calls do not match.
std::shared_ptr<Meeting> next_meeting(Member& member, Meeting::Kind kind) {
  std::shared_ptr<Meeting>& meeting = member.comm->meetings[member.next_meeting];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>();
    meeting->kind = kind;
    meeting->arrivals.resize(member.comm->world.size());
  }
  if (meeting->kind != kind) return nullptr;
  ++member.next_meeting;
  const std::shared_ptr<Meeting> out = meeting;
  if (out->n_here + 1 == out->arrivals.size()) member.comm->meetings.erase(member.next_meeting - 1);
  return out;
}

}  // namespace

Outcome Machine::nccl_comm_split(Host host, CommHandle handle, int color, int key,
                                 CommHandle* out) {
  RankState& r = impl_->rank(host);
  *out = 0;
  const auto member = impl_->find_comm(host, handle);
  if (member == nullptr) return {impl_->explain(r, kNcclInvalidArgument, kNoComm), 0};
  if (r.sticky != 0) return {kNcclUnhandledCudaError, 0};
  const auto meeting = next_meeting(*member, Meeting::Kind::kSplit);
  if (meeting == nullptr) {
    return {impl_->explain(r, kNcclInvalidUsage,
                           "ncclCommSplit meets another collective call of a peer"),
            0};
  }
  Meeting::Arrival arrival;
  arrival.color = color;
  arrival.key = key;
  arrival.member = std::make_shared<Member>();
  if (color >= 0) {
    arrival.member->handle = impl_->handle();
    r.comms.emplace(arrival.member->handle, arrival.member);
    *out = arrival.member->handle;
  }
  return impl_->arrive(host, meeting, static_cast<uint32_t>(member->info.rank), std::move(arrival),
                       "ncclCommSplit", member->comm);
}

Outcome Machine::nccl_comm_destroy(Host host, CommHandle handle) {
  RankState& r = impl_->rank(host);
  const auto member = impl_->find_comm(host, handle);
  if (member == nullptr) return {impl_->explain(r, kNcclInvalidArgument, kNoComm), 0};
  member->destroyed = true;
  if (r.sticky != 0 || member->last == nullptr || member->last->done) return {};
  Outcome outcome = impl_->wait_for(host, {member->last}, "ncclCommDestroy");
  if (outcome.pending()) impl_->tickets[outcome.ticket].broken = kNcclUnhandledCudaError;
  return outcome;
}

Outcome Machine::nccl_comm_abort(Host host, CommHandle handle) {
  RankState& r = impl_->rank(host);
  const auto member = impl_->find_comm(host, handle);
  if (member == nullptr) return {impl_->explain(r, kNcclInvalidArgument, kNoComm), 0};
  member->destroyed = true;
  for (const auto& weak : member->comm->members) {
    if (const auto other = weak.lock()) other->info.broken = true;
  }
  // Operations of this rank end at once, with whatever they left behind.
  for (auto& [sequence, sides] : member->comm->collectives) {
    for (Communicator::Side& side : sides) {
      if (side.op != nullptr && side.op->rank == host.rank) side = {};
    }
  }
  for (auto* queues : {&member->comm->sends, &member->comm->recvs}) {
    for (auto& [pair, queue] : *queues) {
      std::erase_if(queue,
                    [&](const Communicator::Side& side) { return side.op->rank == host.rank; });
    }
  }
  for (auto& [stream_handle, stream] : r.streams) {
    for (auto& op : stream->queue) {
      if (auto* work = std::get_if<NcclWork>(&op->work);
          work != nullptr && work->member == member) {
        for (NcclTask& task : work->tasks) task.done = true;
      }
    }
    if (stream->queue.empty() || !stream->queue.front()->running) continue;
    Op& head = *stream->queue.front();
    if (const auto* work = std::get_if<NcclWork>(&head.work);
        work != nullptr && work->member == member) {
      impl_->finish(head);
    }
  }
  return {};
}

const CommInfo* Machine::nccl_comm_info(Host host, CommHandle handle) const {
  const auto member = impl_->find_comm(host, handle);
  return member == nullptr ? nullptr : &member->info;
}

// ---- Machine: memory and windows

Outcome Machine::nccl_mem_alloc(Host host, uint64_t bytes, Address* out) {
  RankState& r = impl_->rank(host);
  *out = 0;
  if (r.sticky != 0) return {kNcclUnhandledCudaError, 0};
  if (bytes == 0) return {};
  const auto address =
      memory().allocate(host.rank, bytes, Allocation::Kind::kNccl, "ncclMemAlloc", false, 4096);
  if (!address) return {impl_->explain(r, kNcclUnhandledCudaError, address.error().text()), 0};
  *out = *address;
  return {};
}

Outcome Machine::nccl_mem_free(Host host, Address address) {
  RankState& r = impl_->rank(host);
  if (address == 0) return {};
  if (r.sticky != 0) return {kNcclUnhandledCudaError, 0};
  const Allocation* found = pointer_info(address);
  if (found == nullptr || found->begin != address || found->rank != host.rank ||
      found->kind != Allocation::Kind::kNccl) {
    return {
        impl_->explain(r, kNcclInvalidArgument, "ncclMemFree of what ncclMemAlloc did not give"),
        0};
  }
  const Status status = memory().release(host.rank, address);
  if (!status) return {impl_->explain(r, kNcclInvalidArgument, status.error().text()), 0};
  return {};
}

Outcome Machine::nccl_window_register(Host host, CommHandle handle, Address pointer, uint64_t bytes,
                                      uint32_t flags, uint64_t struct_bytes, Address* out) {
  RankState& r = impl_->rank(host);
  *out = 0;
  (void)flags;  // the only flag is NCCL_WIN_COLL_SYMMETRIC; without it NCCL makes the same device
                // window
  const auto member = impl_->find_comm(host, handle);
  if (member == nullptr) return {impl_->explain(r, kNcclInvalidArgument, kNoComm), 0};
  if (r.sticky != 0) return {kNcclUnhandledCudaError, 0};
  const Allocation* found = pointer_info(pointer);
  if (found == nullptr || found->kind != Allocation::Kind::kNccl || found->rank != host.rank ||
      bytes == 0 || bytes > found->bytes || pointer - found->begin > found->bytes - bytes) {
    return {
        impl_->explain(r, kNcclInvalidArgument,
                       "ncclCommWindowRegister needs memory of ncclMemAlloc and a size within it"),
        0};
  }
  if (pointer % 4096 != 0) {
    return {impl_->explain(r, kNcclInvalidArgument,
                           "ncclCommWindowRegister needs a pointer aligned to 4096"),
            0};
  }
  const auto meeting = next_meeting(*member, Meeting::Kind::kWindow);
  if (meeting == nullptr) {
    return {impl_->explain(r, kNcclInvalidUsage,
                           "ncclCommWindowRegister meets another collective call of a peer"),
            0};
  }
  const auto address =
      allocate_internal(host.rank, std::max<uint64_t>(struct_bytes, 16), "window structure");
  if (!address) return {impl_->explain(r, kNcclSystemError, address.error().text()), 0};
  *out = *address;
  Meeting::Arrival arrival;
  arrival.pointer = pointer;
  arrival.bytes = bytes;
  arrival.handle = *address;
  return impl_->arrive(host, meeting, static_cast<uint32_t>(member->info.rank), std::move(arrival),
                       "ncclCommWindowRegister", member->comm);
}

Outcome Machine::nccl_window_deregister(Host host, CommHandle handle, Address window) {
  RankState& r = impl_->rank(host);
  if (impl_->find_comm(host, handle) == nullptr)
    return {impl_->explain(r, kNcclInvalidArgument, kNoComm), 0};
  const auto found = r.windows.find(window);
  if (found == r.windows.end())
    return {impl_->explain(r, kNcclInvalidArgument, "no such window"), 0};
  const Address pointer = found->second.pointer;
  r.windows.erase(found);
  const bool other = std::any_of(r.windows.begin(), r.windows.end(), [&](const auto& entry) {
    const Allocation* a = pointer_info(pointer);
    const Allocation* b = pointer_info(entry.second.pointer);
    return a != nullptr && a == b;
  });
  if (Allocation* allocation = memory().find(pointer); allocation != nullptr && !other) {
    allocation->peer_accessible = false;
  }
  (void)memory().release(host.rank, window);
  return {};
}

const WindowInfo* Machine::nccl_window_info(Host host, Address handle) const {
  const RankState& r = impl_->rank(host);
  const auto found = r.windows.find(handle);
  return found == r.windows.end() ? nullptr : &found->second;
}

Outcome Machine::nccl_dev_comm_create(Host host, CommHandle handle, uint64_t resource_bytes,
                                      uint64_t struct_bytes, const GinNeeds& gin, Address* out) {
  RankState& r = impl_->rank(host);
  *out = 0;
  const auto member = impl_->find_comm(host, handle);
  if (member == nullptr) return {impl_->explain(r, kNcclInvalidArgument, kNoComm), 0};
  if (r.sticky != 0) return {kNcclUnhandledCudaError, 0};
  if (resource_bytes > config().engine.limits.memory_bytes) {
    return {impl_->explain(r, kNcclInvalidArgument,
                           "ncclDevCommCreate asks for more resources than there is memory"),
            0};
  }
  const auto meeting = next_meeting(*member, Meeting::Kind::kDevComm);
  if (meeting == nullptr) {
    return {impl_->explain(r, kNcclInvalidUsage,
                           "ncclDevCommCreate meets another collective call of a peer"),
            0};
  }
  const auto address =
      allocate_internal(host.rank, std::max<uint64_t>(struct_bytes, 16), "window structure");
  if (!address) return {impl_->explain(r, kNcclSystemError, address.error().text()), 0};
  *out = *address;
  Meeting::Arrival arrival;
  arrival.bytes = resource_bytes;
  arrival.handle = *address;
  arrival.gin = gin;
  return impl_->arrive(host, meeting, static_cast<uint32_t>(member->info.rank), std::move(arrival),
                       "ncclDevCommCreate", member->comm);
}

const GinInfo* Machine::nccl_gin_info(Host host, Address resource_window) const {
  return impl_->gin.info(host.rank, resource_window);
}
uint64_t Machine::gin_puts() const { return impl_->gin.puts(); }

Outcome Machine::nccl_dev_comm_destroy(Host host, CommHandle handle, Address resource_window) {
  RankState& r = impl_->rank(host);
  const auto found = r.windows.find(resource_window);
  if (found == r.windows.end())
    return {impl_->explain(r, kNcclInvalidArgument, "no such device communicator"), 0};
  const Address pointer = found->second.pointer;
  impl_->gin.destroy(host.rank, resource_window);
  const Outcome outcome = nccl_window_deregister(host, handle, resource_window);
  if (outcome.error == 0) (void)memory().release(host.rank, pointer);
  return outcome;
}

}  // namespace sculler::emu
