#include "steer/metrics.h"

namespace sculler::steer {

Counts& Counts::operator+=(const Counts& o) {
  minibatches += o.minibatches;
  ids += o.ids;
  hits += o.hits;
  fetched += o.fetched;
  extra += o.extra;
  admitted += o.admitted;
  evicted += o.evicted;
  return *this;
}

Counts& Counts::operator-=(const Counts& o) {
  minibatches -= o.minibatches;
  ids -= o.ids;
  hits -= o.hits;
  fetched -= o.fetched;
  extra -= o.extra;
  admitted -= o.admitted;
  evicted -= o.evicted;
  return *this;
}

namespace {
Counts counts_of(const Plan& plan, uint64_t minibatches) {
  return {minibatches,         plan.ids(),      plan.hits(),   plan.fetched(),
          plan.extra().size(), plan.admitted(), plan.evicted()};
}
}  // namespace

void Metrics::add(const Plan& plan) {
  const Counts now = counts_of(plan, 1);
  total_ += now;
  window_ += now;
  window_ -= last_[at_];
  last_[at_] = now;
  if (++at_ == last_.size()) at_ = 0;
}

void Metrics::add_outside(const Plan& plan) { total_ += counts_of(plan, 0); }

}  // namespace sculler::steer
