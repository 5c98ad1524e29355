// What the buffer costs: ids a second and core for whole minibatches (lookup, marks, admission,
// eviction), beside an LRU of std::unordered_map and std::list that does the same.
//   bench_steer [ROWS] [IDS] [MINIBATCH] [POLICY...]        one JSON line a policy
// ROWS is the capacity (1000000), IDS how many different remote ids there are (4000000), MINIBATCH
// how many a minibatch asks for (100000, skewed: the most wanted quarter gets 7 of 10). Times are
// CPU seconds of the thread, median and best of 9 repeats of 20 minibatches after a warm-up (other
// programs on the machine take its caches and memory from it).
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "steer/buffer.h"

using namespace sculler;

namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

using Trace = std::vector<std::vector<uint64_t>>;

// Distinct ids a minibatch, spread over 63 bits, in no order.
Trace make_trace(uint64_t ids, uint64_t minibatch, uint64_t count) {
  Random random(1);
  Trace trace(count);
  std::vector<uint32_t> seen(ids, 0);
  uint32_t now = 0;
  for (auto& list : trace) {
    ++now;
    while (list.size() < minibatch) {
      const auto rank =
          static_cast<uint64_t>(std::pow(random.unit(), 4) * static_cast<double>(ids));
      if (seen[rank] == now) continue;
      seen[rank] = now;
      list.push_back((rank * 0x9E3779B97F4A7C15u) >> 1);
    }
  }
  return trace;
}

struct Rate {
  double median, best;  // million ids a second
  double hit_rate;
};

// `run` does one minibatch and returns its hits.
template <class F>
Rate measure(const Trace& trace, F&& run) {
  constexpr int kRepeats = 9, kMinibatches = 20;
  size_t at = 0;
  const auto next = [&]() -> const std::vector<uint64_t>& { return trace[at++ % trace.size()]; };
  for (size_t b = 0; b < 2 * trace.size(); ++b) run(next());
  std::vector<double> seconds;
  uint64_t hits = 0, ids = 0;
  for (int r = 0; r < kRepeats; ++r) {
    const double begin = cpu_seconds();
    for (int b = 0; b < kMinibatches; ++b) {
      const auto& list = next();
      hits += run(list);
      ids += list.size();
    }
    seconds.push_back(cpu_seconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  const double million = static_cast<double>(ids) / kRepeats * 1e-6;
  return {million / seconds[kRepeats / 2], million / seconds[0],
          static_cast<double>(hits) / static_cast<double>(ids)};
}

// As one would write it: a map from id to its place in a list in order of use.
class MapLru {
 public:
  explicit MapLru(uint64_t capacity) : capacity_(capacity) { places_.reserve(capacity); }
  uint64_t minibatch(const std::vector<uint64_t>& ids) {
    uint64_t hits = 0;
    for (const uint64_t id : ids) {
      const auto found = places_.find(id);
      if (found != places_.end()) {
        ++hits;
        order_.splice(order_.begin(), order_, found->second);
        continue;
      }
      if (order_.size() == capacity_) {
        places_.erase(order_.back());
        order_.pop_back();
      }
      order_.push_front(id);
      places_.emplace(id, order_.begin());
    }
    return hits;
  }

 private:
  uint64_t capacity_;
  std::list<uint64_t> order_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

uint64_t argument(char** argv, int argc, int at, uint64_t otherwise) {
  return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t rows = argument(argv, argc, 1, 1'000'000),
                 ids = argument(argv, argc, 2, 4'000'000),
                 minibatch = argument(argv, argc, 3, 100'000);
  std::vector<std::string> policies(argv + std::min(argc, 4), argv + argc);
  if (policies.empty())
    policies = {"none", "free", "free:0.99", "lru", "lfu", "clock", "sieve", "s3fifo", "rudder:8"};
  if (rows == 0 || minibatch == 0 || ids < 2 * minibatch) {
    std::fprintf(stderr,
                 "bench_steer: IDS must be at least twice MINIBATCH, which must not be 0\n");
    return 2;
  }
  const Trace trace = make_trace(ids, minibatch, 64);
  for (const auto& policy : policies) {
    steer::BufferSettings settings;
    settings.capacity = rows;
    settings.policy = policy;
    auto made = steer::Buffer::make(settings);
    if (!made) {
      std::fprintf(stderr, "bench_steer: %s\n", made.error().text().c_str());
      return 2;
    }
    steer::Buffer& buffer = **made;
    const Rate rate = measure(trace, [&](const std::vector<uint64_t>& list) {
      const auto plan = buffer.minibatch(list);
      return plan ? (*plan)->hits() : 0;
    });
    std::printf(
        "{\"policy\":\"%s\",\"rows\":%llu,\"ids\":%llu,\"minibatch\":%llu,"
        "\"million_ids_per_s\":%.1f,\"best\":%.1f,\"hit_rate\":%.3f,\"bytes_per_row\":%.1f}\n",
        policy.c_str(), static_cast<unsigned long long>(rows), static_cast<unsigned long long>(ids),
        static_cast<unsigned long long>(minibatch), rate.median, rate.best, rate.hit_rate,
        static_cast<double>(buffer.bytes()) / static_cast<double>(rows));
    std::fflush(stdout);
  }
  MapLru map(rows);
  const Rate rate =
      measure(trace, [&](const std::vector<uint64_t>& list) { return map.minibatch(list); });
  std::printf(
      "{\"policy\":\"std::unordered_map "
      "lru\",\"rows\":%llu,\"million_ids_per_s\":%.1f,\"best\":%.1f,"
      "\"hit_rate\":%.3f}\n",
      static_cast<unsigned long long>(rows), rate.median, rate.best, rate.hit_rate);
  return 0;
}
