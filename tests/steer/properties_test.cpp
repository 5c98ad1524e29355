// What holds for every policy on every trace, against a caller that only executes plans.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <unordered_map>

#include "steer/buffer.h"
#include "steer/traces.h"

namespace {

using namespace sculler;
using namespace sculler::steer;
using test::Trace;

const char* const kPolicies[] = {"none", "degree",   "massivegnn:3", "rudder:1", "rudder:4",
                                 "lru",  "lfu",      "clock",        "sieve",    "s3fifo",
                                 "free", "free:0.9", "known:1",      "known:7",  "belady"};

// A caller's memory: what was written to each slot. Executes plans and checks each against it.
class Caller {
 public:
  explicit Caller(Buffer& buffer) : buffer_(buffer), memory_(buffer.capacity(), kNoId) {}

  void execute(const Plan& plan, const std::vector<uint64_t>& ids) {
    ASSERT_EQ(plan.ids(), ids.size());
    ASSERT_EQ(plan.hits() + plan.missed().size(), ids.size());
    size_t miss = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint32_t slot = plan.slot()[i];
      if (slot == kNone) {
        ASSERT_LT(miss, plan.missed().size());
        ASSERT_EQ(plan.missed()[miss++], i);
      } else {
        ASSERT_LT(slot, memory_.size());
        ASSERT_EQ(memory_[slot], ids[i]) << "a hit whose slot holds another row";
      }
    }
    std::vector<bool> written(memory_.size());
    const auto write = [&](uint32_t slot, uint64_t id) {
      ASSERT_LT(slot, memory_.size());
      ASSERT_FALSE(written[slot]) << "a slot that is written twice";
      written[slot] = true;
      memory_[slot] = id;
    };
    uint64_t admitted = 0;
    for (size_t m = 0; m < plan.missed().size(); ++m) {
      if (plan.into()[m] == kNone) continue;
      write(plan.into()[m], ids[plan.missed()[m]]);
      ++admitted;
    }
    for (size_t e = 0; e < plan.extra().size(); ++e) {
      write(plan.extra_slot()[e], plan.extra()[e]);
      ++admitted;
    }
    ASSERT_EQ(admitted, plan.admitted());
    held_ += admitted;
    held_ -= plan.evicted();
  }
  // The buffer's own view is what the memory holds; no id twice, never over the limit.
  void agree() {
    std::unordered_map<uint64_t, uint32_t> seen;
    for (uint32_t s = 0; s < memory_.size(); ++s) {
      const uint64_t id = buffer_.id(s);
      if (id == kNoId) continue;
      ASSERT_EQ(memory_[s], id);
      ASSERT_TRUE(seen.emplace(id, s).second) << "id " << id << " lies in two slots";
      ASSERT_TRUE(buffer_.holds(id));
    }
    ASSERT_EQ(seen.size(), buffer_.used());
    ASSERT_EQ(held_, buffer_.used()) << "rows that came less rows that left";
    ASSERT_LE(buffer_.used(), buffer_.limit());
  }
  void left(uint64_t rows) { held_ -= rows; }

 private:
  Buffer& buffer_;
  std::vector<uint64_t> memory_;
  uint64_t held_ = 0;
};

std::unique_ptr<Buffer> make(const std::string& policy, uint64_t capacity,
                             uint64_t max_tracked = 0) {
  BufferSettings settings;
  settings.policy = policy;
  settings.capacity = capacity;
  settings.max_tracked = max_tracked;
  auto made = Buffer::make(settings);
  if (!made) throw std::runtime_error(made.error().text());
  return std::move(*made);
}

Counts run(const std::string& policy, uint64_t capacity, const Trace& trace,
           uint64_t max_tracked = 0) {
  auto buffer = make(policy, capacity, max_tracked);
  Caller caller(*buffer);
  size_t scheduled = 0;
  for (size_t b = 0; b < trace.size(); ++b) {
    while (scheduled < trace.size() && scheduled - b < buffer->lookahead())
      EXPECT_TRUE(buffer->schedule(trace[scheduled++]));
    const auto plan = buffer->minibatch(trace[b]);
    EXPECT_TRUE(plan);
    caller.execute(**plan, trace[b]);
    caller.agree();
    if (testing::Test::HasFatalFailure()) break;
  }
  return buffer->metrics().total();
}

// Belady's rule with bypass, as plainly as it can be written.
Counts belady(uint64_t capacity, const Trace& trace) {
  Counts out;
  std::vector<uint64_t> held;
  for (size_t b = 0; b < trace.size(); ++b) {
    std::vector<uint64_t> next = held;
    for (const uint64_t id : trace[b]) {
      ++out.ids;
      if (std::find(held.begin(), held.end(), id) != held.end()) ++out.hits;
      else next.push_back(id), ++out.fetched;
    }
    const auto next_use = [&](uint64_t id) {
      for (size_t later = b + 1; later < trace.size(); ++later)
        if (std::find(trace[later].begin(), trace[later].end(), id) != trace[later].end())
          return later;
      return trace.size();
    };
    std::map<uint64_t, size_t> uses;
    for (const uint64_t id : next) uses[id] = next_use(id);
    std::sort(next.begin(), next.end(), [&](uint64_t x, uint64_t y) {
      return uses[x] != uses[y] ? uses[x] < uses[y] : x < y;
    });
    if (next.size() > capacity) next.resize(capacity);
    held = std::move(next);
  }
  return out;
}

