// Any requests of one rank to the virtual machine, whole or cut, with another rank that is honest:
// the machine goes on, and the honest rank can still allocate. Input: records of an operation, a
// length and that many bytes; what is left is sent as it is.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emu/server/options.h"
#include "emu/server/server.h"

namespace {

using namespace sculler;
using namespace sculler::emu;

struct Peer {
  int fd = -1;
  uint32_t sequence = 0;
  wire::Inbox inbox{};
  void raw(wire::Op op, const uint8_t* body, size_t bytes, int passed = -1) {
    wire::Header header;
    header.op = op;
    header.bytes = static_cast<uint32_t>(bytes);
    header.sequence = ++sequence;
    std::vector<uint8_t> all(sizeof header + bytes);
    std::memcpy(all.data(), &header, sizeof header);
    if (bytes > 0) std::memcpy(all.data() + sizeof header, body, bytes);
    (void)wire::send_all(fd, all, passed);
  }
  template <class Request>
  void send(const Request& request) {
    const auto body = wire::encode(request);
    raw(Request::kOp, body.data(), body.size());
  }
  // True where a whole reply came; it is dropped.
  bool reply() {
    while (inbox.receive(fd, false) == wire::Inbox::Got::kSome) {}
    wire::ReplyHeader header;
    const auto data = inbox.bytes();
    if (data.size() < sizeof header) return false;
    std::memcpy(&header, data.data(), sizeof header);
    if (data.size() < sizeof header + header.bytes) return false;
    inbox.consume(sizeof header + header.bytes);
    while (inbox.take_fd() >= 0) {}
    return header.status == 0;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  VmOptions options;
  options.memory_bytes = 4 << 20;
  options.step_limit = 100'000;
  auto vm = make_vm(options, 2, false);
  if (!vm) std::abort();
  ServerConfig config;
  config.patience_ms = 200;
  Server server(*(*vm)->machine, config, 2);
  Peer peers[2];
  for (int r = 0; r < 2; ++r) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::abort();
    server.attach(r, rank::UniqueFd(pair[0]));
    peers[r].fd = pair[1];
    ::fcntl(pair[1], F_SETFL, O_NONBLOCK);
  }
  const auto serve = [&](int rank, int steps) {
    server.set_waiting_outside(rank, false);
    server.set_waiting_outside(1 - rank, true);
    bool came = false;
    for (int i = 0; i < steps && !came && server.connected(rank); ++i) {
      server.step(0);
      came = peers[rank].reply();
    }
    return came;
  };
  for (int r = 0; r < 2; ++r) {
    peers[r].send(wire::Hello{});
    if (!serve(r, 50)) std::abort();
  }
  int requests = 0;
  while (size >= 4 && requests++ < 24 && server.connected(1)) {
    uint16_t op = 0, length = 0;
    std::memcpy(&op, data, 2);
    std::memcpy(&length, data + 2, 2);
    data += 4;
    size -= 4;
    const size_t n = std::min<size_t>(length % 2048, size);
    peers[1].raw(static_cast<wire::Op>(op & 0xff), data, n, (op & 0x8000) != 0 ? peers[1].fd : -1);
    data += n;
    size -= n;
    serve(1, 20);
  }
  if (size > 0 && server.connected(1)) {
    (void)wire::send_all(peers[1].fd, {data, std::min<size_t>(size, 4096)});
    serve(1, 5);
  }
  ::close(peers[1].fd);
  server.drop(1, "");
  wire::Allocate allocate;
  allocate.bytes = 64;
  peers[0].send(allocate);
  if (!serve(0, 200)) std::abort();
  ::close(peers[0].fd);
  return 0;
}
