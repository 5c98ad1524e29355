// What the evaluator adds to the lint: rules that need the job and the machine.
#include "eval/linter.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "eval/job_line.h"

namespace sculler::eval {
namespace {

Job gin_job(const char* target, const char* backend, bool said_by_job) {
  auto object = job_object();
  object["target"] = target;
  object["candidate"].erase("defines");
  object["candidate"].erase("directive");
  std::ifstream in(std::string(SCULLER_SOURCE_DIR) +
                   "/tasks/workloads/ring_exchange/seeds/gin_put.cu");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string was = R"("backend":"gin")";
  const auto at = text.find(was);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, was.size(), std::string(R"("backend":")") + backend + '"');
  if (said_by_job) {
    object["candidate"]["directive"] = {{"backend", backend}};
    text.replace(0, text.find('\n'), "//");
  }
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
      const auto emulated = linter.lint(gin_job("emu", backend, said_by_job), task, &without);
      EXPECT_FALSE(emulated) << emulated->where << ": " << emulated->message;
      const auto there = linter.lint(gin_job("cuda", backend, said_by_job), task, &with);
      EXPECT_FALSE(there) << there->where << ": " << there->message;
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

TEST(Linter, FurtherFilesNeedNoEntryPointsAndAreLintedAllTheSame) {
  SourceLinter linter;
  const auto lint = [&](const std::string& header, const std::string& defines) {
    auto object = job_object();
    object["target"] = "cpu";
    object["candidate"].erase("directive");
    object["candidate"]["defines"] = {{"N", defines}};
    object["candidate"]["files"] = {{{"name", "candidate.cpp"},
                                     {"text",
                                      "// sculler:tune N in {1,2}\n#ifndef N\n#define N 1\n#endif\n"
                                      "// EVOLVE-BLOCK-START\n// EVOLVE-BLOCK-END\n"
                                      "int sculler_setup, sculler_run, sculler_teardown;\n"}},
                                    {{"name", "part.h"}, {"text", header}}};
    auto job = parse_job(object.dump(), "test");
    EXPECT_TRUE(job) << job.error().text();
    return linter.lint(*job, task::Task(), nullptr);
  };
  const auto clean = lint("inline int part() { return 1; }\n", "2");
  EXPECT_FALSE(clean) << clean->where << ": " << clean->message;
  const auto call = lint("inline void part() { _exit(0); }\n", "2");
  ASSERT_TRUE(call);
  EXPECT_NE(call->where.find("part.h"), std::string::npos) << call->where;
  EXPECT_TRUE(lint("inline int part() { return 1; }\n", "3")) << "no value of the tunable";
}

}  // namespace
}  // namespace sculler::eval
