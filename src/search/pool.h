// Threads that work on tasks that ask models, and what they made, in the order in which it came.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace sculler::search {

// `Done` says by name() which task it was; that is also the name on a cassette.
template <class Task, class Done>
class Pool {
 public:
  using Work = std::function<Done(std::shared_ptr<const Task>)>;
  // Threads start as they are needed, at most `threads`.
  Pool(std::size_t threads, Work work)
      : most_(std::max<std::size_t>(1, threads)),
        work_(std::move(work)),
        event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // Waits for what is being worked on; what waits is dropped.
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
      waiting_.clear();
    }
    work_there_.notify_all();
    for (auto& thread : threads_) thread.join();
    if (event_ >= 0) ::close(event_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void add(std::shared_ptr<const Task> task) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(task));
      if (idle_ < waiting_.size() && threads_.size() < most_)
        threads_.emplace_back([this] { run(); });
    }
    work_there_.notify_one();
  }

  // The next one that is made, or the one of this name; nothing after `timeout_ms` without it.
  [[nodiscard]] std::optional<Done> take(int64_t timeout_ms, std::string_view name) {
    std::unique_lock lock(mutex_);
    auto at = done_.end();
    const auto there = [&] {
      at = name.empty() ? done_.begin()
                        : std::find_if(done_.begin(), done_.end(),
                                       [&](const Done& done) { return done.name() == name; });
      return at != done_.end();
    };
    if (!done_there_.wait_for(lock, std::chrono::milliseconds(timeout_ms), there))
      return std::nullopt;
    std::optional<Done> out(std::move(*at));
    done_.erase(at);
    if (done_.empty()) {
      uint64_t count = 0;
      (void)!::read(event_, &count, sizeof count);
    }
    return out;
  }

  // Readable while something is there to take.
  [[nodiscard]] int wake_fd() const { return event_; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      work_there_.wait(lock, [this] { return end_ || !waiting_.empty(); });
      --idle_;
      if (end_) return;
      auto task = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      Done done = work_(std::move(task));
      lock.lock();
      done_.push_back(std::move(done));
      const uint64_t one = 1;
      (void)!::write(event_, &one, sizeof one);
      done_there_.notify_one();
    }
  }

  std::size_t most_;
  Work work_;
  std::mutex mutex_;
  std::condition_variable work_there_, done_there_;
  std::deque<std::shared_ptr<const Task>> waiting_;
  std::deque<Done> done_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool end_ = false;
  int event_ = -1;
};

}  // namespace sculler::search
