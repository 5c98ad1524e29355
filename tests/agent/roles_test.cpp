// What planner and summarizer say, read: nothing is believed that the profile or the programs do
// not hold.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "agent/lesson.h"
#include "agent/plan.h"
#include "base/json.h"

namespace sculler::agent {
namespace {

constexpr const char* kProfile =
    "status: PASSED at stage bench\ntime: 840 us\ncompiler: spills 3\n";

nlohmann::json plan_json() {
  return {{"bottleneck", "stores"},
          {"evidence", {"compiler: spills 3", "time:  840\n us", "it spills 4"}},
          {"plan", "Keep the four sums in registers."},
          {"uses", {2, 1, 2, 9}}};
}

TEST(Plan, IsTiedToTheProfileAndToItemsThatAreThere) {
  const auto plan = parse_plan(dump_json(plan_json()), kProfile, 3);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(plan->evidence, (std::vector<std::string>{"compiler: spills 3", "time: 840 us"}));
  EXPECT_EQ(plan->uses, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(plan->cut, 2);
  EXPECT_EQ(print(*plan),
            "bottleneck: stores\nmeasured: compiler: spills 3\nmeasured: time: 840 us\n"
            "Keep the four sums in registers.\n");
}

TEST(Plan, OthersAreRefusedWithTheReason) {
  const auto refused = [](nlohmann::json json) {
    const auto plan = parse_plan(dump_json(json), kProfile, 3);
    return plan ? std::string("taken") : plan.error().text();
  };
  auto json = plan_json();
  json["evidence"] = {"time: 1 us"};
  EXPECT_NE(refused(json).find("it quotes nothing of the profile"), std::string::npos);
  for (const char* quote : {"s", "840 us", "mpiler: spills 3", "status: PASSED at st"}) {
    json["evidence"] = {quote};
    EXPECT_NE(refused(json).find("it quotes nothing of the profile"), std::string::npos) << quote;
  }
  json = plan_json();
  json["plan"] = " \n ";
  EXPECT_NE(refused(json).find("it holds no step"), std::string::npos);
  json = plan_json();
  json.erase("uses");
  EXPECT_NE(refused(json).find("uses"), std::string::npos);
  json = plan_json();
  json["plan"] = {"one", "two"};
  EXPECT_NE(refused(json), "taken");
  json = plan_json();
  json["more"] = 1;
  EXPECT_NE(refused(json), "taken");
  json = plan_json();
  json["plan"] = std::string(7000, 'x');
  EXPECT_NE(refused(json), "taken");
  EXPECT_FALSE(parse_plan("Use more threads.", kProfile, 3));
}

constexpr const char* kSlow = "for (i = 0; i < n; ++i)\n  y[i] = f(x[i]);\n";
constexpr const char* kFast = "for (i = 0; i < n; i += 8)\n  store(y + i, f8(load(x + i)));\n";

TEST(Lesson, HoldsSegmentsOfItsPrograms) {
  nlohmann::json json{{"title", "Eight\nat once `now`"},
                      {"description", "Where f is the same for all elements."},
                      {"original", "y[i] = f(x[i]);"},
                      {"optimized", "store(y + i,   f8(load(x + i)));"}};
  auto lesson = parse_lesson(dump_json(json), kSlow, kFast);
  ASSERT_TRUE(lesson) << lesson.error().text();
  EXPECT_EQ(lesson->title.find('\n'), std::string::npos);
  EXPECT_EQ(lesson->title.find('`'), std::string::npos);
  EXPECT_EQ(lesson->original, "y[i] = f(x[i]);");
  EXPECT_EQ(lesson->optimised, "store(y + i,   f8(load(x + i)));");
  EXPECT_EQ(lesson->cut, 0);
  // One that is made up is taken out; where both are, the item is of no use.
  json["original"] = "y[i] = g(x[i]);";
  lesson = parse_lesson(dump_json(json), kSlow, kFast);
  ASSERT_TRUE(lesson);
  EXPECT_EQ(lesson->original, "");
  EXPECT_EQ(lesson->cut, 1);
  json["optimized"] = "y[i] = f(x[i]);";  // of the other program
  lesson = parse_lesson(dump_json(json), kSlow, kFast);
  ASSERT_FALSE(lesson);
  EXPECT_NE(lesson.error().text().find("do not stand in the programs"), std::string::npos);
  json["optimized"] = 3;
  EXPECT_FALSE(parse_lesson(dump_json(json), kSlow, kFast));
  EXPECT_FALSE(parse_lesson("[]", kSlow, kFast));
}

}  // namespace
}  // namespace sculler::agent
