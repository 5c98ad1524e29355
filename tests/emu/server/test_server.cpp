// The socket loop with peers that speak the protocol, break it, or go away; a real machine behind
// it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "emu/server/options.h"
#include "emu/server/report.h"
#include "emu/server/server.h"

namespace sculler::emu {
namespace {

constexpr const char* kPtx = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry store(.param .u64 p, .param .u32 v)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [v];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
.visible .entry spin(.param .u64 p)
{
  .reg .pred %q;
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
L:
  ld.volatile.global.u32 %r1, [%rd2];
  setp.eq.u32 %q, %r1, 0;
  @%q bra L;
  ret;
}
)";

// A rank that a test plays by hand.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  ~Peer() { ::close(fd_); }
  template <class Request>
  void send(const Request& request) {
    raw(Request::kOp, wire::encode(request));
  }
  void raw(wire::Op op, const std::vector<uint8_t>& body, int fd = -1) {
    wire::Header header;
    header.op = op;
    header.bytes = static_cast<uint32_t>(body.size());
    header.sequence = ++sequence_;
    std::vector<uint8_t> all(sizeof header + body.size());
    std::memcpy(all.data(), &header, sizeof header);
    if (!body.empty()) std::memcpy(all.data() + sizeof header, body.data(), body.size());
    wire::send_all(fd_, all, fd);
  }
  void bytes(const std::vector<uint8_t>& data) { wire::send_all(fd_, data); }
  // False: no reply yet.
  bool reply(int& status, std::vector<uint8_t>& body) {
    while (inbox_.receive(fd_, false) == wire::Inbox::Got::kSome) {}
    wire::ReplyHeader header;
    const auto data = inbox_.bytes();
    if (data.size() < sizeof header) return false;
    std::memcpy(&header, data.data(), sizeof header);
    if (data.size() < sizeof header + header.bytes) return false;
    EXPECT_EQ(header.sequence, sequence_);
    status = header.status;
    body.assign(data.begin() + sizeof header,
                data.begin() + static_cast<std::ptrdiff_t>(sizeof header + header.bytes));
    inbox_.consume(sizeof header + header.bytes);
    return true;
  }
  bool closed() { return inbox_.receive(fd_, false) == wire::Inbox::Got::kEnd; }

 private:
  int fd_;
  uint32_t sequence_ = 0;
  wire::Inbox inbox_;
};

