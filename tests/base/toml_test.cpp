#include "base/toml.h"

#include <gtest/gtest.h>

namespace sculler {
namespace {

constexpr const char* kText = R"(name = "x"
[sizes.emu]
S = "256 * R"
K = 256
[[buffer]]
role = "input"
[[buffer]]
role = 3
)";

TEST(Toml, SyntaxErrorNamesFileLineAndKey) {
  auto parsed = parse_toml("[search]\nseed = 1\npatience = = 3\n", "run.toml");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kBadInput);
  EXPECT_TRUE(parsed.error().file.starts_with("run.toml:3:")) << parsed.error().file;
  EXPECT_EQ(parsed.error().key, "search.patience");
}

TEST(Toml, ReaderNamesLineAndDottedKey) {
  auto parsed = parse_toml(kText, "task.toml");
  ASSERT_TRUE(parsed);
  const TomlReader root(*parsed, "task.toml");
  auto sizes = root.table("sizes");
  ASSERT_TRUE(sizes);
  auto emu = sizes->table("emu");
  ASSERT_TRUE(emu);
  EXPECT_EQ(emu->integer("K"), 256);
  EXPECT_EQ(emu->integer("S").error().text(),
            "task.toml:3: sizes.emu.S: an integer expected, a string found");
  EXPECT_EQ(emu->integer("N").error().text(),
            "task.toml:2: sizes.emu.N: is missing (add N with an integer)");
  EXPECT_EQ(emu->integer("K", 300).error().text(), "task.toml:4: sizes.emu.K: 256 is below 300");
  auto buffers = root.tables("buffer");
  ASSERT_TRUE(buffers);
  ASSERT_EQ(buffers->size(), 2u);
  EXPECT_EQ((*buffers)[1].string("role").error().key, "buffer[1].role");
  EXPECT_EQ(emu->only({"S", "KK"}).error().text(),
            "task.toml:4: sizes.emu.K: is not a known key (did you mean KK?)");
}

TEST(Toml, NonAsciiBelongsInQuotesAndComments) {
  EXPECT_TRUE(
      parse_toml("# µ\na = \"µ\" # µ\nb = 'µ'\nc = \"\"\"\nµ\\\"\n\"\"\"\n\"µ\" = 1\n", "t"));
  EXPECT_EQ(parse_toml("a = 1\nb = µ\n", "t").error().file, "t:2");
  EXPECT_FALSE(parse_toml("# order o\nx_\xD0\x8C = 0\n", "t"));
}

TEST(Toml, EscapesAreNumbers) {
  EXPECT_EQ(parse_toml("a = 1\nb = \"\\u\xCD\x9F\"\n", "t").error().file, "t:2");
  EXPECT_FALSE(parse_toml("b = \"\"\"\n\\U0001\xCD\x9F\"\"\"\n", "t"));
  EXPECT_FALSE(parse_toml("b = \"\\u12\"\n", "t"));
  auto good = parse_toml("b = \"\\u00b5 \\\\u\xCD\x9F\"\n", "t");
  ASSERT_TRUE(good) << good.error().text();
}

TEST(Toml, QuotesBeginNoWordInTheMiddle) {
  EXPECT_EQ(parse_toml("a = 1\nb = 2\"g\xEF\xBF\xBF\"\n", "t").error().file, "t:2");
  EXPECT_TRUE(parse_toml("a.\"b\".c = 1\nd = [\"e\",'f']\n\"g-\" = 'h'\n", "t"));
}

TEST(Toml, BracketsMatch) {
  for (const char* text : {"a = 1\nb = [}\n", "a = 1\nb = }", "a = 1\nb = [{]}\n"})
    EXPECT_EQ(parse_toml(text, "t").error().file, "t:2") << text;
  EXPECT_TRUE(parse_toml("a = [[{ b = ['}'] }], # ]\n]\n", "t"));
}

TEST(Toml, ATableNeedsAName) {
  for (const char* text : {"a = 1\n[+b]\n", "a = 1\n [[ =b]]\n", "a = [1]\n[#\n", "a = 1\n[\n]"}) {
    const auto parsed = parse_toml(text, "t");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().file, "t:2") << text;
  }
  // Brackets that begin a line inside of an array are no headers.
  EXPECT_TRUE(parse_toml("a = [\n[+1, 2],\n[ # c\n+3],\n]\n[b.c]\n[[ 'd' ]]\nx = \"[\"\n", "t"));
}

// Found by fuzzing: the parser promised the compiler that this cannot come.
TEST(Toml, ASignThatNeverEndsIsAnError) {
  for (const char* text : {"a =0--------- 5\n[b]\n", "a = -,\n", "a = +\n", "a = [0-]\n"})
    EXPECT_FALSE(parse_toml(text, "t")) << text;
}

TEST(Toml, QuoteRoundTrips) {
  const std::string nasty = "a\"b\\c\n\t\x01µ";
  auto parsed = parse_toml("x = " + toml_quote(nasty), "t");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(TomlReader(*parsed, "t").string("x"), nasty);
}

}  // namespace
}  // namespace sculler
