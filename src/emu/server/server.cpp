#include "emu/server/server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "verify/socket_ranks.h"

namespace sculler::emu {
namespace {
constexpr uint32_t kMaxChannels = 16;  // host threads a rank
constexpr uint64_t kMillisecond = 1'000'000;

constexpr int kSendSeconds = 10;
constexpr std::size_t kMaxUnread = std::size_t{64} << 20;  // of all connections of a rank

// A rank that does not read its replies must not stop the VM for long.
void limit_sends(int socket) {
  const timeval limit{kSendSeconds, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

uint32_t largest(wire::Op op) {
  return op == wire::Op::kLoadModule ? wire::kMaxMessageBytes : wire::kChunkBytes + (64u << 10);
}

// 'R', 'S' ... of /proc/PID/stat; '?' where it cannot be read.
char process_state(int pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return '?';
  char text[512] = {};
  const std::size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = '\0';
  const char* end = std::strrchr(text, ')');
  return end != nullptr && end[1] == ' ' ? end[2] : '?';
}
}  // namespace

Server::Server(Machine& machine, const ServerConfig& config, int n_ranks)
    : machine_(machine), config_(config), ranks_(static_cast<std::size_t>(n_ranks)) {
  reseed(0);
}

Server::~Server() = default;

void Server::reseed(uint64_t salt) {
  random_ = (config_.schedule.seed + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u +
            salt * 0x94d049bb133111ebu;
  turn_ = 0;
}

uint64_t Server::draw() {  // splitmix64
  uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void Server::attach(int rank, rank::UniqueFd socket, int pid) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  r.channels.clear();
  auto channel = std::make_unique<Channel>();
  limit_sends(socket.get());
  channel->socket = std::move(socket);
  r.channels.push_back(std::move(channel));
  r.pid = pid;
  r.heard_ns = verify::monotonic_ns();
}

bool Server::connected(int rank) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  return !r.channels.empty() && r.channels[0]->state != Channel::State::kClosed;
}
bool Server::was_connected(int rank) const { return ranks_[static_cast<std::size_t>(rank)].hello; }

bool Server::any_blocked() const {
  for (const Rank& r : ranks_) {
    for (const auto& c : r.channels) {
      if (c->state == Channel::State::kBlocked) return true;
    }
  }
  return false;
}

bool Server::settled(const Rank& rank) const {
  if (rank.channels.empty() || rank.channels[0]->state == Channel::State::kClosed) return true;
  bool running = false;
  bool queued = false;
  for (const auto& c : rank.channels) {
    running |= c->state == Channel::State::kRunning;
    queued |= c->state == Channel::State::kQueued;
  }
  if (!running) return true;
  // The main thread waits for its control socket: helpers of its libraries may still have something
  // to say.
  if (rank.outside && rank.channels[0]->state == Channel::State::kRunning) return true;
  return rank.left_out || (queued && rank.channels.size() > 1 && rank.left_out);
}

bool Server::settled() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [this](const Rank& r) { return settled(r); });
}

void Server::drop(int rank, std::string why) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  if (!connected(rank)) return;
  if (!why.empty() && r.report.broken.empty()) r.report.broken = std::move(why);
  for (auto& c : r.channels) {
    c->socket.reset();
    c->state = Channel::State::kClosed;
  }
  std::erase_if(tickets_, [rank](const auto& entry) { return entry.second.rank == rank; });
  r.host_calls.clear();
  r.host_running.clear();
  machine_.drop_rank(rank);
}

void Server::read(int rank, uint32_t thread) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  Channel& c = *r.channels[thread];
  if (c.state == Channel::State::kClosed) return;
  const auto got = c.inbox.receive(c.socket.get(), false);
  if (got == wire::Inbox::Got::kNothing) return;
  if (got == wire::Inbox::Got::kEnd) {
    if (thread == 0) {
      drop(rank, "");
    } else {
      c.socket.reset();
      c.state = Channel::State::kClosed;
    }
    return;
  }
  r.heard_ns = verify::monotonic_ns();
  r.left_out = false;
  std::size_t unread = 0;
  for (const auto& channel : r.channels) unread += channel->inbox.bytes().size();
  if (unread > kMaxUnread) {
    drop(rank, "more unfinished requests than a program has");
    return;
  }
  while (parse(rank, thread)) {}
}

