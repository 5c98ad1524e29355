#include "search/table.h"

#include <gtest/gtest.h>

namespace sculler::search {
namespace {

Verdict passed(double us, double sol) {
  Verdict v;
  v.status = "PASSED";
  v.latency_us = us;
  v.percent_sol = sol;
  return v;
}

TEST(Table, GoldenText) {
  const Verdict nccl = passed(948, 42), tile = passed(552, 73);
  Verdict race;
  race.status = "RACE";
  race.rank = 1;
  race.where = "ring.cu:84";
  race.message = "reads what rank 0 writes at ring.cu:61; no barrier orders them\x1b[2J";
  std::string text = table_head("predicted", "nccl") + "\n";
  text += table_row({0, "nccl", "none", &nccl, 1.0}) + "\n";
  text += table_row({3, "tile_store TILE_M=128", "lsa cta tile_fused tile", &tile, 1.717}) + "\n";
  text += table_row({7,
                     "ring CHUNKS=8 and a label that does not fit",
                     "lsa warp split_phase peer",
                     &race,
                     {}}) +
          "\n";
  EXPECT_EQ(
      text,
      "   #  candidate                       directive                           status          "
      "predicted     vs nccl  % of SOL\n"
      "   –  nccl                            none                                PASSED            "
      " 948 µs        1.00        42\n"
      "   3  tile_store TILE_M=128           lsa cta tile_fused tile             PASSED            "
      " 552 µs        1.72        73\n"
      "   7  ring CHUNKS=8 and a label tha…  lsa warp split_phase peer           RACE           "
      "rank 1, ring.cu:84: reads what rank 0 writes at ring.cu:61; no barrier orders them?[2J\n");
}

TEST(Table, Tally) {
  Tally tally{12, 9, 40, 31, "tile_store", 552, 0};
  EXPECT_EQ(tally_text(tally, false),
            "12 of 40 evaluated, 9 passed, 0:00:31, about 0:01:12 left, $0.00");
  EXPECT_EQ(
      tally_text(tally, true),
      "best tile_store 552 µs; 12 of 40 evaluated, 9 passed, 0:00:31, about 0:01:12 left, $0.00");
  tally.budget = 0;
  EXPECT_EQ(tally_text(tally, false), "12 evaluated, 9 passed, 0:00:31, $0.00");
}

TEST(Verdict, IsReadWithBounds) {
  auto v = parse_verdict(
      R"({"version":1,"job":"x","status":"PASSED","latency_us":{"median":5,"low":-1,"kind":"measured"},"ratio":{"nccl":{"median":1.5,"low":1.4,"high":1.6},"bad":{"median":-2}},"rank":99999999999})",
      "v");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->latency_us, 5);
  EXPECT_EQ(v->latency_low_us, std::nullopt);
  EXPECT_EQ(v->ratio.size(), 1u);
  EXPECT_EQ(v->rank, 1 << 20);
  EXPECT_EQ(parse_verdict("{}", "v").error().code, ErrorCode::kProtocol);
  EXPECT_EQ(parse_verdict("nonsense", "v").error().code, ErrorCode::kProtocol);
}

}  // namespace
}  // namespace sculler::search
