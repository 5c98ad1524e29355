// One control socket: whole messages, at most one descriptor beside each.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "rank/protocol.h"

namespace sculler::rank {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }
  void reset();
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Packet {
  enum class Kind : uint8_t {
    kMessage,
    kClosed,     // the peer is gone
    kEmpty,      // non-blocking socket, nothing there
    kMalformed,  // wrong size, wrong magic, more than one descriptor, text too long
  };
  Kind kind = Kind::kEmpty;
  Message message{};
  UniqueFd fd{};
  // CLOCK_MONOTONIC when the peer's send was in the kernel, by the kernel's own stamp: no peer can
  // change it, and it does not wait for the reader to be woken. 0: not stamped.
  uint64_t sent_ns = 0;
};

// Copies at most kTextBytes; sets text_bytes.
void set_text(Message& message, std::string_view text);
// Bounded, printable part of what a peer wrote.
std::string text_of(const Message& message);

// Error kIo where the peer is gone or its queue is full (non-blocking sockets). Never raises
// SIGPIPE.
Status send_message(int socket, const Message& message, int fd = -1);
// From now on packets that arrive here are stamped (Packet::sent_ns).
void stamp_packets(int socket);
// Blocks unless `non_blocking`. Surplus descriptors are closed.
Packet receive_message(int socket, bool non_blocking);

}  // namespace sculler::rank
