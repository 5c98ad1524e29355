// Byte transport of wire messages over a connected local socket, stream or seqpacket, with
// descriptors beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sculler::emu::wire {

// Sends all bytes in pieces, `fd` (or -1) beside the first. False when the peer is gone. Blocks.
bool send_all(int socket, std::span<const uint8_t> bytes, int fd = -1);

// What has been received and not yet been consumed.
class Inbox {
 public:
  enum class Got : uint8_t { kSome, kNothing, kEnd };
  ~Inbox();
  Inbox() = default;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  // Receives once; `wait` false never blocks (kNothing). Descriptors are queued.
  Got receive(int socket, bool wait);
  [[nodiscard]] std::span<const uint8_t> bytes() const {
    return {data_.data() + begin_, data_.size() - begin_};
  }
  void consume(std::size_t n);
  // The oldest descriptor received, owned by the caller, or -1.
  int take_fd();

 private:
  std::vector<uint8_t> data_;
  std::size_t begin_ = 0;
  std::vector<int> fds_;
};

}  // namespace sculler::emu::wire
