// Selection and memory of the beam, by numbers alone.
#include <gtest/gtest.h>

#include <map>

#include "search/beam/memory.h"
#include "search/beam/selection.h"
#include "search/beam/writer.h"

namespace sculler::search::beam {
namespace {

Sample sample(int64_t program, double speed, const std::string& hash = {}) {
  return {program, speed, hash.empty() ? std::to_string(program) : hash};
}

std::vector<int64_t> programs(const std::vector<Sample>& samples) {
  std::vector<int64_t> out;
  for (const auto& s : samples) out.push_back(s.program);
  return out;
}

using Ids = std::vector<int64_t>;

TEST(BeamSelection, TheBestOfEachGroupCompete) {
  BeamSettings settings;
  settings.width = 3;
  const std::vector<Sample> before = {sample(1, 1.0), sample(2, 0.9)};
  const std::vector<Group> groups = {{before[0], {sample(3, 1.1), sample(4, 1.5)}},
                                     {before[0], {sample(5, 1.4)}},
                                     {before[1], {}},
                                     {before[1], {sample(6, 0.5)}}};
  EXPECT_EQ(programs(next_beam(before, groups, settings)), (Ids{4, 5, 1}));
  settings.faithful = true;
  EXPECT_EQ(programs(next_beam(before, groups, settings)), (Ids{4, 5, 6}));
  settings.width = 6;  // what groups leave empty is filled with the candidates before
  EXPECT_EQ(programs(next_beam(before, groups, settings)), (Ids{4, 5, 6, 1, 2}));
}

TEST(BeamSelection, ATextGoesOnOnceAndANewcomerMustBeFaster) {
  BeamSettings settings;
  settings.width = 4;
  const std::vector<Sample> before = {sample(1, 1.0, "a")};
  const std::vector<Group> groups = {{before[0], {sample(2, 1.2, "b")}},
                                     {before[0], {sample(3, 1.2, "b")}},
                                     {before[0], {sample(4, 1.0, "c")}}};
  EXPECT_EQ(programs(next_beam(before, groups, settings)), (Ids{2, 1, 4}));
  EXPECT_TRUE(next_beam({}, {}, settings).empty());
}

TEST(BeamSelection, PairsAreFourSpeedupsAtMostAndThenSlowdowns) {
  BeamSettings settings;
  const Sample candidate = sample(1, 1.0);
  std::vector<Group> groups;
  for (int i = 0; i < 6; ++i) groups.push_back({candidate, {sample(10 + i, 1.1 + 0.1 * i)}});
  for (int i = 0; i < 6; ++i)
    groups.push_back({candidate, {sample(20 + i, 0.8 - 0.1 * i), sample(30 + i, 0.2)}});
  groups.push_back({candidate, {sample(40, 1.03)}});  // neither
  groups.push_back({candidate, {}});
  auto found = pairs(groups, settings);
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(found[0], (Pair{5, true, 1, 15, 1.6}));
  EXPECT_TRUE(found[3].positive);
  EXPECT_FALSE(found[4].positive);
  // Mended, the best of the group stands for the plan; 25 has 0.3, which 35 with 0.2 does not hide.
  EXPECT_EQ(found[4].slow, 25);
  EXPECT_EQ(found[4].fast, 1);
  settings.faithful = true;
  found = pairs(groups, settings);
  EXPECT_EQ(found[4].slow, 30);  // all slowest are equal: the first group
  settings.topk = 3;
  EXPECT_EQ(pairs(groups, settings).size(), 3u);
  settings.topk = 0;
  EXPECT_TRUE(pairs(groups, settings).empty());
}

MemoryItem item(const std::string& title) {
  MemoryItem out;
  out.title = title;
  out.description = "d";
  out.task = "silu";
  out.target = "cpu";
  out.speedup = 1.5;
  return out;
}

std::string titles(const Memory& memory) {
  std::string out;
  for (const auto& i : memory.items()) out += i.title;
  return out;
}

TEST(BeamMemory, TheLeastUsefulIsDroppedOrByThePaperTheOldest) {
  for (const bool faithful : {false, true}) {
    Memory memory(3, faithful);
    for (const char* title : {"a", "b", "c"}) EXPECT_FALSE(memory.add(item(title)));
    EXPECT_FALSE(memory.add(item("b")));  // known
    EXPECT_EQ(titles(memory), "abc");
    memory.used(item("a").key(), "bmm", 1.2, true);
    memory.used(item("a").key(), "bmm", 1.1, true);
    memory.used(item("b").key(), "bmm", 0.9, false);
    EXPECT_EQ(memory.items()[0].helped.at("bmm"), 1.2);
    const auto dropped = memory.add(item("d"));
    ASSERT_TRUE(dropped);
    EXPECT_EQ(dropped->title, faithful ? "a" : "b");
    EXPECT_EQ(titles(memory), faithful ? "bcd" : "acd");
    ASSERT_TRUE(memory.add(item("e")));
    EXPECT_EQ(titles(memory), faithful ? "cde" : "ade");
  }
  Memory none(0, false);
  EXPECT_TRUE(none.add(item("a")));
  EXPECT_TRUE(none.items().empty());
}

TEST(BeamMemory, ItemsAreReadAsTheyWereWrittenAndOthersWithinBounds) {
  MemoryItem a = item("a\tb");
  a.plan = 7;
  a.slow = 3;
  a.fast = 4;
  a.original = "x = 1;\ny = 2;";
  a.helped["bmm"] = 1.25;
  const auto read = parse_item(print(a));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->plan, 7);
  EXPECT_EQ(read->original, a.original);
  EXPECT_EQ(read->helped, a.helped);
  EXPECT_FALSE(parse_item("{}"));
  EXPECT_FALSE(parse_item("{\"version\":1}"));
  const auto big =
      parse_item("{\"version\":1,\"title\":\"" + std::string(900, 't') +
                 "\",\"description\":\"d\",\"uses\":-4,\"wins\":99,\"speedup\":1e300}");
  ASSERT_TRUE(big);
  EXPECT_LE(big->title.size(), 210u);
  EXPECT_EQ(big->wins, 0);
  EXPECT_LE(big->speedup, 1e9);
  const auto list = shown({*read}, 20);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_NE(list[0].title.find("helped bmm by 1.25"), std::string::npos);
  EXPECT_NE(list[0].body.text.find("--- slower\nx = 1;"), std::string::npos);
}

TEST(BeamProfile, LinesAreShuffledAndKeepTheirParts) {
  const std::string evidence =
      "status: PASSED\ntimeline:\n  0 to 1\n  1 to 2\ntime: 3 us\nnote: n\n";
  std::map<std::string, int> seen;
  for (int64_t i = 0; i < 40; ++i) {
    const auto text = shuffled_profile(evidence, 1, i);
    EXPECT_EQ(text, shuffled_profile(evidence, 1, i));
    EXPECT_EQ(text.size(), evidence.size());
    EXPECT_NE(text.find("timeline:\n  0 to 1\n  1 to 2\n"), std::string::npos);
    ++seen[text];
  }
  EXPECT_GT(seen.size(), 10u);
  EXPECT_EQ(shuffled_profile("", 1, 1), "");
}

}  // namespace
}  // namespace sculler::search::beam
