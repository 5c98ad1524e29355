// USD and tokens of a run, calls in flight counted at their worst.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "llm/provider.h"
#include "llm/stop.h"

namespace sculler::llm {

struct Cost {
  double usd = 0;
  int64_t tokens = 0;
};

class Budget {
 public:
  // 0: no bound. `spent`: by earlier lives of the run.
  Budget(double max_usd, int64_t max_tokens, Cost spent)
      : max_usd_(max_usd), max_tokens_(max_tokens), spent_(spent) {}

  // Before a request: sets `worst` aside. Where it fits only once calls in flight have cost less
  // than their worst, waits for them; kBudget where it can not fit any more, kTimeout, kCancelled.
  [[nodiscard]] tl::expected<void, Failure> reserve(const Cost& worst, const Clock& clock,
                                                    int64_t deadline_ns, const Stop& stop);
  // After it: what it cost takes the place of what was set aside.
  void settle(const Cost& worst, const Cost& cost);
  // For stop(): those who wait look again.
  void wake();
  [[nodiscard]] Cost spent() const;
  [[nodiscard]] Cost reserved() const;

 private:
  [[nodiscard]] bool fits(const Cost& base, const Cost& worst) const;
  const double max_usd_;
  const int64_t max_tokens_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Cost spent_, reserved_;
};

}  // namespace sculler::llm
