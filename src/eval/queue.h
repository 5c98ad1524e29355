// Jobs in parallel, each answered once: from the spool where its verdict is there already.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "eval/job.h"
#include "eval/spool.h"

namespace sculler::eval {

class Queue {
 public:
  // The verdict's line (print_verdict); called on a worker thread.
  using Run = std::function<std::string(const Job&)>;
  using Emit = std::function<void(const std::string& line)>;  // one call at a time
  Queue(Run run, Spool& spool, Emit emit, int workers);
  ~Queue();  // waits for the jobs that run; those that wait are dropped
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void submit(Job job);
  // Until everything that was submitted is answered.
  void drain();
  [[nodiscard]] uint64_t from_spool() const;
  [[nodiscard]] uint64_t run_count() const;
  // Called (on a worker) whenever a job was answered; for event loops.
  std::function<void()> on_answer;
  [[nodiscard]] bool idle() const;

 private:
  void work();
  [[nodiscard]] std::string answer(const Job& job);
  Run run_;
  Spool& spool_;
  Emit emit_;
  mutable std::mutex mutex_;
  std::mutex emit_mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::set<std::string> running_;
  std::size_t busy_ = 0;
  uint64_t from_spool_ = 0, runs_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace sculler::eval
