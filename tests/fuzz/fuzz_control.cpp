// Any packets on the control sockets: the session ends with a status, in bounded time, and holds
// no more than the job needs. Input: records of a byte (which rank, what kind of event) and, for
// messages, the fields that matter; or the bytes of one packet through a real socket.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "verify/fake_ranks.h"
#include "verify/socket_ranks.h"

namespace {

using namespace sculler;
using namespace sculler::verify;

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), left_(size) {}
  template <class T>
  T take() {
    T value{};
    const size_t n = std::min(left_, sizeof value);
    if (n > 0) std::memcpy(&value, at_, n);
    at_ += n;
    left_ -= n;
    return value;
  }
  [[nodiscard]] size_t left() const { return left_; }
  const uint8_t* at() const { return at_; }
  void skip(size_t n) {
    at_ += std::min(n, left_);
    left_ -= std::min(n, left_);
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

JobSpec job() {
  JobSpec j;
  j.target = Target::kCpu;
  j.n_ranks = 2;
  j.n_sets = 2;
  j.n_contents = 2;
  j.seed = 1;
  j.clock.calibrations = 1;
  j.workload = true;
  BufferSpec in, out;
  in.name = "A";
  in.role = Role::kInput;
  in.elements = 4;
  in.bytes = 16;
  out = in;
  out.name = "C";
  out.role = Role::kOutput;
  j.buffers = {in, out};
  j.iterations = {IterationSpec{}, IterationSpec{}};
  return j;
}

// Ranks that are honest until the input says otherwise: 0x80 set in a byte replaces or adds to
// what an honest rank would have said.
void session(Bytes input) {
  const JobSpec j = job();
  test::FakeDevice device;
  test::FakeRanks ranks(j, device);
  int budget = 1000;
  ranks.edit = [&](int, test::Message m) -> std::vector<test::Message> {
    if (input.left() == 0) return {m};
    const auto what = input.take<uint8_t>();
    if ((what & 0x80) == 0) return {m};
    std::vector<test::Message> out;
    if ((what & 1) != 0) out.push_back(m);
    test::Message lie = m;
    if ((what & 2) != 0) lie.kind = static_cast<rank::Kind>(input.take<uint8_t>());
    if ((what & 4) != 0) lie.a = input.take<int32_t>();
    if ((what & 8) != 0) lie.b = input.take<int32_t>();
    if ((what & 16) != 0) lie.u[input.take<uint8_t>() % 4] = input.take<uint64_t>();
    if ((what & 32) != 0) lie.text_bytes = input.take<uint32_t>();
    for (int i = (what & 64) != 0 ? 50 : 1; i > 0 && budget > 0; --i, --budget) out.push_back(lie);
    return out;
  };
  const auto outcome = run_session(j, ranks, device);
  if (outcome.status.empty()) std::abort();
  if (print_outcome(outcome).empty()) std::abort();
}

// Whole or cut packets, with descriptors beside them, into the real receiver.
void packets(Bytes input) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) != 0) return;
  int sent = 0;
  while (input.left() > 0 && sent < 32) {
    const auto head = input.take<uint16_t>();
    const size_t n = std::min<size_t>(head % 700, input.left());
    rank::Message m;
    const bool whole = (head & 0x8000) != 0;
    if (whole) std::memcpy(&m, input.at(), std::min(n, sizeof m));
    if ((head & 0x4000) != 0) m.magic = rank::kMagic;
    std::vector<uint8_t> bytes(input.at(), input.at() + n);
    iovec part{whole ? static_cast<void*>(&m) : bytes.data(), whole ? sizeof m : n};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    if (const int fds = (head >> 10) & 7; fds > 0) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(static_cast<size_t>(fds) * sizeof(int));
      cmsghdr* c = CMSG_FIRSTHDR(&header);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(static_cast<size_t>(fds) * sizeof(int));
      for (int i = 0; i < fds; ++i)
        std::memcpy(CMSG_DATA(c) + static_cast<size_t>(i) * sizeof(int), &pair[0], sizeof(int));
    }
    if (::sendmsg(pair[1], &header, MSG_NOSIGNAL) >= 0) ++sent;
    input.skip(n);
  }
  ::close(pair[1]);
  std::vector<rank::UniqueFd> sockets;
  sockets.emplace_back(pair[0]);
  SocketRanks ranks(std::move(sockets));
  for (int i = 0; i < 40; ++i) {
    const auto event = ranks.receive(monotonic_ns() + 1'000'000);
    if (event.kind == Ranks::Event::Kind::kMessage) {
      if (event.message.magic != rank::kMagic || event.message.text_bytes > rank::kTextBytes)
        std::abort();
      (void)rank::text_of(event.message);
    }
    if (event.kind == Ranks::Event::Kind::kClosed || event.kind == Ranks::Event::Kind::kTimeout)
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Bytes rest(data + 1, size - 1);
  if (data[0] % 2 == 0) session(rest);
  else packets(rest);
  return 0;
}
