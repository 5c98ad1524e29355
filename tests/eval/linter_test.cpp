// What the evaluator adds to the lint: rules that need the job and the machine.
#include "eval/linter.h"

#include <gtest/gtest.h>

#include "eval/job_line.h"

namespace sculler::eval {
namespace {

Job gin_job(const char* target, const char* backend, bool said_by_job) {
  auto object = job_object();
  object["target"] = target;
  object["candidate"].erase("defines");
  object["candidate"].erase("directive");
  const std::string directive = std::string(R"({"backend":")") + backend + R"("})";
  std::string text =
      "// EVOLVE-BLOCK-START\n__global__ void k(ncclDevComm c) { ncclGin gin(c, 0); }\n"
      "// EVOLVE-BLOCK-END\n";
  if (said_by_job) object["candidate"]["directive"] = nlohmann::json::parse(directive);
  else text = "// sculler:directive " + directive + "\n" + text;
  object["candidate"]["files"] = {{{"name", "candidate.cu"}, {"text", text}}};
  auto job = parse_job(object.dump(), "test");
  EXPECT_TRUE(job) << job.error().text();
  return *job;
}

TEST(Linter, GinIsForTheEmulatorAndForMachinesThatHaveIt) {
  SourceLinter linter;
  const task::Task task;
  task::Profile without, with;
  with.gin = true;
  for (const char* backend : {"gin", "hybrid"}) {
    for (const bool said_by_job : {true, false}) {
      EXPECT_FALSE(linter.lint(gin_job("emu", backend, said_by_job), task, &without));
      EXPECT_FALSE(linter.lint(gin_job("cuda", backend, said_by_job), task, &with));
      for (const task::Profile* profile : {static_cast<const task::Profile*>(&without),
                                           static_cast<const task::Profile*>(nullptr)}) {
        const auto problem = linter.lint(gin_job("cuda", backend, said_by_job), task, profile);
        ASSERT_TRUE(problem);
        EXPECT_EQ(problem->status, "LINT_ERROR");
        EXPECT_NE(problem->message.find("this machine has no GIN"), std::string::npos);
        EXPECT_NE(problem->message.find(backend), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace sculler::eval
