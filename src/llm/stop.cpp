#include "llm/stop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace sculler::llm {

Stop::Stop() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::runtime_error("eventfd: no descriptor left");
}

Stop::~Stop() { ::close(fd_); }

void Stop::fire() {
  fired_ = true;
  const uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

bool Stop::sleep(Clock& clock, int64_t ns) const {
  if (fired_) return false;
  if (&clock != &real_clock()) {
    clock.sleep_ns(std::max<int64_t>(ns, 0));
    return !fired_;
  }
  const int64_t end = clock.now_ns() + ns;
  for (;;) {
    const int64_t left = end - clock.now_ns();
    if (left <= 0) return !fired_;
    pollfd p{fd_, POLLIN, 0};
    const int ms = static_cast<int>(std::min<int64_t>((left + 999'999) / 1'000'000, 3'600'000));
    if (::poll(&p, 1, ms) > 0) return false;
  }
}

}  // namespace sculler::llm
