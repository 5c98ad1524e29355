#include "eval/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "eval/job_line.h"
#include "eval/verdict.h"

namespace sculler::eval {
namespace {

Job job_of(char digit) { return *parse_job(job_object(digit).dump(), "test"); }

std::string passed(const Job& job) {
  Verdict v;
  v.job = job.id;
  v.status = "PASSED";
  return print_verdict(v);
}

TEST(Queue, AJobWithAVerdictNeverRunsAgain) {
  MemoryFiles files;
  Spool spool(files, "/spool");
  ASSERT_TRUE(spool.open());
  std::atomic<int> runs{0};
  std::vector<std::string> lines;
  const auto run = [&](const Job& job) {
    ++runs;
    return passed(job);
  };
  for (int round = 0; round < 2; ++round) {  // a second evaluator on the same spool
    Queue queue(run, spool, [&](const std::string& line) { lines.push_back(line); }, 4);
    for (int i = 0; i < 8; ++i) queue.submit(job_of(i % 2 == 0 ? 'a' : 'b'));  // twins in flight
    queue.drain();
  }
  EXPECT_EQ(runs, 2);
  ASSERT_EQ(lines.size(), 16U);
  for (const auto& line : lines) {
    const auto v = nlohmann::json::parse(line);
    EXPECT_EQ(v["status"], "PASSED");
  }
}

TEST(Queue, TheVerdictIsDurableBeforeItIsSaid) {
  MemoryFiles files;
  Spool spool(files, "/spool");
  ASSERT_TRUE(spool.open());
  int checked = 0;
  Queue queue(
      passed, spool,
      [&](const std::string& line) {
        const auto id = nlohmann::json::parse(line)["job"].get<std::string>();
        EXPECT_TRUE(files.exists("/spool/" + id + ".json"));
        ++checked;
      },
      2);
  for (const char digit : {'1', '2', '3'}) queue.submit(job_of(digit));
  queue.drain();
  EXPECT_EQ(checked, 3);
}

TEST(Queue, AVerdictThatCannotBeKeptIsNotSaid) {
  MemoryFiles files;
  Spool spool(files, "/spool");
  ASSERT_TRUE(spool.open());
  files.set_capacity(16);
  std::string said;
  Queue queue(passed, spool, [&](const std::string& line) { said = line; }, 1);
  queue.submit(job_of('d'));
  queue.drain();
  const auto v = nlohmann::json::parse(said);
  EXPECT_EQ(v["status"], "INTERNAL");
  EXPECT_NE(v["message"].get<std::string>().find("could not be kept"), std::string::npos);
}

}  // namespace
}  // namespace sculler::eval
