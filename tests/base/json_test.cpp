#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sculler {
namespace {

TEST(Json, ErrorNamesOriginAndLine) {
  auto parsed = parse_json("{\n \"a\": 1,\n oops}", "job.json");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(parsed.error().file, "job.json:3");
}

TEST(Json, BoundsDepthAndSize) {
  EXPECT_FALSE(parse_json(std::string(100'000, '['), "x"));
  EXPECT_FALSE(parse_json(std::string(100, ' ') + "1", "x", 50));
  EXPECT_TRUE(parse_json("\"[[[[[[[[[[\\\"[[[\"", "x", 100, 3));  // brackets in strings do not nest
}

TEST(Json, GettersNameTheKey) {
  auto parsed =
      parse_json(R"({"n":3,"s":"x","big":18446744073709551615,"f":1.5,"o":{},"z":null})", "x");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(get_int(*parsed, "n", "x"), 3);
  EXPECT_EQ(get_string(*parsed, "s", "x"), "x");
  EXPECT_EQ(get_string(*parsed, "n", "x").error().text(), "x: n: a string expected, number found");
  EXPECT_EQ(get_int(*parsed, "missing", "x").error().text(),
            "x: missing: is missing (an integer expected)");
  EXPECT_FALSE(get_int(*parsed, "big", "x"));
  EXPECT_FALSE(get_int(*parsed, "f", "x"));
  EXPECT_EQ(get_int(*parsed, "n", "x", 5, 9).error().text(), "x: n: 3 is outside 5..9");
  EXPECT_TRUE(get_object(*parsed, "o", "x"));
  EXPECT_FALSE(get_array(*parsed, "o", "x"));
  EXPECT_EQ(find_member(*parsed, "z"), nullptr);
  EXPECT_EQ(number_or(*parsed, "f", 0), 1.5);
  EXPECT_EQ(string_or(*parsed, "n", "fallback"), "fallback");
}

TEST(Json, ListsGiveWhatFits) {
  const auto parsed = parse_json(R"({"l":["a",1,null,"b",2,2.5],"n":3})", "x");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(strings_of(*parsed, "l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(ints_of(*parsed, "l"), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(strings_of(*parsed, "n").empty());
  EXPECT_TRUE(ints_of(*parsed, "missing").empty());
}

TEST(Json, DumpNeverThrows) { EXPECT_EQ(dump_json(nlohmann::json("a\xff")), "\"a\xEF\xBF\xBD\""); }

}  // namespace
}  // namespace sculler
