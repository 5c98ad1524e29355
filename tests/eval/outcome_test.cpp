#include "eval/outcome.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace sculler::eval {
namespace {

TEST(Outcome, TheOperationsOfATraceStayBesideTheTimeline) {
  const auto r = parse_result(
      R"({"status":"PASSED","trace":{"operations":[{"id":4,"at":"candidate.so+0x10"}]},)"
      R"("predicted":{"size":"default","latency_us":9.5,"per_rank_us":[9.5],)"
      R"("timeline":[{"rank":0,"stream":1,"what":"k","start_us":1,"end_us":9,"bound":"hbm"}]}})");
  const auto trace = nlohmann::json::parse(r.trace);
  EXPECT_EQ(trace["operations"][0]["id"], 4);
  EXPECT_EQ(trace["timeline"][0]["what"], "k");
}

TEST(Outcome, ReadsAResult) {
  const auto r = parse_result(
      R"({"status":"PASSED","iterations":[{"set":1,"latency_ns":1,"warm_up":true},{"set":2,"latency_ns":552000,
      "ranks":[{"start_ns":0,"end_ns":552000},{"start_ns":1000,"end_ns":551000}]}],"errors":{"relative_l2":0.001,
      "max_abs":"inf"},"predicted":{"size":"default","latency_us":500.5,"per_rank_us":[500.5,499]}})");
  EXPECT_TRUE(r.passed()) << r.message;
  ASSERT_EQ(r.latency_us.size(), 1U);
  EXPECT_DOUBLE_EQ(r.latency_us[0], 552);
  EXPECT_DOUBLE_EQ(r.rank_us[0][1], 550);
  EXPECT_TRUE(std::isinf(*r.max_abs));
  ASSERT_TRUE(r.predicted);
  EXPECT_DOUBLE_EQ(r.predicted->latency_us, 500.5);
}

TEST(Outcome, UnknownStatusAndBrokenLinesAreInternal) {
  for (const char* line :
       {"", "{", "[]", "{}", R"({"status":"EXCELLENT"})", R"({"status":3})", "null"}) {
    const auto r = parse_result(line);
    EXPECT_EQ(r.status, "INTERNAL") << line;
    EXPECT_FALSE(r.message.empty()) << line;
  }
}

TEST(Outcome, NoLineSaysHowTheProcessesEnded) {
  GroupOutcome dead;
  dead.trusted.code = 3;
  dead.trusted_error = "cannot read job.json\x1b[2J";
  const auto r = result_of(dead);
  EXPECT_EQ(r.status, "INTERNAL");
  EXPECT_NE(r.message.find("exit code 3"), std::string::npos) << r.message;
  EXPECT_NE(r.message.find("cannot read job.json"), std::string::npos) << r.message;
  EXPECT_EQ(r.message.find('\x1b'), std::string::npos);
  GroupOutcome slow;
  slow.timed_out = true;
  EXPECT_EQ(result_of(slow).status, "TIMEOUT");
}

TEST(Outcome, WhatRanksPrintIsANoteAndNothingMore) {
  GroupOutcome g;
  g.line = R"({"status":"INCORRECT","message":"C[3] is wrong"})";
  g.output = R"({"status":"PASSED"} Verification: PASS)";
  const auto r = result_of(g);
  EXPECT_EQ(r.status, "INCORRECT");
  ASSERT_EQ(r.notes.size(), 1U);
  EXPECT_NE(r.notes[0].find("not believed"), std::string::npos);
}

TEST(Outcome, NamesTheSignalOfARank) {
  GroupOutcome g;
  g.line = R"({"status":"CRASH","message":"rank 1 is gone","rank":1})";
  g.ranks.code = 128 + 11;
  EXPECT_NE(result_of(g).message.find("SIGSEGV"), std::string::npos) << result_of(g).message;
}

}  // namespace
}  // namespace sculler::eval