TEST(Properties, EveryPlanCanBeExecutedAndTheBufferHoldsWhatWasWritten) {
  for (const uint64_t capacity : {0, 1, 2, 7, 40, 1000})
    for (const char* policy : kPolicies)
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(std::string(policy) + ", capacity " + std::to_string(capacity) + ", seed " +
                     std::to_string(seed));
        const Trace trace = test::random_trace(seed, 60, 30, 120, seed == 2);
        const Counts counts = run(policy, capacity, trace);
        if (HasFatalFailure()) return;
        uint64_t ids = 0;
        for (const auto& b : trace) ids += b.size();
        EXPECT_EQ(counts.ids, ids);
        EXPECT_EQ(counts.fetched, ids - counts.hits + counts.extra);
        EXPECT_EQ(counts.minibatches, trace.size());
        if (capacity == 0) { EXPECT_EQ(counts.hits, 0U); }
      }
}

TEST(Properties, TheWholeScheduleKnownIsBeladysOptimumAndNothingFetchesLess) {
  for (const uint64_t capacity : {1, 3, 10, 30, 70})
    for (uint64_t seed = 11; seed <= 14; ++seed) {
      const Trace trace = test::random_trace(seed, 50, 25, 90, seed % 2 == 0);
      const Counts best = belady(capacity, trace);
      for (const char* policy : kPolicies) {
        SCOPED_TRACE(std::string(policy) + ", capacity " + std::to_string(capacity));
        const Counts counts = run(policy, capacity, trace);
        if (HasFatalFailure()) return;
        EXPECT_GE(counts.fetched, best.fetched);
        if (counts.extra == 0) { EXPECT_LE(counts.hits, best.hits); }
        if (std::string(policy) == "belady") {
          EXPECT_EQ(counts.hits, best.hits);
          EXPECT_EQ(counts.fetched, best.fetched);
        }
      }
      EXPECT_EQ(run("known:1000", capacity, trace).hits, best.hits);
    }
}

TEST(Properties, BoundedTrackingForgetsAndStaysRight) {
  for (const char* policy : {"free", "free:0.9", "rudder:2", "known:3"}) {
    SCOPED_TRACE(policy);
    // Ids never come back in the first trace: what is tracked is bounded all the same.
    Trace trace;
    for (uint64_t b = 0; b < 200; ++b) {
      trace.emplace_back();
      for (uint64_t i = 0; i < 50; ++i) trace.back().push_back(b * 50 + i);
    }
    run(policy, 20, trace, 1);
    run(policy, 20, test::random_trace(5, 200, 60, 3000), 1);
  }
  auto buffer = make("free", 100, 1);
  uint64_t most = 0;
  for (uint64_t b = 0; b < 300; ++b) {
    std::vector<uint64_t> ids(100);
    for (uint64_t i = 0; i < 100; ++i) ids[i] = b * 100 + i;
    ASSERT_TRUE(buffer->minibatch(ids));
    if (b == 20) most = buffer->bytes();
  }
  EXPECT_EQ(buffer->bytes(), most) << "memory grows with ids that never come back";
}

