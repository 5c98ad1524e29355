// Threads for cpu candidates: they wait between runs, and jobs are handed out one at a time.
//
//   sculler::Threads threads(rank->n_threads);          // in sculler_setup
//   threads.run(n_jobs, [&](int64_t job) { ... });      // in sculler_run; returns when all are
//   done
//
// The calling thread works too. A job must not throw and must not call run.
#ifndef SCULLER_THREADS_H
#define SCULLER_THREADS_H

#include <stdint.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace sculler {

class Threads {
 public:
  // `n` threads in all, the caller among them.
  explicit Threads(int n) {
    for (int i = 1; i < n; ++i) helpers_.emplace_back([this] { serve(); });
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  [[nodiscard]] int size() const { return static_cast<int>(helpers_.size()) + 1; }

  template <class F>
  void run(int64_t n_jobs, F&& job) {
    if (helpers_.empty() || n_jobs <= 1) {
      for (int64_t i = 0; i < n_jobs; ++i) job(i);
      return;
    }
    const auto take = [this, n_jobs, &job] {
      for (;;) {
        const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
        if (i >= n_jobs) return;
        job(i);
      }
    };
    next_.store(0, std::memory_order_relaxed);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_ = [](const void* f) { (*static_cast<const decltype(take)*>(f))(); };
      argument_ = &take;
      busy_.store(static_cast<int>(helpers_.size()), std::memory_order_relaxed);
      ++epoch_;
    }
    wake_.notify_all();
    take();
    while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  void serve() {
    uint64_t seen = 0;
    for (;;) {
      void (*work)(const void*) = nullptr;
      const void* argument = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || epoch_ != seen; });
        if (stop_) return;
        seen = epoch_;
        work = work_;
        argument = argument_;
      }
      work(argument);
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int64_t> next_{0};
  std::atomic<int> busy_{0};
  uint64_t epoch_ = 0;
  bool stop_ = false;
  void (*work_)(const void*) = nullptr;
  const void* argument_ = nullptr;
};

}  // namespace sculler
#endif
