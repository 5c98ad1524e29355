#include "source/marks.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "source/blocks.h"

namespace sculler::source {
namespace {

TEST(Marks, StandAroundLinesAndVanish) {
  const std::string text = "a\nb\nc\nd\n";
  auto marked = mark_blocks(text, {{2, 2}, {4, 4}}, "x.cu");
  ASSERT_TRUE(marked) << marked.error().text();
  EXPECT_EQ(*marked,
            "a\n// EVOLVE-BLOCK-START\nb\n// EVOLVE-BLOCK-END\nc\n// EVOLVE-BLOCK-START\nd\n"
            "// EVOLVE-BLOCK-END\n");
  EXPECT_EQ(without_marks(*marked), text);
  EXPECT_TRUE(check_marks(text, *marked, "x.cu"));
}

TEST(Marks, ATextWithoutALastNewlineStaysOne) {
  auto marked = mark_blocks("a\nb", {{1, 2}}, "x.cu");
  ASSERT_TRUE(marked);
  EXPECT_EQ(*marked, "// EVOLVE-BLOCK-START\na\nb\n// EVOLVE-BLOCK-END");
  EXPECT_EQ(without_marks(*marked), "a\nb");
}

TEST(Marks, WhatIsNoCodeIsRefused) {
  EXPECT_FALSE(mark_blocks("/* a\nb\nc */\n", {{2, 2}}, "x.cu"));
  EXPECT_FALSE(mark_blocks("auto s = R\"(a\nb\nc)\";\n", {{2, 2}}, "x.cu"));
  EXPECT_FALSE(mark_blocks("#define A \\\n  1 \\\n  + 2\nint x;\n", {{2, 3}}, "x.cu"));
  EXPECT_FALSE(mark_blocks("// goes on \\\nb\nc\n", {{2, 2}}, "x.cu"));
  EXPECT_FALSE(mark_blocks("a\nb\n", {{2, 3}}, "x.cu"));
  EXPECT_FALSE(mark_blocks("a\nb\nc\n", {{1, 2}, {2, 3}}, "x.cu"));
}

TEST(Marks, AnAnnotatorThatChangesMoreIsRefusedAtTheLine) {
  const std::string text = "int a;\nint b;\nint c;\n";
  const auto at = [&](const std::string& marked) {
    const auto ok = check_marks(text, marked, "x.cu");
    return ok ? std::string("accepted") : ok.error().file;
  };
  const std::string s = "// EVOLVE-BLOCK-START\n", e = "// EVOLVE-BLOCK-END\n";
  EXPECT_EQ(at("int a;\n" + s + "int b;\n" + e + "int c;\n"), "accepted");
  EXPECT_EQ(at("int a;\n  " + s + "int b;\n\t" + e + "int c;\n"), "accepted");
  EXPECT_EQ(at("int a;\n" + s + "int b; \n" + e + "int c;\n"), "x.cu:3");  // a blank more
  EXPECT_EQ(at("int a;\n" + s + "int b;\n" + e), "x.cu:5");                // cut off
  EXPECT_EQ(at("int a;\n" + s + "int b;\n" + e + "int C;\n"), "x.cu:5");
  EXPECT_EQ(at(s + "int a;\n" + s + "int b;\n" + e + "int c;\n"), "x.cu:3");  // nested
  EXPECT_EQ(at("int a; " + s + "int b;\n" + e + "int c;\n"), "x.cu:3");       // no start
  EXPECT_EQ(at(text), "x.cu");                                                // no marks
  EXPECT_EQ(at("int a;\n/* EVOLVE-BLOCK-START */\nint b;\n" + e + "int c;\n").substr(0, 4), "x.cu");
  EXPECT_EQ(at("int a;\n// EVOLVE-BLOCK-START: x\nint b;\n" + e + "int c;\n").substr(0, 4), "x.cu");
}

std::string random_text() {
  const auto line = rc::gen::elementOf(std::vector<std::string>{
      "int a;", "", "  f(x);  ", "\t// a comment", "/* open", "close */", "#define A \\", "#if B",
      "#endif", "auto s = \"x\";", "R\"(raw", ")\";", "// tail \\", "}\r",
      "// EVOLVE-BLOCK-STARTED", "  // EVOLVE-BLOCK-END", "'", "\\"});
  const int n = *rc::gen::inRange(0, 12);
  std::string text;
  for (int i = 0; i < n; ++i)
    text += *line + (i + 1 < n || *rc::gen::arbitrary<bool>() ? "\n" : "");
  return text;
}

TEST(MarksProperty, MarkingThenTakingOutRestoresEveryByte) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = random_text();
    std::vector<Lines> ranges;
    int at = 1;
    for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
      const int first = at + *rc::gen::inRange(0, 4);
      const int last = first + *rc::gen::inRange(0, 4);
      ranges.push_back({first, last});
      at = last + 1;
    }
    const auto marked = mark_blocks(text, ranges, "x.cu");
    RC_TAG(marked ? "marked" : "refused");
    if (!marked) return;
    RC_ASSERT(without_marks(*marked) == text);
    RC_ASSERT(find_blocks(*marked, "x.cu")->blocks.size() == ranges.size());
    RC_ASSERT(check_marks(text, *marked, "x.cu").has_value());
  }));
}

TEST(MarksProperty, WhateverElseChangesIsRefused) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = random_text() + "int last;\n";
    const auto marked = mark_blocks(text, {{1, 1}}, "x.cu");
    if (!marked) return;
    std::string other = *marked;
    const auto place = *rc::gen::inRange<std::size_t>(0, other.size());
    if (*rc::gen::arbitrary<bool>()) other.insert(place, 1, 'x');
    else other.erase(place, 1);
    // Blanks beside a marker are the marker line's own.
    if (without_marks(other) == text) return;
    RC_ASSERT(!check_marks(text, other, "x.cu").has_value());
  }));
}

}  // namespace
}  // namespace sculler::source
