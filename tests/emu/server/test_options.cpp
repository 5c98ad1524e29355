#include <gtest/gtest.h>

#include "emu/server/options.h"
#include "emu/server/report.h"

namespace sculler::emu {
namespace {

TEST(Options, AJobsObject) {
  auto options = parse_vm_options(
      R"({"schedule":{"kind":"delay_rank","seed":9,"delayed_rank":1},"checks":["race","deadlock"],"step_limit":5})",
      "job.json");
  ASSERT_TRUE(options) << options.error().text();
  EXPECT_EQ(options->schedule.kind, ScheduleKind::kDelayRank);
  EXPECT_EQ(options->schedule.seed, 9u);
  EXPECT_EQ(options->schedule.delayed_rank, 1);
  EXPECT_TRUE(options->race);
  EXPECT_FALSE(options->init);
  EXPECT_EQ(options->step_limit, 5u);
  EXPECT_EQ(schedule_text(options->schedule), "delay_rank:1:9");
}

TEST(Options, NodesDivideTheRanks) {
  auto options = parse_vm_options(R"({"nodes":2,"memory_bytes":1048576})", "job.json");
  ASSERT_TRUE(options) << options.error().text();
  EXPECT_EQ(options->nodes, 2);
  {
    auto vm = make_vm(*options, 4, false);
    ASSERT_TRUE(vm) << vm.error().text();
    const Memory& memory = (*vm)->machine->memory();
    EXPECT_TRUE(memory.same_node(0, 1));
    EXPECT_FALSE(memory.same_node(1, 2));
    EXPECT_TRUE(memory.same_node(2, 3));
  }
  const auto uneven = make_vm(*options, 3, false);
  ASSERT_FALSE(uneven);
  EXPECT_NE(uneven.error().text().find("3 ranks cannot lie on 2 nodes"), std::string::npos);
  EXPECT_FALSE(make_vm(*parse_vm_options(R"({"nodes":0})", "job.json"), 2, false));
}

TEST(Options, WrongWordsAreNamed) {
  auto kind = parse_vm_options(R"({"schedule":{"kind":"rnd"}})", "job.json");
  ASSERT_FALSE(kind);
  EXPECT_NE(kind.error().text().find("'rnd'"), std::string::npos);
  auto check = parse_vm_options(R"({"checks":["races"]})", "job.json");
  ASSERT_FALSE(check);
  EXPECT_NE(check.error().text().find("'races'"), std::string::npos);
  EXPECT_FALSE(parse_vm_options("[]", "job.json"));
  EXPECT_FALSE(parse_vm_options("{", "job.json"));
}

TEST(Options, SchedulesOfTheCommandLine) {
  EXPECT_EQ(schedule_text(*parse_schedule("random:7")), "random:7");
  EXPECT_EQ(schedule_text(*parse_schedule("priority:3")), "priority:3");
  EXPECT_EQ(schedule_text(*parse_schedule("delay_rank:1:7")), "delay_rank:1:7");
  EXPECT_FALSE(parse_schedule("random:x"));
  EXPECT_FALSE(parse_schedule("delay_rank:99"));
  EXPECT_FALSE(parse_schedule(""));
}

TEST(Report, NamesAreReadable) {
  EXPECT_EQ(readable("kernel _Z3addIfEvPT_iS0_, block 3"), "kernel add<float>, block 3");
  EXPECT_EQ(readable("_ZN38_GLOBAL__N__00a4c7ac_6_oob_cu_5464f41d15gemm_tile_storeEPKi: x\ny"),
            "gemm_tile_store: x y");
  EXPECT_EQ(readable("a_Zb and _Z"), "a_Zb and _Z");
}

}  // namespace
}  // namespace sculler::emu
