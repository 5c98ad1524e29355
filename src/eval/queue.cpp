#include "eval/queue.h"

#include <unistd.h>

#include <algorithm>

#include "base/guard.h"
#include "base/hold.h"
#include "eval/verdict.h"

namespace sculler::eval {

Queue::Queue(Run run, Spool& spool, Emit emit, int workers)
    : run_(std::move(run)), spool_(spool), emit_(std::move(emit)) {
  for (int i = 0; i < std::max(1, workers); ++i) workers_.emplace_back([this] { work(); });
}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void Queue::submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Queue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && busy_ == 0; });
}

bool Queue::idle() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && busy_ == 0;
}

uint64_t Queue::from_spool() const {
  const std::lock_guard lock(mutex_);
  return from_spool_;
}
uint64_t Queue::run_count() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

std::string Queue::answer(const Job& job) {
  if (auto known = spool_.find(job.id)) {
    const std::lock_guard lock(mutex_);
    ++from_spool_;
    return std::move(*known);
  }
  std::string line = run_(job);
  // The compiler or the ranks may have been killed because this process ends: that is no verdict.
  while (spawning_stopped()) ::pause();
  if (auto done = spool_.write(job.id, line); !done) {
    // Not durable, so it must not count: the job may run again once there is room.
    line = internal_line(job, "the verdict could not be kept: " + done.error().text(),
                         done.error().cure);
  }
  const std::lock_guard lock(mutex_);
  ++runs_;
  return line;
}

void Queue::work() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      std::deque<Job>::iterator next;
      // A job whose twin runs waits for the twin's verdict.
      changed_.wait(lock, [&] {
        next = std::find_if(waiting_.begin(), waiting_.end(),
                            [&](const Job& j) { return !running_.contains(j.id); });
        return stopping_ || next != waiting_.end();
      });
      if (stopping_) return;
      job = std::move(*next);
      waiting_.erase(next);
      running_.insert(job.id);
      ++busy_;
    }
    const std::string line = answer(job);
    hold_point("spooled");
    {
      const std::lock_guard lock(emit_mutex_);
      emit_(line);
    }
    {
      const std::lock_guard lock(mutex_);
      running_.erase(job.id);
      --busy_;
    }
    changed_.notify_all();
    if (on_answer) on_answer();
  }
}

}  // namespace sculler::eval