// One whole message from the inbox; false when there is none.
bool Server::parse(int rank, uint32_t thread) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  Channel& c = *r.channels[thread];
  if (c.state == Channel::State::kClosed) return false;
  const auto bytes = c.inbox.bytes();
  wire::Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != wire::kMagic || header.bytes > largest(header.op)) {
    drop(rank, "a message that is none");
    return false;
  }
  if (bytes.size() < sizeof header + header.bytes) return false;
  if (header.op == wire::Op::kChannel) {
    c.inbox.consume(sizeof header + header.bytes);
    rank::UniqueFd socket(c.inbox.take_fd());
    if (thread != 0 || header.bytes != 0 || !socket || r.channels.size() >= kMaxChannels) {
      drop(rank, "an announcement of another thread that is wrong, or one thread too many");
      return false;
    }
    auto channel = std::make_unique<Channel>();
    limit_sends(socket.get());
    channel->socket = std::move(socket);
    r.channels.push_back(std::move(channel));
    return true;
  }
  if (c.state != Channel::State::kRunning) {
    drop(rank, "a second request before the answer to the first");
    return false;
  }
  c.header = header;
  c.body.assign(bytes.data() + sizeof header, bytes.data() + sizeof header + header.bytes);
  c.inbox.consume(sizeof header + header.bytes);
  if (header.op ==
      wire::Op::kReportHostAccess) {  // its thread dies: answer at once, in whatever order
    serve(rank, thread);
    return true;
  }
  c.state = Channel::State::kQueued;
  return true;
}

void Server::reply(int rank, uint32_t thread, int status, std::span<const uint8_t> body, int fd) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  Channel& c = *r.channels[thread];
  wire::ReplyHeader header;
  header.status = status;
  header.sequence = c.header.sequence;
  std::vector<uint8_t> failure;
  if (status != 0) {
    wire::FailureReply reason;
    reason.message = machine_.explain(rank);
    failure = wire::encode(reason);
    body = failure;
  }
  header.bytes = static_cast<uint32_t>(body.size());
  std::vector<uint8_t> all(sizeof header + body.size());
  std::memcpy(all.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(all.data() + sizeof header, body.data(), body.size());
  c.state = Channel::State::kRunning;
  c.wants_data = false;
  c.body.clear();
  r.heard_ns = verify::monotonic_ns();
  r.left_out = false;
  if (!wire::send_all(c.socket.get(), all, fd)) {
    if (thread == 0) {
      drop(rank, "");
    } else {
      c.socket.reset();
      c.state = Channel::State::kClosed;
    }
  }
}

void Server::serve(int rank, uint32_t thread) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  Channel& c = *r.channels[thread];
  ++served_;
  const std::vector<uint8_t> body = std::move(c.body);
  const wire::Header header = c.header;
  if (!r.hello && (header.op != wire::Op::kHello || thread != 0)) {
    drop(rank, "a request before the greeting");
    return;
  }
  Answer answer = dispatch({rank, thread, machine_.host_site(header.site)}, header, body);
  if (c.state == Channel::State::kClosed) return;
  if (answer.malformed) {
    drop(rank, "a request whose fields are wrong (operation " +
                   std::to_string(static_cast<int>(header.op)) + ")");
    return;
  }
  const int error = answer.outcome.error;
  if (error != 0 && error != kCudaNotReady && header.site[0] != 0) {
    r.report.failed_call = machine_.explain(rank);
    r.report.failed_site = machine_.host_site(header.site);
  }
  if (answer.silent) {
    c.state = Channel::State::kHelper;
    return;
  }
  if (answer.outcome.pending()) {
    c.state = Channel::State::kBlocked;
    c.body = std::move(answer.body);
    c.wants_data = answer.wants_data;
    tickets_[answer.outcome.ticket] = {rank, thread};
    return;
  }
  reply(rank, thread, answer.outcome.error, answer.body, answer.fd);
}

void Server::deliver() {
  for (Completion& done : machine_.take_completions()) {
    const auto at = tickets_.find(done.ticket);
    if (at == tickets_.end()) continue;
    const Host host = at->second;
    tickets_.erase(at);
    Channel& c = *ranks_[static_cast<std::size_t>(host.rank)].channels[host.thread];
    if (c.state != Channel::State::kBlocked) continue;
    std::vector<uint8_t> body = std::move(c.body);
    if (c.wants_data && done.error == 0) {
      wire::BytesReply bytes;
      bytes.data = std::move(done.data);
      body = wire::encode(bytes);
    }
    reply(host.rank, host.thread, done.error, body);
  }
  for (const HostCall& call : machine_.take_host_calls()) {
    if (connected(call.rank))
      ranks_[static_cast<std::size_t>(call.rank)].host_calls.push_back(call);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& r = ranks_[i];
    for (std::size_t t = 1; t < r.channels.size() && !r.host_calls.empty(); ++t) {
      if (r.channels[t]->state != Channel::State::kHelper) continue;
      const HostCall call = r.host_calls.front();
      r.host_calls.erase(r.host_calls.begin());
      wire::HostFunctionReply due;
      due.id = call.id;
      due.function = call.function;
      due.argument = call.argument;
      r.host_running.insert(call.id);
      const auto bytes = wire::encode(due);
      reply(static_cast<int>(i), static_cast<uint32_t>(t), 0, bytes);
    }
  }
}

