#include "source/blocks.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace sculler::source {
namespace {

const std::string kText =
    "head\n// EVOLVE-BLOCK-START tile loop\na\nb\n// EVOLVE-BLOCK-END\nmid\n  // "
    "EVOLVE-BLOCK-START\n// EVOLVE-BLOCK-END\ntail";

std::string error_of(std::string_view text) {
  auto found = need_blocks(text, "c.cu");
  return found ? "no error" : found.error().text();
}

TEST(Blocks, FindsInnerTexts) {
  auto found = find_blocks(kText, "c.cu");
  ASSERT_TRUE(found);
  ASSERT_EQ(found->blocks.size(), 2u);
  EXPECT_EQ(kText.substr(found->blocks[0].begin, found->blocks[0].end - found->blocks[0].begin),
            "a\nb\n");
  EXPECT_EQ(found->blocks[1].begin, found->blocks[1].end);
  EXPECT_EQ(found->blocks[0].first_line, 2);
  EXPECT_EQ(found->blocks[0].last_line, 5);
}

TEST(Blocks, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("int x;\n"),
            "c.cu: has no evolve blocks, so nothing in it may change (mark what may change with // "
            "EVOLVE-BLOCK-START and // EVOLVE-BLOCK-END)");
  EXPECT_EQ(error_of("\n// EVOLVE-BLOCK-START\n"),
            "c.cu:2: EVOLVE-BLOCK-START without an end (end it with // EVOLVE-BLOCK-END)");
  EXPECT_EQ(error_of("// EVOLVE-BLOCK-END\n"),
            "c.cu:1: EVOLVE-BLOCK-END without a start (begin it with // EVOLVE-BLOCK-START)");
  EXPECT_EQ(error_of("// EVOLVE-BLOCK-START\n// EVOLVE-BLOCK-START\n"),
            "c.cu:2: EVOLVE-BLOCK-START inside the block that began at line 1 (end it with // "
            "EVOLVE-BLOCK-END first)");
  EXPECT_EQ(find_blocks(std::string(2 << 20, 'x'), "c.cu").error().code, ErrorCode::kBadSource);
}

TEST(Blocks, MarkersInStringsAndAfterCodeAreText) {
  EXPECT_TRUE(find_blocks("const char* s = \"// EVOLVE-BLOCK-START\";\nint x; // "
                          "EVOLVE-BLOCK-START\n// EVOLVE-BLOCK-STARTED\n",
                          "c")
                  ->blocks.empty());
}

TEST(Blocks, ReplaceKeepsFrozenText) {
  auto changed = replace_blocks(kText, {"new", "x\n"}, "c.cu");
  ASSERT_TRUE(changed);
  EXPECT_EQ(first_frozen_difference(*changed, kText), 0);
  EXPECT_NE(changed->find("tile loop\nnew\n// EVOLVE-BLOCK-END"), std::string::npos);
  EXPECT_FALSE(replace_blocks(kText, {"new"}, "c.cu"));
  EXPECT_FALSE(replace_blocks(kText, {"/* swallows", ""}, "c.cu"));
  EXPECT_FALSE(replace_blocks(kText, {"// EVOLVE-BLOCK-END\n// EVOLVE-BLOCK-START\n", ""}, "c.cu"));
}

TEST(Blocks, FirstDifferenceNamesTheLine) {
  std::string other = kText;
  other.replace(other.find("mid"), 3, "MID");
  EXPECT_EQ(first_frozen_difference(other, kText), 6);
  EXPECT_EQ(first_frozen_difference(kText + "\nmore", kText), 9);
  std::string inner = kText;
  inner.replace(inner.find("a\nb"), 3, "completely\ndifferent");
  EXPECT_EQ(first_frozen_difference(inner, kText), 0);
}

RC_GTEST_PROP(Blocks, WhatIsReplacedComesBack, ()) {
  const auto line = rc::gen::container<std::string>(rc::gen::inRange('a', 'z'));
  const auto first = *line, second = *line;
  auto changed = replace_blocks(kText, {first, second}, "c");
  RC_ASSERT(changed.has_value());
  auto back = replace_blocks(*changed, {"a\nb\n", ""}, "c");
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == kText);
}

RC_GTEST_PROP(Blocks, AnyTextIsHandled, (const std::string& a, const std::string& b)) {
  const std::string text = a + "\n// EVOLVE-BLOCK-START\n" + b + "\n// EVOLVE-BLOCK-END\n" + a;
  auto found = find_blocks(text, "c");
  if (!found) return;
  for (const auto& block : found->blocks)
    RC_ASSERT(block.begin <= block.end && block.end <= text.size());
  auto same = first_frozen_difference(text, text);
  RC_ASSERT(same == 0);
}

}  // namespace
}  // namespace sculler::source
