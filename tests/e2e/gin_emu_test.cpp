// Seeds that communicate by GIN, on emulated nodes, through the real evaluator: silent under many
// schedules.
#include <set>

#include "e2e/evaluate.h"
#include "eval/toolchain.h"

namespace sculler::e2e {
namespace {

struct Seed {
  const char* task;
  const char* name;
  int ranks, nodes;
};

class GinEmu : public testing::TestWithParam<Seed> {};

TEST_P(GinEmu, PassesUnderManySchedules) {
  if (eval::find_toolchain().cuda_home.empty()) GTEST_SKIP() << "no nvcc here";
  const Seed& seed = GetParam();
  const std::string task = std::string("workloads/") + seed.task;
  const std::string text = read_text(source_path("tasks/" + task + "/seeds/" + seed.name + ".cu"));
  std::vector<json> jobs;
  const auto add = [&](const char* kind, int number, int delayed) {
    json extra{{"n_ranks", seed.ranks}, {"nodes", seed.nodes}};
    extra["emu"]["schedule"] = {
        {"kind", kind}, {"seed", number}, {"delayed_rank", delayed}, {"iterations", 3}};
    jobs.push_back(
        job_line(task, "candidate.cu", text, "emu", {"lint", "compile", "emulate"}, extra));
  };
  add("round_robin", 1, 0);
  add("delay_rank", 1, 0);
  add("delay_rank", 1, seed.ranks - 1);
  for (int number = 1; number <= 5; ++number) {
    add("random", number, 0);
    add("priority", number, 0);
  }
  const Answer answer = evaluate(jobs);
  ASSERT_EQ(answer.verdicts.size(), jobs.size()) << answer.errors << answer.ended;
  std::set<std::string> orders;
  for (const json& verdict : answer.verdicts) {
    EXPECT_EQ(status_of(verdict), "PASSED") << verdict.dump(2);
    EXPECT_TRUE(verdict["findings"].empty()) << verdict.dump(2);
    EXPECT_FALSE(verdict.contains("latency_us")) << "nothing is known of a network's rates";
    orders.insert(verdict["sync_hash"].get<std::string>());
  }
  EXPECT_GT(orders.size(), 1U) << "the schedules were one and the same";
}

INSTANTIATE_TEST_SUITE_P(Seeds, GinEmu,
                         testing::Values(Seed{"ring_exchange", "gin_put", 2, 2},
                                         Seed{"ring_exchange", "gin_put", 4, 2},
                                         Seed{"all_to_all", "gin_put", 2, 2},
                                         Seed{"all_to_all", "gin_put", 4, 2},
                                         Seed{"all_to_all", "hybrid_push", 4, 2}),
                         [](const auto& i) {
                           return std::string(i.param.task) + "_" + i.param.name + "_" +
                                  std::to_string(i.param.nodes) + "x" +
                                  std::to_string(i.param.ranks / i.param.nodes);
                         });

}  // namespace
}  // namespace sculler::e2e
