#include "eval/job.h"

#include <gtest/gtest.h>

#include "eval/job_line.h"

namespace sculler::eval {
namespace {

TEST(Job, ReadsALineAndPrintsItAgain) {
  auto job = parse_job(job_object().dump(), "test");
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->n_ranks, 2);
  EXPECT_EQ(job->seed, 7U);
  EXPECT_TRUE(job->is_cuda_source());
  EXPECT_TRUE(job->compare_all);
  ASSERT_EQ(job->stages.size(), 3U);
  EXPECT_EQ(job->stages[0], Stage::kLint);  // sorted
  EXPECT_EQ(job->stages[2], Stage::kRun);
  auto again = parse_job(print_job(*job), "again");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(print_job(*again), print_job(*job));
}

TEST(Job, AsksForAScheduleOfTheEmulator) {
  auto object = job_object();
  object["emu"]["schedule"] = {
      {"kind", "delay_rank"}, {"seed", 12}, {"delayed_rank", 9}, {"iterations", 1000}};
  auto job = parse_job(object.dump(), "test");
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->schedule.kind, "delay_rank");
  EXPECT_EQ(job->schedule.seed, 12);
  EXPECT_EQ(job->schedule.delayed_rank, 1);  // one of the ranks that there are
  auto again = parse_job(print_job(*job), "again");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->schedule.kind, "delay_rank");
  EXPECT_EQ(again->schedule.iterations, 64);  // the most that there may be
  object["emu"]["schedule"]["kind"] = "lucky";
  job = parse_job(object.dump(), "test");
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().text().find("round_robin"), std::string::npos) << job.error().text();
}

TEST(Job, LiesOnNodesOfTheEmulator) {
  auto object = job_object();
  object["target"] = "emu";
  object["stages"] = {"lint", "compile", "emulate"};
  object["n_ranks"] = 4;
  object["nodes"] = 2;
  auto job = parse_job(object.dump(), "test");
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->nodes, 2);
  auto again = parse_job(print_job(*job), "again");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->nodes, 2);
  object["nodes"] = 3;
  EXPECT_NE(parse_job(object.dump(), "test").error().text().find("does not divide"),
            std::string::npos);
  object["nodes"] = 2;
  object["target"] = "cuda";
  EXPECT_NE(parse_job(object.dump(), "test").error().text().find("emulated only"),
            std::string::npos);
  object.erase("nodes");
  EXPECT_EQ(parse_job(object.dump(), "test")->nodes, 1);
}

TEST(Job, AsksForTheOperations) {
  auto object = job_object();
  EXPECT_FALSE(parse_job(object.dump(), "test")->operations);
  object["emu"]["operations"] = true;
  auto job = parse_job(object.dump(), "test");
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_TRUE(job->operations);
  auto again = parse_job(print_job(*job), "again");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_TRUE(again->operations);
}

struct Bad {
  const char* key;
  nlohmann::json value;
  const char* says;
};

TEST(Job, RefusesWhatBreaksTheBounds) {
  const Bad cases[] = {
      {"version", 2, "version"},
      {"job", "../../etc/passwd", "job id"},
      {"job", std::string(64, 'Z'), "job id"},
      {"target", "tpu", "unknown target"},
      {"n_ranks", 0, "n_ranks"},
      {"n_ranks", 1000, "n_ranks"},
      {"stages", nlohmann::json::array(), "stages"},
      {"stages", {"cook"}, "unknown stage"},
      {"compare", "nccl", "compare"},
  };
  for (const auto& bad : cases) {
    auto object = job_object();
    object[bad.key] = bad.value;
    auto job = parse_job(object.dump(), "test");
    ASSERT_FALSE(job) << bad.key << " " << bad.value;
    EXPECT_NE(job.error().text().find(bad.says), std::string::npos) << job.error().text();
  }
}

TEST(Job, RefusesNamesThatAreNoPlainNames) {
  for (const char* name : {"../x.cu", "a/b.cu", ".hidden", "-o", "", "a b.cu"}) {
    auto object = job_object();
    object["candidate"]["files"][0]["name"] = name;
    EXPECT_FALSE(parse_job(object.dump(), "test")) << name;
  }
  for (const char* value : {"1 -o /etc/x", "a\nb", "$(x)", "\"q\""}) {
    auto object = job_object();
    object["candidate"]["defines"]["TILE"] = value;
    EXPECT_FALSE(parse_job(object.dump(), "test")) << value;
  }
  auto object = job_object();
  object["candidate"]["defines"] = {{"A=1 -include", "1"}};
  EXPECT_FALSE(parse_job(object.dump(), "test"));
}

}  // namespace
}  // namespace sculler::eval
