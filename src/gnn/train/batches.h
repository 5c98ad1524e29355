// A rank's minibatches in order, over all epochs, and the thread that prepares the next one while
// the last is trained on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gnn/sampler.h"
#include "gnn/train/prefetch.h"

namespace sculler::gnn {

// Every epoch has the same number of steps on all ranks; where a rank has no seeds left its
// minibatch is empty.
class BatchSource {
 public:
  BatchSource(const Graph& graph, const SamplerSettings& settings, std::vector<uint32_t> train,
              uint64_t steps)
      : sampler_(graph, settings), train_(std::move(train)), steps_(steps) {}
  // Minibatch `number` of the run: step number % steps of epoch number / steps.
  [[nodiscard]] Sample sample(uint64_t number);
  [[nodiscard]] uint64_t steps() const { return steps_; }

 private:
  Sampler sampler_;
  std::vector<uint32_t> train_;
  uint64_t steps_;
  uint64_t epoch_ = UINT64_MAX;
  std::vector<std::vector<uint32_t>> seeds_;  // of that epoch
};

struct Prepared {
  Sample sample;
  std::vector<float> features;
  Traffic traffic;  // what preparing it has moved
};

// Samples, asks the buffer, fetches: one minibatch ahead of those who take them.
class Pipeline {
 public:
  // Minibatches first … last - 1.
  Pipeline(BatchSource& source, Prefetcher& prefetcher, uint64_t first, uint64_t last);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  // The next one, in order; waits for it.
  [[nodiscard]] Result<Prepared> take();

 private:
  void work();
  [[nodiscard]] Result<Prepared> prepare(uint64_t number);
  [[nodiscard]] Status tell(uint64_t number, uint64_t ahead);
  [[nodiscard]] Sample next(uint64_t number);

  BatchSource& source_;
  Prefetcher& prefetcher_;
  uint64_t first_, last_;
  uint64_t told_;             // minibatches below it were scheduled
  std::deque<Sample> ahead_;  // sampled for the schedule, not prepared yet; the first is at_
  uint64_t at_;
  Traffic before_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Prepared>> ready_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sculler::gnn
