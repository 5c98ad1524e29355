#include "llm/health.h"

#include <fmt/format.h>

#include <algorithm>

namespace sculler::llm {

void Health::good() {
  const std::lock_guard lock(mutex_);
  streak_ = 0;
}

void Health::bad(const Failure& failure, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  switch (failure.fault) {
    case Fault::kRefused:
    case Fault::kSetup:
      if (!down_) last_ = failure;
      down_ = true;
      return;
    case Fault::kUnreachable:
    case Fault::kServer:
    case Fault::kTimeout:
    case Fault::kHalf:
    case Fault::kMalformed:
    case Fault::kEncoding:
    case Fault::kRateLimited:
    case Fault::kRejected: break;
    default: return;
  }
  if (down_) return;
  if (streak_++ == 0) since_ns_ = now_ns;
  last_ = failure;
  if (after_ > 0 && streak_ >= after_ && now_ns - since_ns_ >= grace_ns_) down_ = true;
}

void Health::pause(int64_t until_ns) {
  const std::lock_guard lock(mutex_);
  paused_until_ = std::max(paused_until_, until_ns);
}

int64_t Health::paused_until() const {
  const std::lock_guard lock(mutex_);
  return paused_until_;
}

bool Health::down() const {
  const std::lock_guard lock(mutex_);
  return down_;
}

Failure Health::why(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  if (last_.fault == Fault::kRefused || last_.fault == Fault::kSetup) return last_;
  Failure out = last_;
  out.fault = Fault::kDown;
  out.error.code = ErrorCode::kModel;
  out.error.message = fmt::format("model {}: {} failures one after another, the last: {}", model,
                                  streak_, last_.error.message);
  out.error.cure = "see that the endpoint answers, then resume the run";
  return out;
}

}  // namespace sculler::llm
