// Whether an endpoint answers. A short outage is waited out by retries; a long one ends the run
// instead of spinning.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "llm/provider.h"

namespace sculler::llm {

class Health {
 public:
  // Down after `after` failures one after another (0: never) over at least `grace_ns`.
  Health(int64_t after, int64_t grace_ns) : after_(after), grace_ns_(grace_ns) {}

  void good();
  // Counts kUnreachable, kServer, kTimeout, kHalf, kMalformed, kEncoding, kRateLimited and
  // kRejected; kRefused and kSetup bring it down at once. Other faults say nothing about it.
  void bad(const Failure& failure, int64_t now_ns);
  // A server asked to wait: nobody sends before `until_ns`.
  void pause(int64_t until_ns);
  [[nodiscard]] int64_t paused_until() const;

  [[nodiscard]] bool down() const;
  // The failure of a call to an endpoint that is down: what it said last.
  [[nodiscard]] Failure why(const std::string& model) const;

 private:
  const int64_t after_, grace_ns_;
  mutable std::mutex mutex_;
  int64_t streak_ = 0, since_ns_ = 0, paused_until_ = 0;
  bool down_ = false;
  Failure last_{};
};

}  // namespace sculler::llm
