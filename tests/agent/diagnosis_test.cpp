// A judge's answer: what is taken, what is cut, what is refused.
#include "agent/diagnosis.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sculler::agent {
namespace {

constexpr std::string_view kEvidence =
    "status: RACE at stage emulate\nrank: 1\nwhat: rank 1 reads what rank 0 writes;\n  no barrier "
    "orders them\n";

nlohmann::json answer() {
  return {{"category", "race"},
          {"where", {{{"file", "candidate.cu"}, {"line", 84}, {"rank", 1}}}},
          {"evidence", {"rank 0 writes; no barrier   orders them"}},
          {"events", {"Rank 0 stores its tile", "rank 1 loads it before the store is there"}}};
}

TEST(Diagnosis, IsPrintedForTheNextPrompt) {
  const auto d = parse_diagnosis(dump_json(answer()), kEvidence);
  ASSERT_TRUE(d) << d.error().text();
  EXPECT_EQ(d->cut, 0);
  EXPECT_EQ(print(*d),
            "category: race\nwhere: candidate.cu:84, rank 1\n"
            "evidence: rank 0 writes; no barrier orders them\n"
            "1. Rank 0 stores its tile\n2. rank 1 loads it before the store is there\n");
}

TEST(Diagnosis, QuotesMustStandInTheEvidence) {
  auto a = answer();
  a["evidence"] = {"rank 3 deadlocks", "status: RACE"};
  const auto d = parse_diagnosis(dump_json(a), kEvidence);
  ASSERT_TRUE(d) << d.error().text();
  EXPECT_EQ(d->evidence, std::vector<std::string>{"status: RACE"});
  EXPECT_EQ(d->cut, 1);
  a["evidence"] = {"rank 3 deadlocks"};
  const auto none = parse_diagnosis(dump_json(a), kEvidence);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kModel);
}

TEST(Diagnosis, CodeAndOrdersAreCut) {
  for (const char* bad :
       {"```\nbarrier.sync();\n```", "barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);",
        "Add a barrier before line 84", "  use acquire loads", "if (rank == 0) {",
        "The fix is a fence", "You should wait for the peer", "<<<<<<< SEARCH", ";"}) {
    auto a = answer();
    a["events"].push_back(bad);
    const auto d = parse_diagnosis(dump_json(a), kEvidence);
    ASSERT_TRUE(d) << bad;
    EXPECT_EQ(d->events.size(), 2u) << bad;
    EXPECT_EQ(d->cut, 1) << bad;
    a["events"] = {bad};
    EXPECT_FALSE(parse_diagnosis(dump_json(a), kEvidence)) << bad;
  }
}

TEST(Diagnosis, TheSchemaHasNoPlaceForMore) {
  for (const char* key : {"code", "fix", "patch"}) {
    auto a = answer();
    a[key] = "x";
    EXPECT_FALSE(parse_diagnosis(dump_json(a), kEvidence)) << key;
  }
  auto a = answer();
  a["category"] = "magic";
  EXPECT_FALSE(parse_diagnosis(dump_json(a), kEvidence));
  a = answer();
  a["events"] = {std::string(401, 'x')};
  EXPECT_FALSE(parse_diagnosis(dump_json(a), kEvidence));
  a = answer();
  a["where"][0]["file"] = "../../etc/passwd";
  const auto d = parse_diagnosis(dump_json(a), kEvidence);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->where[0].file, "");
  EXPECT_FALSE(parse_diagnosis("no JSON", kEvidence));
}

}  // namespace
}  // namespace sculler::agent
