#include "verify/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "verify/fake_ranks.h"

namespace sculler::verify::test {
namespace {

struct Bench {
  explicit Bench(JobSpec j = small_job()) : job(std::move(j)) {}
  Outcome run() {
    FakeRanks ranks(job, device);
    // Hello went out before the editor was there: only later messages can be changed.
    ranks.edit = edit;
    if (adjust) adjust(ranks);
    Outcome outcome = run_session(job, ranks, device);
    sent = ranks.sent;
    return outcome;
  }
  JobSpec job;
  FakeDevice device;
  std::function<std::vector<Message>(int, Message)> edit;
  std::function<void(FakeRanks&)> adjust;
  std::vector<Message> sent;
};

bool timed(const Message& m, Kind kind, int iteration) {
  return m.kind == kind && m.a == iteration;
}

TEST(Session, GoodRun) {
  Bench t;
  const Outcome out = t.run();
  EXPECT_EQ(out.status, status::kPassed) << out.message;
  ASSERT_EQ(out.iterations.size(), 5u);
  EXPECT_TRUE(out.iterations[0].warm_up);
  for (const IterationResult& it : out.iterations) {
    EXPECT_EQ(it.latency_ns, 500'000u);
    EXPECT_TRUE(it.clocks_agree);
    ASSERT_EQ(it.ranks.size(), 2u);
    EXPECT_EQ(it.ranks[1].end_ns, 500'000u);
    EXPECT_GT(it.checker_ns, it.latency_ns);
  }
  EXPECT_EQ(t.device.compared, 10);  // every iteration, the warm-up too, on both ranks
  EXPECT_EQ(t.device.adopted, 16);
  EXPECT_EQ(t.sent.back().kind, Kind::kQuit);
}

TEST(Session, TwoRunsOnOneInputMustAgree) {
  Bench t;
  t.job.iterations = {{0, 3, true}, {1, 2}, {2, 2}, {3, 1}};
  EXPECT_EQ(t.run().status, status::kPassed);
  EXPECT_EQ(t.device.repeated, 2);  // set 2 against set 1, on both ranks
  t.device.on_repeat = [](int r, int set, int other) {
    EXPECT_EQ(set, 2);
    EXPECT_EQ(other, 1);
    Comparison c;
    if (r == 1) c.bad = 3, c.first_bad = 17;
    return c;
  };
  const Outcome out = t.run();
  EXPECT_EQ(out.status, status::kIncorrect);
  EXPECT_EQ(out.rank, 1);
  EXPECT_NE(out.message.find("two runs on one input differ in Y: 3 elements, first row 1"),
            std::string::npos)
      << out.message;
  // Benchmarks compare with the expectation only.
  t.job.mode = Mode::kBench;
  EXPECT_EQ(t.run().status, status::kPassed);
}

TEST(Session, OneRankIsDelayedByTheWholeBound) {
  Bench t;
  t.job.iterations = {{0}};
  t.job.iterations[0].delay_before_ns = 1000;
  t.job.iterations[0].delay_inside_ns = 2000;
  t.job.iterations[0].delayed_rank = 1;
  (void)t.run();
  int seen = 0;
  for (const Message& m : t.sent) {
    if (m.kind != Kind::kRun || m.a < 0) continue;
    EXPECT_EQ(m.u[1], seen == 1 ? 1000U : 0U);
    EXPECT_EQ(m.u[2], seen == 1 ? 2000U : 0U);
    ++seen;
  }
  EXPECT_EQ(seen, 2);
}

TEST(Session, ColdIterationsHaveCalibrationsOfTheirOwn) {
  Bench t;
  t.job.mode = Mode::kBench;
  t.job.iterations = {{0}, {1}};
  t.job.iterations[1].cold = true;
  EXPECT_EQ(t.run().status, status::kPassed);
  int hot = 0, cold = 0, cold_runs = 0;
  for (const Message& m : t.sent) {
    if (m.kind != Kind::kRun) continue;
    const bool flushed = (m.u[0] & rank::kFlushL2) != 0;
    if ((m.u[0] & rank::kCalibrate) != 0) ++(flushed ? cold : hot);
    else if (flushed) ++cold_runs;
  }
  EXPECT_EQ(hot, 16);  // 8 on each of two ranks
  EXPECT_EQ(cold, 16);
  EXPECT_EQ(cold_runs, 2);
}

TEST(Session, AGraphRunsEveryTimedSetAndEachIsCompared) {
  JobSpec job = small_job(1);
  FakeDevice device;
  FakeRanks ranks(job, device);
  ranks.run_ns = 30'000;
  Session session(job, ranks, device);
  ASSERT_TRUE(session.open());
  ranks.sent.clear();
  device.filled.clear();
  std::vector<Kind> order;
  ASSERT_TRUE(session.iterate_replayed());
  ASSERT_EQ(ranks.sent.size(), 2u);
  EXPECT_EQ(ranks.sent[0].kind, Kind::kCapture);
  EXPECT_EQ(ranks.sent[0].u[0], 0b1110u);  // the first of four sets is for warm-ups
  EXPECT_EQ(ranks.sent[1].kind, Kind::kRun);
  EXPECT_NE(ranks.sent[1].u[0] & rank::kReplay, 0u);
  EXPECT_EQ(device.filled.size(), 3u);
  EXPECT_EQ(device.compared, 3);
  ASSERT_EQ(session.outcome().iterations.size(), 1u);
  EXPECT_EQ(session.outcome().iterations[0].replayed, 3);
  EXPECT_EQ(session.outcome().iterations[0].latency_ns, 10'000u);
  // One wrong output of one set is enough.
  device.on_compare = [](int, int set, int, int) {
    Comparison c;
    if (set == 2) c.bad = 1, c.first_bad = 0;
    return c;
  };
  EXPECT_FALSE(session.iterate_replayed());
  EXPECT_EQ(session.outcome().status, status::kIncorrect);
}

TEST(Session, InputsAreFilledAfterTheCapture) {
  JobSpec job = small_job(1);
  FakeDevice device;
  FakeRanks ranks(job, device);
  Session session(job, ranks, device);
  ASSERT_TRUE(session.open());
  const auto before = device.poisoned;
  bool asked = false;
  ranks.edit = [&](int, Message m) {
    if (m.kind == Kind::kCaptured) {
      asked = true;
      EXPECT_EQ(device.poisoned, before);
    }
    return std::vector<Message>{m};
  };
  EXPECT_TRUE(session.iterate_replayed());
  EXPECT_TRUE(asked);
  EXPECT_NE(device.poisoned, before);
}

TEST(Session, WhatCannotBeCapturedRunsAsItIs) {
  JobSpec job = small_job(1);
  FakeDevice device;
  FakeRanks ranks(job, device);
  ranks.can_capture = false;
  Session session(job, ranks, device);
  ASSERT_TRUE(session.open());
  EXPECT_TRUE(session.iterate_replayed());
  EXPECT_EQ(session.outcome().iterations.at(0).replayed, 0);
  EXPECT_EQ(session.outcome().iterations.at(0).latency_ns, 500'000u);
  // Nobody may speak of a capture that was not asked for.
  ranks.edit = [](int, Message m) {
    std::vector<Message> out{m};
    if (m.kind == Kind::kEnqueued) out[0].kind = Kind::kCaptured;
    return out;
  };
  EXPECT_FALSE(session.iterate(IterationSpec{1}));
  EXPECT_EQ(session.outcome().status, status::kCheat);
}

TEST(Session, ContentsOfASetChange) {
  Bench t;
  t.job.iterations.assign(20, IterationSpec{2});
  const Outcome out = t.run();
  ASSERT_EQ(out.iterations.size(), 20u);
  for (std::size_t i = 1; i < 20; ++i)
    EXPECT_NE(out.iterations[i].content, out.iterations[i - 1].content);
}

TEST(Session, DrawnWarmUpsUseOtherSets) {
  const JobSpec job = small_job();
  FakeDevice device;
  FakeRanks ranks(job, device);
  Session session(job, ranks, device);
  std::set<int> warm, timed_sets;
  int previous = -1;
  ASSERT_TRUE(session.open());
  for (int i = 0; i < 40; ++i) {
    const IterationSpec a = session.draw(i < 8);
    (a.warm_up ? warm : timed_sets).insert(a.set);
    if (!a.warm_up) { EXPECT_NE(a.set, previous); }
    previous = a.set;
    ASSERT_TRUE(session.iterate(a));
  }
  for (const int s : warm) EXPECT_EQ(timed_sets.count(s), 0u);
  EXPECT_EQ(timed_sets.size(), 3u);
}

TEST(Session, EarlyDoneIsACheat) {
  Bench t;
  t.edit = [](int r, Message m) -> std::vector<Message> {
    if (r != 1 || !timed(m, Kind::kOpened, 2)) return {m};
    Message done = m;
    done.kind = Kind::kDone;
    return {done, m};
  };
  const Outcome out = t.run();
  EXPECT_EQ(out.status, status::kCheat);
  EXPECT_EQ(out.rank, 1);
  EXPECT_EQ(out.iterations.size(), 2u);
}

TEST(Session, DoneOfAnotherIterationIsACheat) {
  Bench t;
  t.edit = [](int, Message m) -> std::vector<Message> {
    if (timed(m, Kind::kDone, 2)) m.a = 3;
    return {m};
  };
  EXPECT_EQ(t.run().status, status::kCheat);
}

TEST(Session, DuplicateDoneIsACheat) {
  Bench t;
  t.edit = [](int r, Message m) -> std::vector<Message> {
    if (r == 0 && timed(m, Kind::kDone, 1)) return {m, m};
    return {m};
  };
  EXPECT_EQ(t.run().status, status::kCheat);
}

TEST(Session, FloodIsACheat) {
  Bench t;
  t.edit = [](int r, Message m) -> std::vector<Message> {
    if (r == 0 && timed(m, Kind::kEnqueued, 0)) return std::vector<Message>(100'000, m);
    return {m};
  };
  EXPECT_EQ(t.run().status, status::kCheat);
}

TEST(Session, MissingRankHangs) {
  Bench t;
  t.edit = [](int r, Message m) -> std::vector<Message> {
    if (r == 1 && timed(m, Kind::kDone, 1)) return {};
    return {m};
  };
  const Outcome out = t.run();
  EXPECT_EQ(out.status, status::kHang);
  EXPECT_EQ(out.rank, 1);
  EXPECT_NE(out.message.find("rank 1"), std::string::npos);
}

TEST(Session, SetupDeadline) {
  Bench t;
  t.edit = [](int, Message m) -> std::vector<Message> {
    if (m.kind == Kind::kReady) return {};
    return {m};
  };
  EXPECT_EQ(t.run().status, status::kTimeout);
}

TEST(Session, RankThatNeverStartsIsNotTheCandidatesFault) {
  Bench t;
  t.edit = [](int r, Message m) -> std::vector<Message> {
    if (r == 1 && m.kind == Kind::kPool) return {};
    return {m};
  };
  EXPECT_EQ(t.run().status, status::kInternal);
}

TEST(Session, SecondPoolIsRefused) {
  Bench t;
  t.edit = [](int, Message m) -> std::vector<Message> {
    if (m.kind == Kind::kPool) return {m, m};
    return {m};
  };
  EXPECT_EQ(t.run().status, status::kInternal);
}

TEST(Session, ExitAfterDoneIsACrash) {
  Bench t;
  t.adjust = [](FakeRanks& ranks) {
    ranks.edit = [&ranks](int r, Message m) -> std::vector<Message> {
      if (r == 1 && timed(m, Kind::kEnqueued, 1)) {
        ranks.close(1);
        return {};
      }
      return {m};
    };
  };
  const Outcome out = t.run();
  EXPECT_EQ(out.status, status::kCrash);
  EXPECT_EQ(out.rank, 1);
}

TEST(Session, MalformedPacketIsACheat) {
  Bench t;
  t.adjust = [](FakeRanks& ranks) {
    ranks.edit = [&ranks](int r, Message m) -> std::vector<Message> {
      if (r == 0 && timed(m, Kind::kEnqueued, 0)) ranks.push(Ranks::Event::Kind::kMalformed, 0);
      return {m};
    };
  };
  EXPECT_EQ(t.run().status, status::kCheat);
}

TEST(Session, UnwrittenElementNamesItsPlace) {
  Bench t;
  t.device.on_compare = [](int r, int, int, int) {
    Comparison c;
    c.cap = 0.1;
    if (r == 1) {
      c.relative_l2 = c.max_abs = std::numeric_limits<double>::infinity();
      c.bad = c.unwritten = 1;
      c.first_bad = c.first_unwritten = 35;
    }
    return c;
  };
  t.device.on_blame = [](int r, int buffer, int64_t element, bool unwritten) {
    EXPECT_EQ(r, 1);
    EXPECT_GE(buffer, 0);
    EXPECT_EQ(element, 35);
    EXPECT_TRUE(unwritten);
    return Device::Blame{"ring.cu:84", "it went to rank 0", "store it to rank 1"};
  };
  const Outcome out = t.run();
  EXPECT_EQ(out.status, status::kIncorrect);
  EXPECT_EQ(out.rank, 1);
  EXPECT_NE(out.message.find("never written, first row 2, column 3; it went to rank 0"),
            std::string::npos)
      << out.message;
  EXPECT_EQ(out.where, "ring.cu:84");
  EXPECT_EQ(out.advice, "store it to rank 1");
  EXPECT_EQ(out.errors.unwritten, 1u);
}

TEST(Session, NanNeverPasses) {
  Bench t;
  t.device.on_compare = [](int, int, int, int) {
    Comparison c;
    c.relative_l2 = std::nan("");
    return c;
  };
  EXPECT_EQ(t.run().status, status::kIncorrect);
  Comparison c;
  c.max_abs = std::nan("");
  EXPECT_FALSE(c.passes({1, 1}));
}

TEST(Session, WarmUpIsCheckedToo) {
  Bench t;
  t.device.on_compare = [](int, int set, int, int) {
    Comparison c;
    c.relative_l2 = set == 0 ? 0.5 : 0;
    return c;
  };
  EXPECT_EQ(t.run().status, status::kIncorrect);
}

TEST(Session, MutatedInput) {
  Bench t;
  t.device.on_changed = [](int r) -> uint64_t { return r == 1 ? 3 : 0; };
  const Outcome out = t.run();
  EXPECT_EQ(out.status, status::kIncorrect);
  EXPECT_NE(out.message.find("3 input elements"), std::string::npos);
}

TEST(Session, FaultsHaveTheirStatus) {
  struct Case {
    rank::FaultCode code;
    int number;
    const char* expected;
  };
  for (const Case& c :
       {Case{rank::FaultCode::kLaunch, 700, status::kLaunchError},
        Case{rank::FaultCode::kRun, SCULLER_UNSUPPORTED_PROBLEM, status::kUnsupported},
        Case{rank::FaultCode::kRun, SCULLER_OUT_OF_MEMORY, status::kOom},
        Case{rank::FaultCode::kOutOfMemory, 2, status::kOom},
        // A candidate cannot pass as a broken machine.
        Case{rank::FaultCode::kEnvironment, 0, status::kLaunchError}}) {
    Bench t;
    t.edit = [&c](int r, Message m) -> std::vector<Message> {
      if (r == 0 && timed(m, Kind::kDone, 0)) {
        m.kind = Kind::kFault;
        m.a = static_cast<int32_t>(c.code);
        m.b = c.number;
        rank::set_text(m, "cudaErrorIllegalAddress");
      }
      return {m};
    };
    const Outcome out = t.run();
    EXPECT_EQ(out.status, c.expected);
    EXPECT_NE(out.message.find("cudaErrorIllegalAddress"), std::string::npos);
  }
}

TEST(Session, TimesBeforeTheRunWasSentAreACheat) {
  Bench t;
  t.edit = [](int r, Message m) -> std::vector<Message> {
    if (r == 0 && timed(m, Kind::kOpened, 1)) m.u[0] = 5;
    return {m};
  };
  const Outcome out = t.run();
  EXPECT_EQ(out.status, status::kCheat);
  EXPECT_EQ(out.rank, 0);
}

TEST(Session, DoneLaterThanItsMessageIsACheat) {
  Bench t;
  t.edit = [](int, Message m) -> std::vector<Message> {
    if (timed(m, Kind::kDone, 1)) m.u[1] += 1'000'000'000;
    return {m};
  };
  EXPECT_EQ(t.run().status, status::kCheat);
}

TEST(Session, ClaimedSpeedIsTakenBack) {
  Bench t;
  t.edit = [](int, Message m) -> std::vector<Message> {
    // Both ranks claim a tenth in the second iteration.
    if (timed(m, Kind::kDone, 1)) m.u[1] = m.u[0] + 50'000;
    return {m};
  };
  const Outcome out = t.run();
  ASSERT_EQ(out.status, status::kPassed) << out.message;
  EXPECT_FALSE(out.iterations[1].clocks_agree);
  EXPECT_GE(out.iterations[1].latency_ns, 480'000u);
  EXPECT_TRUE(out.iterations[2].clocks_agree);
}

TEST(Session, ClaimedSpeedEveryTimeIsACheat) {
  Bench t;
  t.job.iterations.assign(8, IterationSpec{1});
  t.adjust = [](FakeRanks& ranks) { ranks.run_ns = 100'000'000; };
  t.edit = [](int, Message m) -> std::vector<Message> {
    if (m.kind == Kind::kDone && m.a >= 0) m.u[1] = m.u[0] + 50'000;
    return {m};
  };
  EXPECT_EQ(t.run().status, status::kCheat);
}

TEST(Session, EmulatedTimesAreTheDevices) {
  Bench t;
  t.device.real = false;
  const Outcome out = t.run();
  ASSERT_EQ(out.status, status::kPassed);
  EXPECT_EQ(out.iterations[1].latency_ns, 4242u);
  for (const Message& m : t.sent) EXPECT_EQ(m.u[0] & rank::kCalibrate, 0u);
}

TEST(Session, FindingBeatsWrongNumbers) {
  Bench t;
  t.device.real = false;
  t.device.on_compare = [](int, int, int, int) {
    Comparison c;
    c.bad = 1;
    return c;
  };
  t.device.on_closed = [](int) {
    Outcome o;
    o.status = status::kRace;
    o.message = "no barrier orders them";
    return std::optional<Outcome>(o);
  };
  EXPECT_EQ(t.run().status, status::kRace);
}

TEST(Session, DelaysStayBelowTheirBounds) {
  Bench t;
  t.job.iterations = {{1, -1, false, 1000, 5000}, {2, -1, false, 1000, 5000}};
  ASSERT_EQ(t.run().status, status::kPassed);
  uint64_t seen = 0;
  for (const Message& m : t.sent) {
    if (m.kind != Kind::kRun) continue;
    EXPECT_LE(m.u[1], 1000u);
    EXPECT_LE(m.u[2], 5000u);
    seen += m.u[2];
  }
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace sculler::verify::test
