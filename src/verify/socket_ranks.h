// Ranks behind SOCK_SEQPACKET sockets of this host.
#pragma once

#include <vector>

#include "verify/session.h"

namespace sculler::verify {

class SocketRanks final : public Ranks {
 public:
  // sockets[r]: the trusted end of rank r, owned.
  explicit SocketRanks(std::vector<rank::UniqueFd> sockets);
  Status send(int rank, const rank::Message& message, int fd) override;
  Event receive(uint64_t deadline_ns) override;

 private:
  std::vector<rank::UniqueFd> sockets_;
  std::vector<bool> closed_;
  std::size_t next_ = 0;  // the rank looked at first, so that a talkative one starves nobody
};

// "5,7" -> descriptors; SCULLER_CONTROL_FDS.
Result<std::vector<rank::UniqueFd>> inherited_sockets(const char* list, int n_ranks);
uint64_t monotonic_ns();

}  // namespace sculler::verify
