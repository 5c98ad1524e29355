// One at a time, first come first served: GPU work of one machine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace sculler::eval {

class Gate {
 public:
  class Pass {
   public:
    explicit Pass(Gate& gate) : gate_(gate) { gate_.enter(); }
    ~Pass() { gate_.leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Gate& gate_;
  };

 private:
  void enter() {
    std::unique_lock lock(mutex_);
    const uint64_t ticket = next_++;
    changed_.wait(lock, [&] { return serving_ == ticket; });
  }
  void leave() {
    {
      const std::lock_guard lock(mutex_);
      ++serving_;
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, serving_ = 0;
};

}  // namespace sculler::eval
