#include "verify/socket_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/strings.h"

namespace sculler::verify {

uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

SocketRanks::SocketRanks(std::vector<rank::UniqueFd> sockets)
    : sockets_(std::move(sockets)), closed_(sockets_.size(), false) {
  // A rank that does not read must not block the checker.
  for (const rank::UniqueFd& s : sockets_) {
    ::fcntl(s.get(), F_SETFL, ::fcntl(s.get(), F_GETFL) | O_NONBLOCK);
    rank::stamp_packets(s.get());
  }
}

Status SocketRanks::send(int rank, const rank::Message& message, int fd) {
  return rank::send_message(sockets_.at(static_cast<std::size_t>(rank)).get(), message, fd);
}

Ranks::Event SocketRanks::receive(uint64_t deadline_ns) {
  Event event;
  const std::size_t n = sockets_.size();
  for (;;) {
    std::vector<pollfd> polled;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t r = (next_ + i) % n;
      polled.push_back({closed_[r] ? -1 : sockets_[r].get(), POLLIN, 0});
    }
    const uint64_t now = monotonic_ns();
    if (now >= deadline_ns) return event;
    const uint64_t left = deadline_ns - now;
    const timespec wait{static_cast<time_t>(left / 1'000'000'000u),
                        static_cast<long>(left % 1'000'000'000u)};
    const int ready = ::ppoll(polled.data(), n, &wait, nullptr);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    for (std::size_t i = 0; i < n; ++i) {
      if (polled[i].revents == 0) continue;
      const std::size_t r = (next_ + i) % n;
      rank::Packet packet = rank::receive_message(sockets_[r].get(), true);
      event.received_ns = packet.sent_ns != 0 ? packet.sent_ns : monotonic_ns();
      if (packet.kind == rank::Packet::Kind::kEmpty) continue;
      event.rank = static_cast<int>(r);
      event.message = packet.message;
      event.fd = std::move(packet.fd);
      if (packet.kind == rank::Packet::Kind::kClosed) {
        closed_[r] = true;
        event.kind = Event::Kind::kClosed;
      } else {
        event.kind = packet.kind == rank::Packet::Kind::kMessage ? Event::Kind::kMessage
                                                                 : Event::Kind::kMalformed;
      }
      next_ = (r + 1) % n;
      return event;
    }
  }
}

Result<std::vector<rank::UniqueFd>> inherited_sockets(const char* list, int n_ranks) {
  if (list == nullptr) {
    return fail(ErrorCode::kUsage, "SCULLER_CONTROL_FDS is not set",
                "start this program through sculler-eval");
  }
  std::vector<rank::UniqueFd> sockets;
  for (const std::string_view part : split(list, ',')) {
    const auto number = parse_int(part);
    int type = 0;
    socklen_t size = sizeof type;
    if (!number || *number < 3 || *number > 1 << 20 ||
        ::getsockopt(static_cast<int>(*number), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        type != SOCK_SEQPACKET) {
      return fail(ErrorCode::kUsage, "SCULLER_CONTROL_FDS: '" + std::string(part) +
                                         "' is no SOCK_SEQPACKET descriptor");
    }
    const int fd = static_cast<int>(*number);
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    sockets.emplace_back(fd);
  }
  if (sockets.size() != static_cast<std::size_t>(n_ranks))
    return fail(ErrorCode::kUsage, "SCULLER_CONTROL_FDS names " + std::to_string(sockets.size()) +
                                       " descriptors, not " + std::to_string(n_ranks));
  return sockets;
}

}  // namespace sculler::verify
