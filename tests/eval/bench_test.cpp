#include "eval/bench.h"

#include <gtest/gtest.h>

#include "eval/fakes.h"

namespace sculler::eval {
namespace {

Contestant contestant(const char* name) {
  Contestant c{name, {}};
  c.spec.job_json = nlohmann::json{{"name", name}}.dump();
  c.spec.rank_json = "{}";
  return c;
}

std::string one_sample(double ns) {
  return nlohmann::json{{"status", "PASSED"}, {"iterations", {{{"set", 0}, {"latency_ns", ns}}}}}
      .dump();
}

TEST(Bench, TakesTurnsAndReversesTheOrder) {
  FakeLauncher launcher;
  std::string order;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string& line, int) {
    if (line != "quit") order += asked.job["name"].get<std::string>()[0];
    return one_sample(1000);
  };
  BenchPlan plan;
  plan.rounds = 4;
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, plan);
  EXPECT_TRUE(out.candidate.passed());
  EXPECT_EQ(order, "cncnnccnnc");  // warm-up c n, then c n, n c, c n, n c
  EXPECT_EQ(out.samples_us.at("candidate").size(), 4U);
}

TEST(Bench, ABaselineThatFailsIsNamedAndTheRestGoesOn) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string& line,
                        int turn) -> std::string {
    if (asked.job["name"] == "nccl" && turn == 3) return "";  // died
    return line == "quit" ? R"({"status":"PASSED"})" : one_sample(2000);
  };
  BenchPlan plan;
  plan.rounds = 6;
  const auto out =
      run_bench(launcher, {contestant("candidate"), contestant("nccl"), contestant("other")}, plan);
  EXPECT_TRUE(out.candidate.passed());
  EXPECT_EQ(out.failed.count("nccl"), 1U);
  EXPECT_EQ(out.samples_us.count("nccl"), 0U);
  EXPECT_EQ(out.samples_us.at("candidate").size(), 6U);
  EXPECT_EQ(out.samples_us.at("other").size(), 6U);
}

TEST(Bench, AWrongResultInTheMiddleEndsIt) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string&,
                        int turn) -> std::string {
    if (asked.job["name"] == "candidate" && turn == 2)
      return R"({"status":"INCORRECT","message":"C[7]"})";
    return one_sample(1000);
  };
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, {});
  EXPECT_EQ(out.candidate.status, "INCORRECT");
  EXPECT_EQ(out.candidate.message, "C[7]");
}

}  // namespace
}  // namespace sculler::eval
