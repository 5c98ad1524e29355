#include "source/token.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace sculler::source {
namespace {

std::string words(std::string_view text, bool comments = false) {
  std::string out;
  for (const auto& token : tokenize(text, comments)) {
    out += "in\"'pC?"[static_cast<int>(token.kind)];
    out += '(' + token.text + ')';
  }
  return out;
}

TEST(Token, Kinds) {
  EXPECT_EQ(words("int a1 = 0x1F'00u;"), "i(int)i(a1)p(=)n(0x1F00u)p(;)");
  EXPECT_EQ(words("1.5e-3f 0xe+1"), "n(1.5e-3f)n(0xe)p(+)n(1)");
  EXPECT_EQ(words("\"a\\\"b\" 'c' L\"w\""), "\"(a\\\"b)'(c)\"(w)");
  EXPECT_EQ(words("k<<<1,2>>>(x)->y::z"),
            "i(k)p(<<<)n(1)p(,)n(2)p(>>>)p(()i(x)p())p(->)i(y)p(::)i(z)");
}

TEST(Token, CommentsHideCodeAndStringsHideComments) {
  EXPECT_EQ(words("a // b \"c\nd"), "i(a)i(d)");
  EXPECT_EQ(words("a /* b // \n */ c"), "i(a)i(c)");
  EXPECT_EQ(words("\"// no comment\" x"), "\"(// no comment)i(x)");
  EXPECT_EQ(words("// x", true), "C( x)");
}

TEST(Token, RawStringsKeepEverything) {
  EXPECT_EQ(words("R\"(a\\\n\"b)\" x"), "\"(a\\\n\"b)i(x)");
  EXPECT_EQ(words("R\"xy()\" )xy\"z"), "\"()\" )i(z)");
  EXPECT_EQ(words("R\"(never closed"), "?(never closed)");
}

TEST(Token, ContinuationsAreSpliced) {
  EXPECT_EQ(words("dlo\\\npen(x)"), "i(dlopen)p(()i(x)p())");
  EXPECT_EQ(words("dlo\\  \r\npen"), "i(dlopen)");
  EXPECT_EQ(words("/\\\n/ comment \\\n still\ncode"), "i(code)");
}

TEST(Token, LinesAndDirectives) {
  const auto tokens = tokenize("a\n#define X \\\n 3\nb");
  ASSERT_EQ(tokens.size(), 6u);
  EXPECT_EQ(tokens[0].line, 1);
  EXPECT_TRUE(tokens[1].in_directive);
  EXPECT_EQ(tokens[4].line, 3);
  EXPECT_TRUE(tokens[4].in_directive);
  EXPECT_EQ(tokens[5].line, 4);
  EXPECT_FALSE(tokens[5].in_directive);
  EXPECT_TRUE(tokens[5].line_start);
}

RC_GTEST_PROP(Token, OffsetsAreOrderedAndWithinTheText, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::oneOf(
      rc::gen::elementOf(std::string("\\\n\"'/*()R#<>.xe0 ")), rc::gen::arbitrary<char>()));
  std::size_t last = 0;
  int line = 1;
  for (const auto& token : tokenize(text, true)) {
    RC_ASSERT(token.begin >= last);
    RC_ASSERT(token.end > token.begin);
    RC_ASSERT(token.end <= text.size());
    RC_ASSERT(token.line >= line);
    last = token.end;
    line = token.line;
  }
}

TEST(Token, LongTextIsLinear) {
  // A megabyte of the worst kinds: this test would not end in time if it were quadratic.
  EXPECT_FALSE(tokenize(std::string(kMaxSourceBytes, '\\')).empty());
  std::string continued;
  while (continued.size() < kMaxSourceBytes) continued += "\\\n";
  EXPECT_TRUE(tokenize(continued).empty());
  EXPECT_FALSE(tokenize(std::string(kMaxSourceBytes, '"')).empty());
  EXPECT_FALSE(tokenize(std::string(kMaxSourceBytes, '<')).empty());
}

}  // namespace
}  // namespace sculler::source
