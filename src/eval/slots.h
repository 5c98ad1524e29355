// Slots: evaluators that run elsewhere, one job at a time each. Every job is answered once: what a
// slot held that ended is given to another, a bounded number of times.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "eval/job.h"
#include "eval/slot_link.h"

namespace sculler::eval {

// How slots come to be. Thread-safe.
class SlotStarter {
 public:
  virtual ~SlotStarter() = default;
  // A child whose stdin, stdout and stderr are pipes to a `sculler-eval --slot`.
  [[nodiscard]] virtual Result<std::unique_ptr<Child>> start(int slot) = 0;
  // True where the node takes no more work (drained, down): its slot ends after what it holds.
  [[nodiscard]] virtual bool leaving(const std::string& node) = 0;
  // A slot that had greeted failed: what holds its place may be given up.
  virtual void failed(const SlotHello& /*hello*/) {}
  // True where a start that failed with these words may succeed later by itself.
  [[nodiscard]] virtual bool may_pass(const std::string& words) const = 0;
};

struct SlotSettings {
  int slots = 1;
  int requeues = 3;             // of one job
  int64_t silence_ms = 60'000;  // without a sign of life: the slot is dead
  int64_t start_ms = 0;         // from its start to its greeting; 0: no bound (a queue may be long)
  int64_t answer_ms = 7'200'000;  // of one job
  int64_t idle_ms = 600'000;      // a slot without work ends and frees its node; 0: never
  int64_t backoff_first_ms = 500, backoff_most_ms = 60'000;  // between starts that fail
  int64_t elsewhere_ms = 10'000;  // a requeued job waits so long for another node
};

class SlotPool {
 public:
  using Note = std::function<void(const std::string& text)>;  // for people; any thread
  using Hopeless = std::function<void(const Error& error)>;   // no slot will ever start
  SlotPool(SlotStarter& starter, const SlotSettings& settings, Note note, Hopeless hopeless);
  ~SlotPool();  // ends the slots; whoever still waits in run() gets an INTERNAL verdict
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  // The verdict line of a slot, its notes saying where it ran; INTERNAL where the job's slots ended
  // more often than settings allow. Call from as many threads as there are slots.
  [[nodiscard]] std::string run(const Job& job);

  struct Counts {
    uint64_t answered = 0, requeued = 0, gave_up = 0, starts = 0, ended = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Request {
    const Job* job = nullptr;
    std::string answer;
    bool done = false;
    std::vector<std::string> failures;  // "n2, Slurm step 7.0: exit code 1: …"
    std::set<std::string> nodes;        // that it failed on
    int64_t since_ms = 0;               // waits since
  };
  enum class End { kIdle, kLeaving, kFailed, kStopping };

  void keep(int slot);
  // One life of a slot. True where it gave a verdict or ended as it was meant to.
  bool live(int slot);
  End serve(int slot, SlotLink& link, const SlotHello& hello, bool& answered, bool& holding);
  [[nodiscard]] Result<SlotHello> greet(int slot, SlotLink& link);
  [[nodiscard]] bool wait_for_work();
  // The next request for a slot of this node; null where none came within `timeout_ms`.
  [[nodiscard]] Request* take(const std::string& node, int64_t timeout_ms);
  void finish(Request& request, std::string answer);
  // The verdict with its notes, where `line` is one of this request's job and not INTERNAL.
  [[nodiscard]] Result<std::string> check(const Request& request, const SlotHello& hello,
                                          const std::string& line) const;
  void put_back(Request& request);
  void give_back(Request& request, const std::string& node, const std::string& why);
  void start_failed(int slot, const Error& error);
  [[nodiscard]] bool stopping() const;

  SlotStarter& starter_;
  const SlotSettings settings_;
  Note note_;
  Hopeless hopeless_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // work came, or it ends
  std::condition_variable answered_;
  std::deque<Request*> waiting_;
  std::size_t ready_ = 0;  // slots that start or idle: they will take a job
  Counts counts_;
  bool stopping_ = false, greeted_ = false;
  int failed_starts_ = 0;  // in a row, of all slots, that will not pass by themselves
  std::vector<std::thread> threads_;
};

}  // namespace sculler::eval
