#include "search/evolve/pool.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace sculler::search {

Pool::Pool(std::size_t threads, Work work)
    : most_(std::max<std::size_t>(1, threads)),
      work_(std::move(work)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
    waiting_.clear();
  }
  work_there_.notify_all();
  for (auto& thread : threads_) thread.join();
  if (event_ >= 0) ::close(event_);
}

void Pool::add(std::shared_ptr<const Proposal> proposal) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(proposal));
    ++open_;
    if (idle_ < waiting_.size() && threads_.size() < most_)
      threads_.emplace_back([this] { run(); });
  }
  work_there_.notify_one();
}

void Pool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    work_there_.wait(lock, [this] { return end_ || !waiting_.empty(); });
    --idle_;
    if (end_) return;
    auto proposal = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Made made = work_(std::move(proposal));
    lock.lock();
    made_.push_back(std::move(made));
    const uint64_t one = 1;
    (void)!::write(event_, &one, sizeof one);
    made_there_.notify_one();
  }
}

std::optional<Made> Pool::take(int64_t timeout_ms, std::string_view name) {
  std::unique_lock lock(mutex_);
  auto at = made_.end();
  const auto there = [&] {
    at = name.empty() ? made_.begin()
                      : std::find_if(made_.begin(), made_.end(), [&](const Made& made) {
                          return made.proposal->name() == name;
                        });
    return at != made_.end();
  };
  if (!made_there_.wait_for(lock, std::chrono::milliseconds(timeout_ms), there))
    return std::nullopt;
  std::optional<Made> out(std::move(*at));
  made_.erase(at);
  --open_;
  if (made_.empty()) {
    uint64_t count = 0;
    (void)!::read(event_, &count, sizeof count);
  }
  return out;
}

std::size_t Pool::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

}  // namespace sculler::search