bool Server::run_device(uint64_t budget) {
  const std::size_t faults = machine_.faults().size();
  const uint64_t before = machine_.engine().instructions();
  const Machine::Progress progress = machine_.run(budget);
  device_busy_ = progress == Machine::Progress::kBudget ||
                 progress == Machine::Progress::kCompleted || progress == Machine::Progress::kFault;
  deliver();
  return device_busy_ || machine_.faults().size() != faults ||
         machine_.engine().instructions() != before;
}

void Server::look_for_sleepers() {
  const uint64_t now = verify::monotonic_ns();
  for (Rank& r : ranks_) {
    if (settled(r)) continue;
    const uint64_t silent_ms = (now - r.heard_ns) / kMillisecond;
    const bool threads =
        r.channels.size() > 1 && silent_ms > 20;  // a second thread that has nothing to say
    const bool sleeps =
        config_.sleepers_settle && r.pid != 0 && silent_ms > 30 && process_state(r.pid) == 'S';
    if (threads || sleeps || silent_ms > config_.patience_ms) {
      r.left_out = true;
      deterministic_ = false;
    }
  }
}

Server::Step Server::step(int wait_ms, std::span<pollfd> others) {
  bool any = false;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    for (std::size_t t = 0; t < ranks_[i].channels.size(); ++t) {
      const auto state = ranks_[i].channels[t]->state;
      if (state == Channel::State::kRunning || state == Channel::State::kBlocked) {
        read(static_cast<int>(i), static_cast<uint32_t>(t));
      }
    }
    any |= connected(static_cast<int>(i));
  }
  if (!any) return Step::kGone;

  const auto wait = [&](int ms) {
    std::vector<pollfd> fds(others.begin(), others.end());
    for (const Rank& r : ranks_) {
      for (const auto& c : r.channels) {
        if (c->state != Channel::State::kClosed) fds.push_back({c->socket.get(), POLLIN, 0});
      }
    }
    ::poll(fds.data(), fds.size(), ms);
    std::copy(fds.begin(), fds.begin() + static_cast<std::ptrdiff_t>(others.size()),
              others.begin());
    return Step::kInput;
  };
  if (!settled()) {
    wait(std::min(wait_ms, 10));
    look_for_sleepers();
    return Step::kInput;
  }

  struct Pick {
    int rank;
    uint32_t thread;
  };
  std::vector<Pick> queued;
  bool blocked = false;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    for (std::size_t t = 0; t < ranks_[i].channels.size(); ++t) {
      const auto state = ranks_[i].channels[t]->state;
      if (state == Channel::State::kQueued)
        queued.push_back({static_cast<int>(i), static_cast<uint32_t>(t)});
      blocked |= state == Channel::State::kBlocked;
    }
  }
  const Schedule& schedule = config_.schedule;
  if (schedule.kind == ScheduleKind::kDelayRank) {
    const auto punctual = std::count_if(queued.begin(), queued.end(),
                                        [&](Pick p) { return p.rank != schedule.delayed_rank; });
    if (punctual != 0)
      std::erase_if(queued, [&](Pick p) { return p.rank == schedule.delayed_rank; });
    if (punctual == 0 && !queued.empty() && device_busy_ && run_device(1 << 12))
      return Step::kProgress;
  }
  if (!queued.empty()) {
    if (schedule.kind == ScheduleKind::kRoundRobin) {
      const Pick p = queued[turn_++ % queued.size()];
      serve(p.rank, p.thread);
      return Step::kProgress;
    }
    // Half of the time the devices get ahead of the hosts.
    if (device_busy_ && draw() % 2 == 0) {
      run_device(uint64_t{1} << (4 + draw() % 10));
      return Step::kProgress;
    }
    const Pick p = queued[draw() % queued.size()];
    serve(p.rank, p.thread);
    device_busy_ = true;
    return Step::kProgress;
  }
  if (run_device(1 << 20)) return Step::kProgress;
  if (!settled()) return Step::kProgress;  // a completion or a host function was handed over
  const bool all_waiting = std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
    return r.left_out && !r.channels.empty() && r.channels[0]->state == Channel::State::kRunning;
  });
  const bool host_works = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
    return !r.host_calls.empty() ||
           !r.host_running.empty();  // a helper thread is at work, or about to ask
  });
  if (blocked && all_waiting && !host_works) return Step::kStuck;
  return wait(wait_ms);
}

}  // namespace sculler::emu
