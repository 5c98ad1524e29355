#include "eval/external_message.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "eval/job_line.h"
#include "sculler/fill.h"

namespace sculler::eval {
namespace {

using nlohmann::json;

std::string why(const Result<AdapterAnswer>& answer) {
  return answer ? std::string("read") : answer.error().key + ": " + answer.error().message;
}

TEST(ExternalMessage, ReadsWhatAnAdapterSays) {
  auto hello = parse_answer(
      R"({"id":1,"ok":true,"protocol":1,"name":"triton","version":"0.1.0","device":"H200","capabilities":["benchmark","cold"],"does":["L2 is flushed"]})",
      Operation::kHello, 1);
  ASSERT_TRUE(hello) << why(hello);
  EXPECT_EQ(hello->name, "triton");
  EXPECT_TRUE(hello->can("cold"));
  EXPECT_FALSE(hello->can("profile"));
  auto times = parse_answer(R"({"id":4,"ok":true,"us":[1.5,2]})", Operation::kBenchmark, 4, 2);
  ASSERT_TRUE(times) << why(times);
  EXPECT_EQ(times->us, (std::vector<double>{1.5, 2}));
  auto refusal = parse_answer(
      R"({"id":2,"ok":false,"status":"COMPILE_ERROR","message":"a\nb","where":"candidate.py:3"})",
      Operation::kCompile, 2);
  ASSERT_TRUE(refusal) << why(refusal);
  EXPECT_FALSE(refusal->ok);
  EXPECT_EQ(refusal->status, "COMPILE_ERROR");
  EXPECT_EQ(refusal->message.find('\n'), std::string::npos);
  EXPECT_EQ(refusal->where, "candidate.py:3");
}

TEST(ExternalMessage, RefusesWhatBreaksTheProtocol) {
  const auto says = [](const std::string& line, Operation operation = Operation::kVerify,
                       std::size_t expected = 0) {
    return why(parse_answer(line, operation, 7, expected));
  };
  EXPECT_NE(says("hello").find("no JSON object"), std::string::npos);
  EXPECT_NE(says("[]").find("no JSON object"), std::string::npos);
  EXPECT_NE(says(R"({"ok":true})").find("id: "), std::string::npos);
  EXPECT_NE(says(R"({"id":8,"ok":true})").find("it answers request 8, asked was 7"),
            std::string::npos);
  EXPECT_NE(says(R"({"id":7})").find("ok: "), std::string::npos);
  EXPECT_NE(says(R"({"id":7,"ok":"yes"})").find("no truth value"), std::string::npos);
  for (const char* status : {"PASSED", "CHEAT", "INCORRECT", "", "FINE"}) {
    EXPECT_NE(says(json{{"id", 7}, {"ok", false}, {"status", status}, {"message", "m"}}.dump())
                  .find("is no status of an adapter"),
              std::string::npos)
        << status;
  }
  EXPECT_NE(says(R"({"id":7,"ok":false,"status":"CRASH"})").find("says why"), std::string::npos);
  EXPECT_NE(says(R"({"id":7,"ok":true,"protocol":2,"name":"a","version":"1"})", Operation::kHello)
                .find("protocol: "),
            std::string::npos);
  EXPECT_NE(says(R"({"id":7,"ok":true,"protocol":1})", Operation::kHello).find("name"),
            std::string::npos);
  EXPECT_NE(
      says(R"({"id":7,"ok":true,"bottleneck":"luck"})", Operation::kProfile).find("bottleneck"),
      std::string::npos);
  for (const char* us : {"[1,NaN]", "[1,1e999]", "[1,-2]", "[1,0]", "[1,\"2\"]", "[1,null]",
                         "[1,1e13]", "[1]", "[1,2,3]", "7"}) {
    const auto read = parse_answer(std::string(R"({"id":7,"ok":true,"us":)") + us + "}",
                                   Operation::kBenchmark, 7, 2);
    EXPECT_FALSE(read) << us;
  }
  // More than a line may hold, and deeper than an answer is.
  EXPECT_FALSE(parse_answer(R"({"id":7,"ok":true,"x":")" + std::string(kAdapterLine, 'x') + "\"}",
                            Operation::kVerify, 7));
  EXPECT_FALSE(
      parse_answer(R"({"id":7,"ok":true,"x":)" + std::string(99, '[') + std::string(99, ']') + "}",
                   Operation::kVerify, 7));
}

TEST(ExternalMessage, WhatIsKeptIsBounded) {
  json object{{"id", 7}, {"ok", true}, {"protocol", 1}, {"version", "1"}};
  object["name"] = std::string(5000, 'n');
  object["device"] = "a\x1b[31m\nb";
  for (int i = 0; i < 200; ++i) object["capabilities"].push_back("c" + std::to_string(i));
  const auto hello = parse_answer(object.dump(), Operation::kHello, 7);
  ASSERT_TRUE(hello) << why(hello);
  EXPECT_LE(hello->name.size(), 80U);
  EXPECT_EQ(hello->device.find('\x1b'), std::string::npos);
  EXPECT_EQ(hello->capabilities.size(), 32U);
}

TEST(ExternalMessage, RequestsHoldWhatAnAdapterNeeds) {
  task::Problem problem;
  problem.dims = {7};
  task::Buffer x;
  x.name = "X";
  x.elements = 7;
  x.row_elements = 7;
  x.bytes = 28;
  task::Buffer y = x;
  y.name = "Y";
  y.role = task::Role::kOutput;
  EXPECT_EQ(
      load_request(3, 1, "in/4", {"N"}, problem, {x, y}),
      R"({"buffers":[{"bytes":28,"dtype":"f32","elements":7,"file":"in/4/X.bin","name":"X","role":"input","row_elements":7},)"
      R"({"bytes":28,"dtype":"f32","elements":7,"name":"Y","poison":)" +
          std::to_string(sculler_poison(SCULLER_F32)) +
          R"(,"role":"output","row_elements":7}],"dims":{"N":7},"id":3,"op":"load","set":1})");
  EXPECT_EQ(benchmark_request(5, "plain", {0, 2, 1}, true),
            R"({"cold":true,"id":5,"op":"benchmark","order":[0,2,1],"program":"plain"})");
  EXPECT_EQ(run_request(Operation::kVerify, 6, "candidate", 0, "out/9"),
            R"({"folder":"out/9","id":6,"op":"verify","program":"candidate","set":0})");
}

TEST(ExternalMessage, AJobOfTheTargetNamesItsAdapter) {
  auto object = job_object();
  object["target"] = "external";
  auto job = parse_job(object.dump(), "test");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().key, "adapter");
  object["adapter"] = "/a/adapter.toml";
  job = parse_job(object.dump(), "test");
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->target, Target::kExternal);
  EXPECT_EQ(job->adapter, "/a/adapter.toml");
  auto again = parse_job(print_job(*job), "again");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(print_job(*again), print_job(*job));
  object["target"] = "cpu";
  EXPECT_FALSE(parse_job(object.dump(), "test"));
}

}  // namespace
}  // namespace sculler::eval
