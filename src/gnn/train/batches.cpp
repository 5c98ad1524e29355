#include "gnn/train/batches.h"

#include <exception>

namespace sculler::gnn {

namespace {
// Samples kept for a schedule, at most; beyond it (Belady) minibatches are sampled twice.
constexpr uint64_t kMostAhead = 256;
}  // namespace

Sample BatchSource::sample(uint64_t number) {
  const uint64_t epoch = number / steps_, step = number % steps_;
  if (epoch != epoch_) {
    seeds_ = sampler_.epoch(train_, epoch);
    epoch_ = epoch;
  }
  static const std::vector<uint32_t> kNone;
  return sampler_.sample(step < seeds_.size() ? seeds_[step] : kNone, epoch, step);
}

Pipeline::Pipeline(BatchSource& source, Prefetcher& prefetcher, uint64_t first, uint64_t last)
    : source_(source),
      prefetcher_(prefetcher),
      first_(first),
      last_(last),
      told_(first),
      at_(first),
      thread_([this] { work(); }) {}

Pipeline::~Pipeline() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<Prepared> Pipeline::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_.has_value(); });
  Result<Prepared> out = std::move(*ready_);
  ready_.reset();
  changed_.notify_all();
  return out;
}

void Pipeline::work() {
  for (uint64_t number = first_; number < last_; ++number) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !ready_.has_value(); });
      if (stop_) return;
    }
    Result<Prepared> made = fail(ErrorCode::kInternal, "");
    try {
      made = prepare(number);
    } catch (const std::exception& e) { made = fail(ErrorCode::kInternal, e.what()); }
    const bool ok = made.has_value();
    const std::lock_guard lock(mutex_);
    ready_ = std::move(made);
    changed_.notify_all();
    if (!ok) return;
  }
}

// Schedules minibatches up to `number` + `ahead` - 1, as far as the run goes.
Status Pipeline::tell(uint64_t number, uint64_t ahead) {
  if (told_ < number) told_ = number;  // a policy that a decision has chosen knows of none yet
  const bool keep = ahead <= kMostAhead;
  while (told_ < last_ && told_ - number < ahead) {
    if (!keep) {
      if (auto ok = prefetcher_.schedule(source_.sample(told_)); !ok) return ok;
    } else {
      while (at_ + ahead_.size() <= told_) ahead_.push_back(source_.sample(at_ + ahead_.size()));
      if (auto ok = prefetcher_.schedule(ahead_[told_ - at_]); !ok) return ok;
    }
    ++told_;
  }
  return {};
}

Sample Pipeline::next(uint64_t number) {
  at_ = number + 1;
  if (ahead_.empty()) return source_.sample(number);
  Sample sample = std::move(ahead_.front());
  ahead_.pop_front();
  return sample;
}

Result<Prepared> Pipeline::prepare(uint64_t number) {
  if (auto ok = tell(number, prefetcher_.lookahead()); !ok) return fail(ok.error());
  Prepared out;
  out.sample = next(number);
  if (auto ok = prefetcher_.fill(out.sample, static_cast<uint32_t>(number / source_.steps()),
                                 out.features);
      !ok)
    return fail(ok.error());
  const Traffic now = prefetcher_.traffic();
  out.traffic = now - before_;
  before_ = now;
  return out;
}

}  // namespace sculler::gnn