TEST(Properties, SizePolicyAndRowsMayChangeInMidTraining) {
  Random random(77);
  for (int round = 0; round < 30; ++round) {
    const Trace trace = test::random_trace(static_cast<uint64_t>(round), 80, 20, 100);
    auto buffer = make("free", 30, 64);
    Caller caller(*buffer);
    for (const auto& ids : trace) {
      const uint64_t before = buffer->metrics().total().evicted;
      switch (random.below(6)) {
        case 0: buffer->set_limit(random.below(40)); break;
        case 1:
          ASSERT_TRUE(buffer->set_policy(kPolicies[random.below(std::size(kPolicies))]));
          break;
        case 2: buffer->invalidate(trace[random.below(trace.size())]); break;
        case 3:
          ASSERT_TRUE(buffer->set_knobs({0.9 + 0.1 * random.unit(), random.below(10)}));
          break;
        case 4: buffer->replace(); break;
        default: break;
      }
      caller.left(buffer->metrics().total().evicted - before);
      if (random.below(3) == 0) {
        ASSERT_TRUE(buffer->schedule(trace[random.below(trace.size())]));
      }
      const auto plan = buffer->minibatch(ids);
      ASSERT_TRUE(plan);
      caller.execute(**plan, ids);
      caller.agree();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Buffer, AnIdTwiceInAMinibatchLiesInOneSlot) {
  for (const char* policy : kPolicies) {
    SCOPED_TRACE(policy);
    auto buffer = make(policy, 3);
    Caller caller(*buffer);
    for (const std::vector<uint64_t>& ids :
         {std::vector<uint64_t>{5, 5, 6}, {6, 5, 5, 7, 7}, {8, 8, 8, 8, 5}}) {
      buffer->replace();
      const auto plan = buffer->minibatch(ids);
      ASSERT_TRUE(plan);
      caller.execute(**plan, ids);
      caller.agree();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Buffer, TakesIdsUpToTwoToThe63AndRefusesLarger) {
  auto buffer = make("free", 2);
  const std::vector<uint64_t> large = {kMaxId, 0, kMaxId - 1};
  ASSERT_TRUE(buffer->minibatch(large));
  const auto plan = buffer->minibatch(large);
  ASSERT_TRUE(plan);
  EXPECT_EQ((*plan)->hits(), 2U);
  for (const uint64_t wrong : {kMaxId + 1, kNoId}) {
    const auto refused = buffer->minibatch(std::vector<uint64_t>{1, wrong});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(std::to_string(wrong)), std::string::npos);
    EXPECT_FALSE(buffer->preload(std::vector<uint64_t>{wrong}));
    EXPECT_FALSE(buffer->schedule(std::vector<uint64_t>{wrong}));
    EXPECT_EQ(buffer->invalidate(std::vector<uint64_t>{wrong}), 0U);
  }
  EXPECT_EQ(buffer->metrics().total().ids, 6U) << "a refused minibatch counts nothing";
}

TEST(Buffer, RefusesSizesThatNoMachineHolds) {
  for (const BufferSettings& wrong :
       {BufferSettings{.capacity = kMaxRows + 1}, BufferSettings{.capacity = UINT64_MAX},
        BufferSettings{.capacity = 1, .row_bytes = UINT64_MAX},
        BufferSettings{.capacity = kMaxRows, .row_bytes = 1 << 20},
        BufferSettings{.window = UINT64_MAX}, BufferSettings{.max_tracked = UINT64_MAX},
        BufferSettings{.knobs = {.decay = 2}}}) {
    const auto made = Buffer::make(wrong);
    ASSERT_FALSE(made);
    EXPECT_FALSE(made.error().key.empty());
  }
}

TEST(Buffer, MovesTheRowsItOwns) {
  BufferSettings settings;
  settings.capacity = 4;
  settings.row_bytes = 12;
  settings.policy = "lru";
  auto made = Buffer::make(settings);
  ASSERT_TRUE(made);
  Buffer& buffer = **made;
  const auto row_of = [](uint64_t id) {
    return std::array<uint32_t, 3>{static_cast<uint32_t>(id), static_cast<uint32_t>(id * 7), 3};
  };
  using Row = std::array<uint32_t, 3>;
  for (const auto& ids : test::random_trace(3, 40, 6, 12)) {
    const auto plan = buffer.minibatch(ids);
    ASSERT_TRUE(plan);
    std::vector<Row> rows(ids.size()), missed, extra;
    ASSERT_TRUE(buffer.gather(rows.data()));
    for (const uint32_t at : (*plan)->missed()) missed.push_back(rows[at] = row_of(ids[at]));
    ASSERT_TRUE(buffer.store(missed.data(), extra.data()));
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(rows[i], row_of(ids[i]));
  }
  EXPECT_GT(buffer.metrics().total().hits, 0U);
  auto without = make("lru", 4);
  EXPECT_FALSE(without->gather(nullptr));
  EXPECT_FALSE(without->store(nullptr, nullptr));
}

TEST(Metrics, TheWindowCountsTheLastMinibatchesAlone) {
  BufferSettings settings;
  settings.capacity = 2;
  settings.policy = "lru";
  settings.window = 2;
  auto buffer = std::move(*Buffer::make(settings));
  const std::vector<uint64_t> pair = {1, 2}, other = {1, 9};
  ASSERT_TRUE(buffer->preload(pair));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(buffer->minibatch(pair));
  ASSERT_TRUE(buffer->minibatch(other));
  EXPECT_EQ(buffer->metrics().total().ids, 8U);
  EXPECT_EQ(buffer->metrics().total().hits, 7U);
  EXPECT_EQ(buffer->metrics().total().fetched, 3U) << "two preloaded, one missed";
  EXPECT_EQ(buffer->metrics().window().minibatches, 2U);
  EXPECT_EQ(buffer->metrics().window().ids, 4U);
  EXPECT_EQ(buffer->metrics().window().hits, 3U);
  EXPECT_DOUBLE_EQ(buffer->metrics().window().hit_rate(), 0.75);
  EXPECT_DOUBLE_EQ(buffer->metrics().window().communication(), 0.25);
}

}  // namespace
