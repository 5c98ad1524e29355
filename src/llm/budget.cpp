#include "llm/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace sculler::llm {

bool Budget::fits(const Cost& base, const Cost& worst) const {
  // A billionth of a dollar is rounding.
  return (max_usd_ <= 0 || base.usd + worst.usd <= max_usd_ + 1e-9) &&
         (max_tokens_ <= 0 || base.tokens + worst.tokens <= max_tokens_);
}

tl::expected<void, Failure> Budget::reserve(const Cost& worst, const Clock& clock,
                                            int64_t deadline_ns, const Stop& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stop.fired()) return fault(Fault::kCancelled, "the run was stopped");
    if (!fits(spent_, worst)) {
      std::string what;
      if (max_usd_ > 0)
        what = fmt::format("{:.4f} of {:.4f} USD are spent, the next call may cost {:.4f}",
                           spent_.usd, max_usd_, worst.usd);
      if (max_tokens_ > 0)
        what += fmt::format("{}{} of {} tokens are used, the next call may use {}",
                            what.empty() ? "" : "; ", spent_.tokens, max_tokens_, worst.tokens);
      return fault(Fault::kBudget, what,
                   "raise llm.max_usd or llm.max_tokens and resume, or lower the model's "
                   "max_tokens");
    }
    const Cost all{spent_.usd + reserved_.usd, spent_.tokens + reserved_.tokens};
    if (fits(all, worst)) break;
    const int64_t left = deadline_ns - clock.now_ns();
    if (left <= 0)
      return fault(Fault::kTimeout, "waited for the budget of calls in flight until the deadline");
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min<int64_t>(left, 1'000'000'000)));
  }
  reserved_.usd += worst.usd;
  reserved_.tokens += worst.tokens;
  return {};
}

void Budget::settle(const Cost& worst, const Cost& cost) {
  {
    const std::lock_guard lock(mutex_);
    reserved_.usd = std::max(0.0, reserved_.usd - worst.usd);
    reserved_.tokens -= worst.tokens;
    spent_.usd += cost.usd;
    spent_.tokens += cost.tokens;
  }
  changed_.notify_all();
}

void Budget::wake() {
  // Whoever has just looked at the flag holds the mutex until it waits.
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

Cost Budget::spent() const {
  const std::lock_guard lock(mutex_);
  return spent_;
}

Cost Budget::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

}  // namespace sculler::llm
