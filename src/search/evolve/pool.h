// Threads that work on proposals, and what they made, in the order in which it came.
#pragma once

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

#include "search/evolve/proposal.h"

namespace sculler::search {

class Pool {
 public:
  using Work = std::function<Made(std::shared_ptr<const Proposal>)>;
  // Threads start as they are needed, at most `threads`.
  Pool(std::size_t threads, Work work);
  ~Pool();  // waits for what is being worked on; what waits is dropped
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void add(std::shared_ptr<const Proposal> proposal);
  // The next one that is made, or the one of this name; nothing after `timeout_ms` without it.
  [[nodiscard]] std::optional<Made> take(int64_t timeout_ms, std::string_view name);
  // Not taken yet, worked on or waiting.
  [[nodiscard]] std::size_t open() const;
  // Readable while something is there to take.
  [[nodiscard]] int wake_fd() const { return event_; }

 private:
  void run();
  std::size_t most_;
  Work work_;
  mutable std::mutex mutex_;
  std::condition_variable work_there_, made_there_;
  std::deque<std::shared_ptr<const Proposal>> waiting_;
  std::deque<Made> made_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0, open_ = 0;
  bool end_ = false;
  int event_ = -1;
};

}  // namespace sculler::search
