#include "rank/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include "base/strings.h"

namespace sculler::rank {

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void set_text(Message& message, std::string_view text) {
  const std::size_t n = std::min(text.size(), kTextBytes);
  std::memcpy(message.text, text.data(), n);
  message.text_bytes = static_cast<uint32_t>(n);
}

std::string text_of(const Message& message) {
  const std::size_t n = std::min<std::size_t>(message.text_bytes, kTextBytes);
  return printable(std::string_view(message.text, n));
}

Status send_message(int socket, const Message& message, int fd) {
  Message copy = message;
  iovec part{&copy, sizeof copy};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  for (;;) {
    const ssize_t n = ::sendmsg(socket, &header, MSG_NOSIGNAL);
    if (n == static_cast<ssize_t>(sizeof copy)) return {};
    if (n < 0 && errno == EINTR) continue;
    const int error = n < 0 ? errno : EMSGSIZE;
    return fail(ErrorCode::kIo, std::string("control socket: ") + std::strerror(error));
  }
}

namespace {

uint64_t nanoseconds(const timespec& t) {
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

// The stamp is of the settable clock. Read between two looks at the other one, and never earlier
// than the truth; 0 where this thread was interrupted each time.
uint64_t as_monotonic(const timespec& stamp) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    timespec before{}, settable{}, after{};
    clock_gettime(CLOCK_MONOTONIC, &before);
    clock_gettime(CLOCK_REALTIME, &settable);
    clock_gettime(CLOCK_MONOTONIC, &after);
    if (nanoseconds(after) - nanoseconds(before) > 2000) continue;
    const uint64_t now = nanoseconds(settable), then = nanoseconds(stamp);
    // A clock that was set in between.
    if (then > now || now - then > nanoseconds(after)) return 0;
    return nanoseconds(after) - (now - then);
  }
  return 0;
}

}  // namespace

void stamp_packets(int socket) {
  const int on = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

Packet receive_message(int socket, bool non_blocking) {
  Packet packet;
  struct Buffer {
    Message message;
    char surplus;
  } buffer{};
  iovec part{&buffer, sizeof(Message) + 1};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int)) + CMSG_SPACE(sizeof(timespec))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | (non_blocking ? MSG_DONTWAIT : 0));
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    packet.kind =
        errno == EAGAIN || errno == EWOULDBLOCK ? Packet::Kind::kEmpty : Packet::Kind::kClosed;
    return packet;
  }
  bool surplus = (header.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
      timespec stamp{};
      std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
      packet.sent_ns = as_monotonic(stamp);
    }
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      if (packet.fd) surplus = true;
      packet.fd = UniqueFd(fd);
    }
  }
  // A packet of no bytes cannot be told from the end; both end the conversation.
  if (n == 0) {
    packet.kind = Packet::Kind::kClosed;
    return packet;
  }
  packet.message = buffer.message;
  const bool good = n == static_cast<ssize_t>(sizeof(Message)) &&
                    (header.msg_flags & MSG_TRUNC) == 0 && !surplus &&
                    packet.message.magic == kMagic && packet.message.text_bytes <= kTextBytes;
  packet.kind = good ? Packet::Kind::kMessage : Packet::Kind::kMalformed;
  if (!good) packet.fd.reset();
  return packet;
}

}  // namespace sculler::rank
