#include "search/evaluator.h"

#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "base/files.h"
#include "support/temp_folder.h"

namespace sculler::search {
namespace {

std::string job(int n) {
  std::string text = std::to_string(n);
  return std::string(64 - text.size(), '0') + text;
}
std::string line(int n) {
  return "{\"job\":\"" + job(n) + "\",\"text\":\"" + std::string(30'000, 'x') + "\"}";
}

class EvaluatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<ProcessEvaluator> make(std::vector<std::string> words) {
    SpawnOptions command;
    command.argv = {SCULLER_STAND_IN};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    return std::make_unique<ProcessEvaluator>(real_processes(), real_clock(), command,
                                              folder_ + "/log");
  }
  // Verdicts until `n` came or it fails.
  std::vector<std::string> collect(ProcessEvaluator& evaluator, int n) {
    std::vector<std::string> out;
    for (int tries = 0; tries < 200 && static_cast<int>(out.size()) < n; ++tries) {
      auto answer = evaluator.next(100);
      if (!answer) {
        error_ = answer.error();
        return out;
      }
      if (*answer) out.push_back((*answer)->job);
    }
    return out;
  }
  test::TempFolder temporary_{"sculler_eval"};
  const std::string folder_ = temporary_.path();
  Error error_;
};

TEST_F(EvaluatorTest, AnswersManyLargeJobs) {
  auto evaluator = make({"answer"});
  // More text than pipes hold in both directions.
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(evaluator->submit(job(i), line(i)));
  const auto answers = collect(*evaluator, 50);
  ASSERT_EQ(answers.size(), 50u);
  EXPECT_EQ(answers[49], job(49));
  EXPECT_FALSE(*evaluator->next(10));
  EXPECT_EQ(evaluator->restarts(), 0);
}

TEST_F(EvaluatorTest, DeathCostsNoJob) {
  auto evaluator = make({"die", "3", folder_ + "/died"});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(evaluator->submit(job(i), line(i)));
  const auto answers = collect(*evaluator, 10);
  EXPECT_EQ(answers.size(), 10u);
  EXPECT_EQ(std::set<std::string>(answers.begin(), answers.end()).size(), 10u);
  EXPECT_EQ(evaluator->restarts(), 1);
}

TEST_F(EvaluatorTest, KillFromOutsideCostsNoJob) {
  auto evaluator = make({"answer"});
  ASSERT_TRUE(evaluator->submit(job(0), line(0)));
  ASSERT_EQ(collect(*evaluator, 1).size(), 1u);
  ASSERT_EQ(::kill(evaluator->pid(), SIGKILL), 0);
  ASSERT_TRUE(evaluator->submit(job(1), line(1)));
  EXPECT_EQ(collect(*evaluator, 1).size(), 1u);
  EXPECT_EQ(evaluator->restarts(), 1);
}

TEST_F(EvaluatorTest, EndlessDeathsEndTheRunWithTheLastWords) {
  auto evaluator = make({"die-always"});
  ASSERT_TRUE(evaluator->submit(job(0), line(0)));
  EXPECT_TRUE(collect(*evaluator, 1).empty());
  EXPECT_EQ(error_.code, ErrorCode::kChildFailed);
  EXPECT_EQ(error_.message,
            "the evaluator ended 3 times without a verdict (exit code 7): out of luck");
}

TEST_F(EvaluatorTest, HangCountsAsDeath) {
  auto evaluator = make({"hang"});
  evaluator->set_stall_ms(50);
  ASSERT_TRUE(evaluator->submit(job(0), line(0)));
  EXPECT_TRUE(collect(*evaluator, 1).empty());
  EXPECT_EQ(error_.code, ErrorCode::kChildFailed);
}

TEST_F(EvaluatorTest, AnswersToNothingAreRefused) {
  auto evaluator = make({"noise"});
  ASSERT_TRUE(evaluator->submit(job(0), line(0)));
  EXPECT_TRUE(collect(*evaluator, 1).empty());
  EXPECT_EQ(error_.code, ErrorCode::kProtocol);
}

}  // namespace
}  // namespace sculler::search
