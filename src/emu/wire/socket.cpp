#include "emu/wire/socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "emu/wire/message.h"

namespace sculler::emu::wire {
namespace {
constexpr std::size_t kMaxFds = 4;
}

bool send_all(int socket, std::span<const uint8_t> bytes, int fd) {
  while (!bytes.empty()) {
    const std::size_t piece = std::min<std::size_t>(bytes.size(), kPieceBytes);
    iovec vec{const_cast<uint8_t*>(bytes.data()), piece};
    msghdr message{};
    message.msg_iov = &vec;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (fd >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    fd = -1;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

Inbox::~Inbox() {
  for (int fd : fds_) ::close(fd);
}

Inbox::Got Inbox::receive(int socket, bool wait) {
  if (begin_ > 0 && begin_ == data_.size()) {
    data_.clear();
    begin_ = 0;
  } else if (begin_ > (1u << 20)) {
    data_.erase(data_.begin(), data_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }
  const std::size_t old = data_.size();
  data_.resize(old + kPieceBytes);
  iovec vec{data_.data() + old, kPieceBytes};
  msghdr message{};
  message.msg_iov = &vec;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (got < 0 && errno == EINTR);
  data_.resize(old + (got > 0 ? static_cast<std::size_t>(got) : 0));
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Got::kNothing : Got::kEnd;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
      if (fds_.size() < kMaxFds) {
        fds_.push_back(fd);
      } else {
        ::close(fd);
      }
    }
  }
  return got == 0 ? Got::kEnd : Got::kSome;
}

void Inbox::consume(std::size_t n) { begin_ += n; }

int Inbox::take_fd() {
  if (fds_.empty()) return -1;
  const int fd = fds_.front();
  fds_.erase(fds_.begin());
  return fd;
}

}  // namespace sculler::emu::wire