class ServerTest : public ::testing::Test {
 protected:
  void start(int n_ranks, ScheduleKind kind = ScheduleKind::kRoundRobin, uint64_t seed = 1) {
    peers_.clear();
    server_.reset();
    vm_.reset();  // one machine a process: its addresses are fixed
    VmOptions options;
    options.memory_bytes = 64 << 20;
    options.schedule = {kind, seed, 0};
    auto vm = make_vm(options, n_ranks, false);
    ASSERT_TRUE(vm) << vm.error().text();
    vm_ = std::move(*vm);
    ServerConfig config;
    config.schedule = options.schedule;
    config.patience_ms = 2000;
    server_ = std::make_unique<Server>(*vm_->machine, config, n_ranks);
    for (int r = 0; r < n_ranks; ++r) {
      int pair[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
      server_->attach(r, rank::UniqueFd(pair[0]));
      peers_.push_back(std::make_unique<Peer>(pair[1]));
    }
  }
  // Steps until the peer has its reply; -1 where none comes.
  template <class Request>
  int call(int rank, const Request& request, typename Request::Reply& reply) {
    peers_[static_cast<std::size_t>(rank)]->send(request);
    return wait(rank, reply);
  }
  template <class Request>
  int call(int rank, const Request& request) {
    typename Request::Reply reply;
    return call(rank, request, reply);
  }
  template <class Reply>
  int wait(int rank, Reply& reply) {
    int status = 0;
    std::vector<uint8_t> body;
    for (int i = 0; i < 200; ++i) {
      if (peers_[static_cast<std::size_t>(rank)]->reply(status, body)) {
        if (status == 0) { EXPECT_TRUE(wire::decode(body, reply)); }
        return status;
      }
      last_ = server_->step(1);
      if (last_ == Server::Step::kStuck || last_ == Server::Step::kGone) return -1;
    }
    return -1;
  }
  void greet(int rank) {
    wire::HelloReply reply;
    for (std::size_t r = 0; r < peers_.size(); ++r)
      server_->set_waiting_outside(static_cast<int>(r), static_cast<int>(r) != rank);
    ASSERT_EQ(call(rank, wire::Hello{}, reply), 0);
    EXPECT_EQ(reply.rank, rank);
    EXPECT_EQ(reply.n_ranks, static_cast<int>(peers_.size()));
  }
  uint64_t allocate(int rank, uint64_t bytes) {
    wire::Allocate request;
    request.bytes = bytes;
    wire::AddressReply reply;
    EXPECT_EQ(call(rank, request, reply), 0);
    return reply.address;
  }
  uint64_t kernel(int rank, const char* name, wire::KernelReply& info) {
    wire::LoadModule load;
    load.ptx = kPtx;
    wire::ModuleReply module;
    EXPECT_EQ(call(rank, load, module), 0);
    wire::GetKernel get;
    get.module = module.module;
    get.name = name;
    EXPECT_EQ(call(rank, get, info), 0) << vm_->machine->explain(rank);
    return info.kernel;
  }

  std::unique_ptr<Vm> vm_;
  std::unique_ptr<Server> server_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Server::Step last_ = Server::Step::kProgress;
};

TEST_F(ServerTest, AKernelWritesAndACopyBringsItBack) {
  start(1);
  greet(0);
  const uint64_t at = allocate(0, 256);
  wire::KernelReply info;
  wire::Launch launch;
  launch.kernel = kernel(0, "store", info);
  ASSERT_EQ(info.param_offsets.size(), 2u);
  launch.params.resize(info.all_param_bytes);
  const uint32_t value = 1234567;
  std::memcpy(launch.params.data() + info.param_offsets[0], &at, 8);
  std::memcpy(launch.params.data() + info.param_offsets[1], &value, 4);
  EXPECT_EQ(call(0, launch), 0);
  wire::CopyOut out;
  out.from = at;
  out.from_pitch = out.width = 4;
  wire::BytesReply bytes;
  ASSERT_EQ(call(0, out, bytes), 0);
  ASSERT_EQ(bytes.data.size(), 4u);
  uint32_t got = 0;
  std::memcpy(&got, bytes.data.data(), 4);
  EXPECT_EQ(got, value);
}

TEST_F(ServerTest, AWaitThatNothingCanEndIsStuck) {
  start(1);
  greet(0);
  const uint64_t at = allocate(0, 4);
  wire::Fill zero;
  zero.to = at;
  zero.width = zero.pitch = 4;
  zero.blocking = true;
  EXPECT_EQ(call(0, zero), 0);
  wire::KernelReply info;
  wire::Launch launch;
  launch.kernel = kernel(0, "spin", info);
  launch.params.resize(info.all_param_bytes);
  std::memcpy(launch.params.data(), &at, 8);
  EXPECT_EQ(call(0, launch), 0);
  EXPECT_EQ(call(0, wire::DeviceSynchronize{}), -1);
  EXPECT_EQ(last_, Server::Step::kStuck);
  const verify::Outcome outcome = deadlock(*vm_->machine, vm_->observer.get());
  EXPECT_EQ(outcome.status, verify::status::kDeadlock);
  EXPECT_NE(outcome.message.find("spin"), std::string::npos) << outcome.message;
}

TEST_F(ServerTest, ARankThatBreaksTheProtocolIsDroppedAndTheOtherGoesOn) {
  const std::vector<std::vector<uint8_t>> nonsense = {
      std::vector<uint8_t>(64, 0xff),                 // no magic
      std::vector<uint8_t>(sizeof(wire::Header), 0),  // all zero
  };
  for (const auto& bytes : nonsense) {
    start(2);
    greet(0);
    greet(1);
    peers_[1]->bytes(bytes);
    server_->set_waiting_outside(1, false);
    for (int i = 0; i < 50 && server_->connected(1); ++i) server_->step(1);
    EXPECT_FALSE(server_->connected(1));
    EXPECT_FALSE(server_->report(1).broken.empty());
    EXPECT_TRUE(peers_[1]->closed());
    EXPECT_NE(allocate(0, 64), 0u);
  }
}

TEST_F(ServerTest, RequestsBeforeTheGreetingAndBadFieldsAreRefused) {
  start(1);
  peers_[0]->send(wire::DeviceSynchronize{});
  for (int i = 0; i < 50 && server_->connected(0); ++i) server_->step(1);
  EXPECT_FALSE(server_->connected(0));

  start(1);
  greet(0);
  peers_[0]->raw(wire::Op::kLaunch, {1, 2, 3});
  for (int i = 0; i < 50 && server_->connected(0); ++i) server_->step(1);
  EXPECT_FALSE(server_->connected(0));
  EXPECT_NE(server_->report(0).broken.find("fields"), std::string::npos);

  start(1);
  greet(0);
  peers_[0]->raw(static_cast<wire::Op>(9999), {});
  for (int i = 0; i < 50 && server_->connected(0); ++i) server_->step(1);
  EXPECT_FALSE(server_->connected(0));
}

TEST_F(ServerTest, KernelsAndInternalMemoryOfOthersAreOutOfReach) {
  start(2);
  greet(0);
  wire::KernelReply info;
  const uint64_t id = kernel(0, "store", info);
  wire::AllocateInternal internal;
  internal.bytes = 64;
  wire::AddressReply place;
  ASSERT_EQ(call(0, internal, place), 0);
  greet(1);
  wire::Launch launch;
  launch.kernel = id;
  launch.params.resize(info.all_param_bytes);
  EXPECT_NE(call(1, launch), 0);
  wire::WriteInternal write;
  write.address = place.address;
  write.data = {1, 2, 3};
  EXPECT_EQ(call(1, write), -1);
  EXPECT_FALSE(server_->connected(1));
}

// Whatever bytes come, the server stays and the other rank's device works.
TEST_F(ServerTest, RandomRequestsNeverHurtTheVm) {
  std::mt19937_64 random(7);
  const uint16_t ops[] = {1,   3,   4,   16,  17,  18,  19,  20,  32,  33,  34,  35,
                          48,  49,  50,  51,  64,  65,  66,  67,  68,  69,  80,  81,
                          82,  83,  84,  85,  96,  97,  98,  99,  100, 112, 113, 114,
                          115, 116, 117, 118, 119, 144, 145, 146, 147, 148, 149, 150,
                          151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 161, 176};
  for (int round = 0; round < 60; ++round) {
    start(2, ScheduleKind::kRandom, static_cast<uint64_t>(round));
    greet(0);
    greet(1);
    server_->set_waiting_outside(0, true);
    for (int i = 0; i < 40 && server_->connected(1); ++i) {
      std::vector<uint8_t> body(random() % 120);
      for (uint8_t& b : body) b = static_cast<uint8_t>(random() % 3 == 0 ? random() : 0);
      peers_[1]->raw(static_cast<wire::Op>(ops[random() % std::size(ops)]), body);
      server_->set_waiting_outside(1, false);
      int status = 0;
      std::vector<uint8_t> reply;
      for (int step = 0; step < 20 && !peers_[1]->reply(status, reply) && server_->connected(1);
           ++step)
        server_->step(0);
    }
    server_->drop(1, "");
    server_->set_waiting_outside(0, false);
    EXPECT_NE(allocate(0, 64), 0u);
  }
}

TEST_F(ServerTest, UnfinishedRequestsAreBounded) {
  start(2);
  greet(0);
  greet(1);
  server_->set_waiting_outside(0, true);
  std::vector<int> threads;
  for (int i = 0; i < 3; ++i) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    peers_[1]->raw(wire::Op::kChannel, {}, pair[1]);
    ::close(pair[1]);
    threads.push_back(pair[0]);
  }
  wire::Header header;
  header.op = wire::Op::kLoadModule;
  header.bytes = wire::kMaxMessageBytes;
  for (const int fd : threads) ::send(fd, &header, sizeof header, MSG_NOSIGNAL);
  // Three modules of which the last byte never comes.
  const std::vector<uint8_t> zeroes(wire::kPieceBytes);
  uint64_t sent = 0;
  for (int i = 0; i < 20000 && server_->connected(1); ++i) {
    for (const int fd : threads) {
      if (sent / threads.size() > wire::kMaxMessageBytes - 4 * wire::kPieceBytes) break;
      const ssize_t n = ::send(fd, zeroes.data(), zeroes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<uint64_t>(n);
    }
    server_->step(0);
  }
  EXPECT_FALSE(server_->connected(1));
  EXPECT_NE(server_->report(1).broken.find("unfinished"), std::string::npos)
      << server_->report(1).broken << " after " << sent;
  EXPECT_LT(sent, uint64_t{80} << 20);
  for (const int fd : threads) ::close(fd);
  server_->set_waiting_outside(0, false);
  EXPECT_NE(allocate(0, 64), 0u);
}

TEST_F(ServerTest, SurplusDescriptorsAreClosed) {
  start(2);
  greet(0);
  greet(1);
  const auto open = [] {
    int count = 0;
    for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return count;
  };
  const int before = open();
  for (int i = 0; i < 100 && server_->connected(1); ++i) {
    peers_[1]->raw(wire::Op::kMemoryInfo, {}, 0);
    wire::MemoryReply reply;
    server_->set_waiting_outside(0, true);
    EXPECT_EQ(wait(1, reply), 0);
  }
  EXPECT_LE(open(), before + 4);
}

TEST_F(ServerTest, ADeadRankIsNoticed) {
  start(2);
  greet(0);
  greet(1);
  peers_[1].reset();
  server_->set_waiting_outside(1, false);
  for (int i = 0; i < 50 && server_->connected(1); ++i) server_->step(1);
  EXPECT_FALSE(server_->connected(1));
  EXPECT_TRUE(server_->report(1).broken.empty());
  EXPECT_NE(allocate(0, 64), 0u);
}

}  // namespace
}  // namespace sculler::emu
