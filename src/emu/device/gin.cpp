#include "emu/device/gin.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emu/device/state.h"

namespace sculler::emu {
namespace {

constexpr uint32_t kContexts = 4;  // NCCL_GIN_NCONTEXTS where nobody sets it
static_assert(kContexts <= std::tuple_size_v<decltype(GinInfo::context)>);
constexpr uint32_t kQueueSize = 64;  // descriptors a context and peer, a power of two
constexpr uint64_t kDescriptor = 64;
constexpr size_t kWords = 8;
// Between the user's signals and those of barriers: an index that is too high is named, and does
// not meet a barrier.
constexpr uint32_t kSignalGap = 256;
constexpr size_t kLook = 16;  // puts of a queue that may be out of order among each other

// nccl_device/gin/proxy/gin_proxy_device_host_common.h
enum Operation : uint64_t {
  kPut = 1,
  kInline = 2,
  kWithCounter = 4,
  kSignalInc = 8,
  kSignalAdd = 16
};

uint64_t bits(uint64_t word, unsigned from, unsigned n) {
  return word >> from & (~uint64_t{0} >> (64 - n));
}

std::string up_to(uint32_t n) {
  return n == 0
             ? std::string("there are none")
             : "there are " + std::to_string(n) + ", numbered from 0 to " + std::to_string(n - 1);
}

}  // namespace

struct Gin::Put {
  PutId token = 0;
  CodeRef code{};
  uint64_t operation = 0, bytes = 0, value = 0, add = 0;
  Address source = 0, destination = 0;
  PutTarget target{};
  uint32_t signal = 0;
  std::vector<uint8_t> data;
  bool held = false;  // until nothing else goes
  bool read = false, consumed = false, written = false, signalled = false;
};

struct Gin::Queue {
  struct Post {
    PutId token = 0;
    CodeRef code{};
  };
  uint32_t number = 0;
  Endpoint* endpoint = nullptr;
  uint32_t context = 0, peer = 0;
  Address slots = 0, consumed_word = 0;
  uint32_t head = 0, consumed = 0;
  std::map<uint32_t, Post> posts;  // by slot, from its first store on
  std::deque<Put> flight;
  bool active = false;
};

struct Gin::Endpoint {
  struct Mode {
    uint64_t operation = 0;  // kSignalInc or kSignalAdd since the last reset; 0: none
    CodeRef code{};
  };
  Domain* domain = nullptr;
  int rank = 0;
  Address window = 0;
  bool gone = false;
  GinInfo info{};
  std::vector<Address> allocations;
  std::vector<std::unique_ptr<Queue>> queues;   // context * n + peer
  std::vector<std::map<uint32_t, Mode>> modes;  // by context, then signal
};

struct Gin::Domain {
  GinNeeds needs{};
  std::vector<std::unique_ptr<Endpoint>> members;
};

Gin::Gin(Engine& engine, FindWindow window, OnFault fault)
    : engine_(engine),
      observer_(engine.config().observer),
      window_(std::move(window)),
      fault_(std::move(fault)),
      random_(engine.config().schedule.seed ^ 0x67696eull) {
  engine_.on_watched = [this](const WatchedAccess& access) { return watched(access); };
}
Gin::~Gin() { engine_.on_watched = nullptr; }

// ---- Set-up

Status Gin::allocate(Endpoint& endpoint, const GinNeeds& needs) {
  Memory& memory = engine_.memory();
  const auto n = static_cast<uint32_t>(endpoint.domain->members.size());
  const auto take = [&](uint64_t bytes, std::string name, Address* out) -> Status {
    auto address = memory.allocate(endpoint.rank, std::max<uint64_t>(bytes, 1),
                                   Allocation::Kind::kGin, std::move(name), true);
    if (!address) return fail(address.error());
    endpoint.allocations.push_back(*address);
    *out = *address;
    return {};
  };
  GinInfo& info = endpoint.info;
  info.contexts = kContexts;
  info.queue_size = kQueueSize;
  info.barrier_signal = needs.signals + kSignalGap;
  info.signals = info.barrier_signal + needs.barrier_signals;
  if (auto ok = take(uint64_t{kContexts} * info.signals * 8, "GIN signal shadows", &info.shadows);
      !ok)
    return ok;
  endpoint.modes.resize(kContexts);
  for (uint32_t c = 0; c < kContexts; ++c) {
    GinInfo::Context& at = info.context[c];
    const std::string context = "context " + std::to_string(c);
    if (auto ok = take(n * kQueueSize * kDescriptor,
                       "queue of GIN " + context + " (" + std::to_string(kQueueSize * kDescriptor) +
                           " bytes a peer)",
                       &at.queues);
        !ok)
      return ok;
    if (auto ok = take(n * 4, "GIN producer indices of " + context, &at.produced); !ok) return ok;
    if (auto ok = take(n * 4, "GIN consumer indices of " + context, &at.consumed); !ok) return ok;
    if (auto ok = take(uint64_t{needs.counters} * 8, context, &at.counters); !ok) return ok;
    if (auto ok = take(uint64_t{info.signals} * 8, context, &at.signals); !ok) return ok;
    Allocation* counters = memory.find(at.counters);
    counters->unit = "GIN counter";
    counters->units = needs.counters;
    Allocation* signals = memory.find(at.signals);
    signals->unit = "GIN signal";
    signals->units = needs.signals;
    signals->own = info.barrier_signal;
    signals->watched = memory.find(at.queues)->watched = true;
    watches_[at.queues] = {&endpoint, c, true};
    watches_[at.signals] = {&endpoint, c, false};
    for (uint32_t peer = 0; peer < n; ++peer) {
      auto queue = std::make_unique<Queue>();
      queue->number = next_queue_++;
      queue->endpoint = &endpoint;
      queue->context = c;
      queue->peer = peer;
      queue->slots = at.queues + peer * kQueueSize * kDescriptor;
      queue->consumed_word = at.consumed + peer * 4;
      endpoint.queues.push_back(std::move(queue));
    }
  }
  return {};
}

Status Gin::create(const std::vector<int>& world, const std::vector<Address>& windows,
                   const GinNeeds& needs) {
  constexpr uint32_t kMost = 65536 - kSignalGap;  // descriptors have 16 bits for a number
  if (needs.signals > kMost || needs.counters > kMost ||
      needs.barrier_signals > kMost - needs.signals) {
    return fail(ErrorCode::kBadInput, "more GIN signals or counters than descriptors can name",
                "ask for fewer than 65280 signals, those of barriers included");
  }
  auto domain = std::make_shared<Domain>();
  domain->needs = needs;
  for (size_t i = 0; i < world.size(); ++i) {
    auto endpoint = std::make_unique<Endpoint>();
    endpoint->domain = domain.get();
    endpoint->rank = world[i];
    endpoint->window = windows[i];
    domain->members.push_back(std::move(endpoint));
  }
  domains_.push_back(domain);
  for (const auto& endpoint : domain->members)
    if (auto ok = allocate(*endpoint, needs); !ok) return ok;
  return {};
}

const GinInfo* Gin::info(int rank, Address window) const {
  for (const auto& domain : domains_) {
    for (const auto& endpoint : domain->members)
      if (endpoint->rank == rank && endpoint->window == window && !endpoint->gone)
        return &endpoint->info;
  }
  return nullptr;
}

void Gin::destroy(int rank, Address window) {
  for (const auto& domain : domains_) {
    for (const auto& endpoint : domain->members) {
      if (endpoint->rank != rank || endpoint->window != window || endpoint->gone) continue;
      while (step(true)) {}
      endpoint->gone = true;
      for (const auto& queue : endpoint->queues) drop(*queue);
      for (const Address address : endpoint->allocations) {
        watches_.erase(address);
        (void)engine_.memory().release(rank, address);
      }
      return;
    }
  }
}

void Gin::drop_rank(int rank) {
  for (const auto& domain : domains_) {
    for (const auto& endpoint : domain->members) {
      for (const auto& queue : endpoint->queues) {
        if (endpoint->rank == rank || domain->members[queue->peer]->rank == rank) drop(*queue);
      }
      if (endpoint->rank == rank) endpoint->gone = true;
    }
  }
}

void Gin::drop(Queue& queue) {
  if (observer_ != nullptr) {
    for (const Put& put : queue.flight) observer_->put_end(put.token);
    for (const auto& [slot, post] : queue.posts) observer_->put_end(post.token);
  }
  queue.flight.clear();
  queue.posts.clear();
  queue.active = false;
  std::erase(active_, &queue);
}

// ---- What kernels do

std::string Gin::watched(const WatchedAccess& access) {
  const auto found = watches_.find(access.allocation->begin);
  if (found == watches_.end()) return {};
  const Watch& watch = found->second;
  Endpoint& endpoint = *watch.endpoint;
  for (uint32_t left = access.mask; left != 0; left &= left - 1) {
    const uint64_t offset = access.address[std::countr_zero(left)] - access.allocation->begin;
    if (!watch.queue) {
      const auto index = static_cast<uint32_t>(offset / 8);
      if (index >= endpoint.domain->needs.signals && index < endpoint.info.barrier_signal)
        return up_to(endpoint.domain->needs.signals) + " (ginSignalCount)";
      if (access.access == Access::kStore) endpoint.modes[watch.context].erase(index);
      continue;
    }
    if (access.access != Access::kStore || endpoint.gone) continue;
    const auto descriptor = static_cast<uint32_t>(offset / kDescriptor);
    const uint32_t peer = descriptor / kQueueSize, slot = descriptor % kQueueSize;
    const size_t n = endpoint.domain->members.size();
    Queue& queue = *endpoint.queues[watch.context * n + peer];
    const auto [at, fresh] = queue.posts.try_emplace(slot);
    if (!fresh) continue;
    at->second.code = access.code;
    if (observer_ != nullptr)
      at->second.token = observer_->put_post(access.actor, queue.number, access.code);
    if (!queue.active) active_.push_back(&queue);
    queue.active = true;
  }
  return {};
}

// ---- What the network does

void Gin::blame(const Queue& queue, CodeRef code, std::string why) {
  MachineFault fault;
  fault.rank = queue.endpoint->rank;
  fault.cuda_error = kCudaIllegalAddress;
  fault.fault.kind = Fault::Kind::kIllegalAddress;
  fault.fault.rank = fault.rank;
  fault.fault.code = code;
  fault.message = "rank " + std::to_string(fault.rank) + ", GIN context " +
                  std::to_string(queue.context) + ", put or signal to rank " +
                  std::to_string(queue.endpoint->domain->members[queue.peer]->rank) + ": " +
                  std::move(why);
  fault_(std::move(fault));
}

bool Gin::parse(const Queue& queue, const uint64_t* words, Put& put, std::string* wrong) {
  const Endpoint& own = *queue.endpoint;
  const Endpoint& peer = *own.domain->members[queue.peer];
  const GinNeeds& needs = own.domain->needs;
  put.operation = bits(words[0], 1, 6);
  put.bytes = bits(words[0], 7, 57);
  const auto place = [&](int rank, uint64_t window, uint64_t offset, const char* what,
                         Address* out) {
    const WindowInfo* info = window_(rank, window);
    if (info == nullptr) {
      *wrong = std::string(what) + " lies in no window of rank " + std::to_string(rank);
      return false;
    }
    if (offset > info->bytes || put.bytes > info->bytes - offset) {
      *wrong = std::string(what) + ", " + std::to_string(put.bytes) + " bytes at offset " +
               std::to_string(offset) + " of " + engine_.memory().describe(info->pointer) +
               ", reaches beyond the window's " + std::to_string(info->bytes) + " bytes";
      return false;
    }
    *out = info->pointer + offset;
    return true;
  };
  if (peer.gone) {
    *wrong = "the peer has destroyed its device communicator";
    return false;
  }
  if ((put.operation & kInline) != 0) {
    put.value = bits(words[1], 8, 48) | bits(words[2], 8, 16) << 48;
  } else if (put.bytes != 0 &&
             !place(own.rank, words[2] >> 1, words[1] >> 1, "the source", &put.source)) {
    return false;
  }
  if (put.bytes != 0 &&
      !place(peer.rank, words[4] >> 1, words[3] >> 1, "the destination", &put.destination))
    return false;
  if ((put.operation & kInline) != 0 && put.bytes > 8) {
    *wrong = "a value of " + std::to_string(put.bytes) + " bytes";
    return false;
  }
  if ((put.operation & kWithCounter) != 0) {
    const uint64_t counter = bits(words[5], 8, 16);
    if (counter >= needs.counters) {
      *wrong = "counter " + std::to_string(counter) + " where " + up_to(needs.counters) +
               " (ginCounterCount)";
      return false;
    }
    put.target.counter = own.info.context[queue.context].counters + counter * 8;
  }
  if ((put.operation & (kSignalInc | kSignalAdd)) != 0) {
    put.signal = static_cast<uint32_t>(bits(words[5], 24, 16));
    if (put.signal >= own.info.signals ||
        (put.signal >= needs.signals && put.signal < own.info.barrier_signal)) {
      *wrong = "signal " + std::to_string(put.signal) + " where " + up_to(needs.signals) +
               " (ginSignalCount)";
      return false;
    }
    put.target.signal = peer.info.context[queue.context].signals + uint64_t{put.signal} * 8;
    put.add =
        (put.operation & kSignalInc) != 0
            ? 1
            : bits(words[5], 40, 16) | bits(words[6], 8, 16) << 16 | bits(words[6], 24, 32) << 32;
  }
  return true;
}

void Gin::take(Queue& queue) {
  const uint32_t slot = queue.head % kQueueSize;
  uint64_t words[kWords];
  std::memcpy(words, pointer(queue.slots + slot * kDescriptor), sizeof words);
  std::memset(pointer(queue.slots + slot * kDescriptor), 0, sizeof words);
  Put put;
  put.token = queue.posts[slot].token;
  put.code = queue.posts[slot].code;
  queue.posts.erase(slot);
  ++queue.head;
  ++puts_;
  std::string wrong;
  if (!parse(queue, words, put, &wrong)) {
    if (observer_ != nullptr) observer_->put_end(put.token);
    blame(queue, put.code, std::move(wrong));
    return;
  }
  if (observer_ != nullptr) observer_->put_begin(put.token, put.target);
  switch (engine_.config().schedule.kind) {
    case ScheduleKind::kRandom: put.held = random_.below(4) == 0; break;
    case ScheduleKind::kPriority: put.held = random_.below(2) == 0; break;
    default: put.held = true; break;
  }
  put.read = put.bytes == 0;
  put.written = put.bytes == 0;
  put.signalled = put.target.signal == 0;
  queue.flight.push_back(std::move(put));
}

void Gin::signal(const Queue& queue, const Put& put) {
  Endpoint& peer = *queue.endpoint->domain->members[queue.peer];
  Endpoint::Mode& mode = peer.modes[queue.context][put.signal];
  const uint64_t kind = put.operation & (kSignalInc | kSignalAdd);
  if (mode.operation != 0 && mode.operation != kind && observer_ != nullptr) {
    Finding finding;
    finding.kind = Finding::Kind::kMisuse;
    finding.now.rank = queue.endpoint->rank;
    finding.now.access = Access::kAtomic;
    finding.now.code = put.code;
    finding.address = put.target.signal;
    finding.bytes = 8;
    finding.place = engine_.memory().describe(put.target.signal);
    const bool inc = kind == kSignalInc;
    finding.note = std::string(inc ? "ncclGin_SignalInc" : "ncclGin_SignalAdd") + " after " +
                   (inc ? "ncclGin_SignalAdd" : "ncclGin_SignalInc") +
                   " on one signal, without a reset between them";
    finding.wait = mode.code;
    observer_->finding(std::move(finding));
  }
  if (mode.operation == 0) mode = {kind, put.code};
  uint64_t value;
  std::memcpy(&value, pointer(put.target.signal), sizeof value);
  value += put.add;
  std::memcpy(pointer(put.target.signal), &value, sizeof value);
  if (observer_ != nullptr) observer_->put_tell(put.token, PutWord::kSignal, put.target.signal);
}

void Gin::carry_out(const Choice& choice) {
  Queue& queue = *choice.queue;
  if (choice.piece == Piece::kTake) return take(queue);
  Put& put = queue.flight[choice.put];
  const Endpoint& peer = *queue.endpoint->domain->members[queue.peer];
  switch (choice.piece) {
    case Piece::kTake: break;
    case Piece::kRead:
      put.read = true;
      put.data.resize(put.bytes);
      if ((put.operation & kInline) != 0) {
        std::memcpy(put.data.data(), &put.value, put.bytes);
        break;
      }
      if (engine_.memory().check(queue.endpoint->rank, put.source, put.bytes) != nullptr)
        return blame(queue, put.code, "the source was freed before the put had read it");
      std::memcpy(put.data.data(), pointer(put.source), put.bytes);
      if (observer_ != nullptr)
        observer_->put_access(put.token, Access::kLoad, put.source, put.bytes);
      break;
    case Piece::kConsumed: {
      put.consumed = true;
      if (put.target.counter != 0) {
        uint64_t value;
        std::memcpy(&value, pointer(put.target.counter), sizeof value);
        ++value;
        std::memcpy(pointer(put.target.counter), &value, sizeof value);
        if (observer_ != nullptr)
          observer_->put_tell(put.token, PutWord::kCounter, put.target.counter);
      }
      ++queue.consumed;
      std::memcpy(pointer(queue.consumed_word), &queue.consumed, sizeof queue.consumed);
      if (observer_ != nullptr)
        observer_->put_tell(put.token, PutWord::kConsumed, queue.consumed_word);
      break;
    }
    case Piece::kWrite:
      put.written = true;
      if (engine_.memory().check(peer.rank, put.destination, put.bytes) != nullptr)
        return blame(queue, put.code, "the destination was freed before the payload arrived");
      std::memcpy(pointer(put.destination), put.data.data(), put.bytes);
      put.data = {};
      if (observer_ != nullptr)
        observer_->put_access(put.token, Access::kStore, put.destination, put.bytes);
      break;
    case Piece::kSignal:
      put.signalled = true;
      signal(queue, put);
      break;
  }
}

void Gin::settle(Queue& queue) {
  while (!queue.flight.empty()) {
    const Put& put = queue.flight.front();
    if (!put.consumed || !put.written || !put.signalled) break;
    if (observer_ != nullptr) observer_->put_end(put.token);
    queue.flight.pop_front();
  }
  if (!queue.flight.empty() || !queue.posts.empty()) return;
  queue.active = false;
  std::erase(active_, &queue);
}

void Gin::collect(bool all, std::vector<Choice>& out) {
  out.clear();
  for (Queue* queue : active_) {
    if (const uint32_t slot = queue->head % kQueueSize; queue->posts.contains(slot)) {
      uint64_t words[kWords];
      std::memcpy(words, pointer(queue->slots + slot * kDescriptor), sizeof words);
      // The first bit of each word says that it has been stored.
      uint64_t there = 1;
      for (const uint64_t word : words) there &= word;
      if (there == 1) out.push_back({queue, 0, Piece::kTake});
    }
    bool arrived = true, consumed = true;  // all before
    for (size_t i = 0; i < std::min(queue->flight.size(), kLook); ++i) {
      const Put& put = queue->flight[i];
      if (all || !put.held) {
        if (!put.read) out.push_back({queue, i, Piece::kRead});
        if (put.read && !put.consumed && consumed) out.push_back({queue, i, Piece::kConsumed});
        if (put.read && !put.written) out.push_back({queue, i, Piece::kWrite});
        if (put.written && !put.signalled && arrived) out.push_back({queue, i, Piece::kSignal});
      }
      arrived &= put.written;
      consumed &= put.consumed;
    }
  }
}

bool Gin::step(bool all) {
  collect(all, choices_);
  if (choices_.empty()) return false;
  Choice choice = choices_.front();
  const ScheduleKind kind = engine_.config().schedule.kind;
  if (kind == ScheduleKind::kRandom || kind == ScheduleKind::kPriority) {
    choice = choices_[random_.below(choices_.size())];
  } else {
    // Arrivals last: what relies on anything but a signal is early.
    choice = *std::min_element(choices_.begin(), choices_.end(),
                               [](const Choice& a, const Choice& b) { return a.piece < b.piece; });
  }
  Queue& queue = *choice.queue;
  carry_out(choice);
  settle(queue);
  return true;
}

}  // namespace sculler::emu
