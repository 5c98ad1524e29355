#include "rank/cpu_job.h"

#include <algorithm>

namespace sculler::verify::test {
namespace {

std::string hostile(int kind) {
  return std::string(SCULLER_HOSTILE_FOLDER) + "/libhostile_" + std::to_string(kind) + ".so";
}

TEST_F(CpuJob, BaselinePasses) {
  const Outcome out = run(SCULLER_SILU_PLAIN);
  ASSERT_EQ(out.status, status::kPassed) << out.message;
  ASSERT_EQ(out.iterations.size(), 6u);
  for (const IterationResult& it : out.iterations) {
    EXPECT_GT(it.latency_ns, 0u);
    EXPECT_GE(it.checker_ns, it.ranks.at(0).end_ns);
  }
  EXPECT_GT(out.errors.relative_l2, 0);
  EXPECT_LT(out.errors.relative_l2, 1e-6);
  EXPECT_TRUE(rank_status_.ok()) << rank_status_.text();
}

TEST_F(CpuJob, SeedPassesAtEveryLengthAndFamily) {
  for (const uint64_t n : {uint64_t{1}, uint64_t{31}, uint64_t{16384}, uint64_t{100'003}}) {
    resize(n);
    EXPECT_EQ(run(SCULLER_SILU_BLOCKED).status, status::kPassed) << n;
  }
  for (uint32_t family = SCULLER_NORMAL; family <= SCULLER_INTEGERS; ++family) {
    resize(20'011);
    job_.buffers[0].family = family;
    const Outcome out = run(SCULLER_SILU_BLOCKED);
    EXPECT_EQ(out.status, status::kPassed) << family << ": " << out.message;
  }
}

TEST_F(CpuJob, BenchAnswersOneLineAnOrder) {
  job_.mode = Mode::kBench;
  job_.iterations = {{0, -1, true}, {1, -1, true}};
  const auto lines = run_lines(SCULLER_SILU_BLOCKED, "go 5\ngo 3\nquit\n");
  ASSERT_EQ(lines.size(), 3u);
  auto first = parse_outcome(lines[0]), second = parse_outcome(lines[1]),
       last = parse_outcome(lines[2]);
  ASSERT_TRUE(first && second && last);
  EXPECT_EQ(first->status, status::kPassed) << first->message;
  EXPECT_EQ(first->iterations.size(), 5u);
  EXPECT_EQ(second->iterations.size(), 3u);
  EXPECT_EQ(last->iterations.size(), 0u);
  EXPECT_EQ(last->status, status::kPassed);
  for (const IterationResult& it : first->iterations)
    EXPECT_GE(it.set, 2);  // 0 and 1 are for warm-ups
}

TEST_F(CpuJob, SeveralRanksShareABarrier) {
  job_.n_ranks = 2;
  job_.workload = false;
  job_.reference = SCULLER_SILU_REFERENCE_ANY;
  const Outcome out = run(SCULLER_SILU_PLAIN);
  ASSERT_EQ(out.status, status::kPassed) << out.message;
  EXPECT_EQ(out.iterations[0].ranks.size(), 2u);
}

struct Case {
  int kind;
  const char* expected;
  const char* what;
};

class Hostile : public CpuJob, public testing::WithParamInterface<Case> {};

TEST_P(Hostile, GetsItsStatus) {
  const Outcome out = run(hostile(GetParam().kind));
  // The checker compares as soon as it has heard Done. Where the candidate is slower than that, the
  // comparison comes before the second Done that would betray the first: refused either way.
  const bool forged_early = GetParam().kind == 13 && out.status == status::kIncorrect;
  if (!forged_early) {
    EXPECT_EQ(out.status, GetParam().expected) << GetParam().what << ": " << out.message;
  }
  EXPECT_FALSE(out.message.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, Hostile,
    testing::Values(
        Case{0, status::kPassed, "the honest one"}, Case{1, status::kUnsupported, "refuses"},
        Case{2, status::kTimeout, "setup never returns"},
        Case{3, status::kIncorrect, "writes nothing"}, Case{4, status::kIncorrect, "NaN"},
        Case{5, status::kIncorrect, "one element missing"},
        Case{6, status::kIncorrect, "input changed"},
        Case{7, status::kIncorrect, "forged record, _exit"}, Case{8, status::kCrash, "crash"},
        Case{9, status::kHang, "spins"}, Case{10, status::kIncorrect, "cache by set"},
        Case{11, status::kCheat, "flood"}, Case{12, status::kIncorrect, "unjoined thread"},
        Case{13, status::kCheat, "forged Done, works on"},
        Case{14, status::kLaunchError, "run fails"}, Case{15, status::kIncorrect, "PASS on stdout"},
        Case{16, status::kIncorrect, "one wrong value"}, Case{17, status::kPassed, "cannot shrink"},
        Case{18, status::kCheat, "a flood of descriptors"},
        Case{19, status::kCheat, "half a message"},
        Case{20, status::kCheat, "Done of the iteration before"},
        Case{21, status::kCheat, "a text longer than a message"},
        Case{22, status::kCrash, "closes its socket"},
        Case{23, status::kCheat, "announces another buffer"}),
    [](const testing::TestParamInfo<Case>& c) { return "Kind" + std::to_string(c.param.kind); });

TEST_F(CpuJob, UnwrittenNamesTheElement) {
  const Outcome out = run(hostile(5));
  EXPECT_NE(
      out.message.find("1 of 10007 elements of Y were never written, first row 0, column 10006"),
      std::string::npos)
      << out.message;
}

TEST_F(CpuJob, MissingCandidateIsALaunchError) {
  const Outcome out = run("/nonexistent/candidate.so");
  EXPECT_EQ(out.status, status::kLaunchError);
  EXPECT_NE(out.message.find("/nonexistent/candidate.so"), std::string::npos);
}

TEST_F(CpuJob, BrokenJobAnswersToo) {
  job_.reference = "/nonexistent/reference.so";
  const Outcome out = run(SCULLER_SILU_PLAIN);
  EXPECT_EQ(out.status, status::kInternal);
  EXPECT_NE(out.message.find("/nonexistent/reference.so"), std::string::npos);
}

}  // namespace
}  // namespace sculler::verify::test
