// What nobody should send: each is an error with a line, none takes memory or time out of
// proportion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data.h"
#include "emu/ptx/parser.h"

namespace sculler::emu::ptx {
namespace {

const std::string kHead = ".version 9.0\n.target sm_90a\n.address_size 64\n";

struct Case {
  std::string name, text, file, message;
};

class Hostile : public testing::TestWithParam<Case> {};

TEST_P(Hostile, IsRefusedWithItsLine) {
  const auto module = parse(kHead + GetParam().text);
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(module.error().file, GetParam().file);
  EXPECT_THAT(module.error().message, testing::HasSubstr(GetParam().message));
}

std::string repeat(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    Texts, Hostile,
    testing::Values(
        Case{"Registers", ".entry k()\n{ .reg .b32 %r<4000000000>; ret; }", "ptx:5",
             "register count"},
        Case{"ManyRegisters", ".entry k()\n{ .reg .b32 %a<1000000>, %b<1000000>; }", "ptx:5",
             "registers in a module"},
        Case{"Nesting", ".entry k()\n" + repeat("{", 1000), "ptx:5", "nested deeper"},
        Case{"OperandNesting", ".entry k() {\nfoo " + repeat("{", 1000), "ptx:5",
             "nested too deep"},
        Case{"Size", ".global .b8 x[1099511627776];", "ptx:4", "dimension"},
        Case{"SizeProduct", ".global .b8 x[1000000000][1000000000];", "ptx:4",
             "larger than 64 GiB"},
        Case{"TooManyValues", ".global .u32 x[2] = {1, 2,\n3};", "ptx:5", "more initial values"},
        Case{"InitialiserDepth", ".global .u32 x[2] = " + repeat("{", 500), "ptx:4", "too deep"},
        Case{"NarrowAddress", ".global .u32 x = y;", "ptx:4", "not 64 bits"},
        Case{"UnknownSymbol", ".global .u64 x = y;", "ptx:4", "unknown name `y`"},
        Case{"UnknownLabel", ".entry k() {\nbra NOWHERE;\n}", "ptx:5", "unknown name `NOWHERE`"},
        Case{"LabelOfAnotherScope", ".entry k() {\n{ A: ret; }\nbra A;\n}", "ptx:6",
             "unknown name `A`"},
        Case{"UnknownTarget", ".entry k() {\nT: .branchtargets A;\n}", "ptx:5",
             "unknown label `A`"},
        Case{"TwoLabels", ".entry k() {\nA: ret;\nA: ret;\n}", "ptx:6", "set twice"},
        Case{"UnknownPredicate", ".entry k() {\n@%p1 ret;\n}", "ptx:5", "unknown predicate"},
        Case{"Unclosed", ".entry k() {\nret;\n", "ptx:6", "not closed"},
        Case{"NoSemicolon", ".entry k() {\nret\nret;\n}", "ptx:5", "unknown"},
        Case{"Section", ".section .debug_str\n{ .b8 1,\n", "ptx:5", "not closed"},
        Case{"Twice", ".entry k() { ret; }\n.entry k() { ret; }", "ptx:5", "defined twice"},
        Case{"VariableTwice", ".global .u32 x;\n.global .u32 x;", "ptx:5", "defined twice"},
        Case{"Alignment", ".global .align 3 .u32 x;", "ptx:4", "power of two"},
        Case{"FileIndex", ".file 4000000000 \"x\"", "ptx:4", "file index"},
        Case{"String", ".file 1 \"x", "ptx:4", "malformed"},
        Case{"Number", ".global .u64 x = 99999999999999999999999;", "ptx:4", "malformed"},
        Case{"Float", ".global .f32 x = 0f3F8;", "ptx:4", "malformed"},
        Case{"Octet", "\x01", "ptx:4", "unexpected character `?`"},
        Case{"Directive", ".frobnicate 1;", "ptx:4", "unknown directive"},
        Case{"ThirtyTwoBits", ".address_size 32", "ptx:4", "64-bit"}),
    [](const auto& one) { return one.param.name; });

TEST(HostileInput, NotPtxAtAll) {
  EXPECT_FALSE(parse(""));
  EXPECT_FALSE(
      parse("\x7f"
            "ELF"));
  EXPECT_FALSE(parse("// only a comment"));
}

// Every prefix of a real file, and the file with single characters replaced, ends in a result, not
// in a crash.
TEST(HostileInput, DamagedRealFiles) {
  const std::string text = read_data("misc_lineinfo.ptx");
  ASSERT_GT(text.size(), 10000u);
  size_t refused = 0, tried = 0;
  for (size_t end = 0; end < text.size(); end += 331, ++tried)
    refused += parse(text.substr(0, end)) ? 0 : 1;
  EXPECT_GT(refused, tried / 2);
  const std::string noise = "{}[]();,.:\"%@!|-+0x_\n\xff/*";
  for (size_t at = 0; at < text.size(); at += 173) {
    std::string damaged = text;
    damaged[at] = noise[at % noise.size()];
    (void)parse(std::move(damaged));
  }
}

TEST(HostileInput, LargeFilesAreReadInLinearTime) {
  std::string text = kHead + ".entry k() {\n.reg .b32 %r<100>;\n";
  for (int i = 0; i < 100000; ++i)
    text += "$L" + std::to_string(i) + ": add.s32 %r1, %r2, 3;\nbra $L" + std::to_string(i) + ";\n";
  text += "}\n";
  // A quadratic reader would take hours and end by the runner's timeout.
  const auto module = parse(std::move(text));
  ASSERT_TRUE(module);
  EXPECT_EQ((*module)->functions[0].code.size(), 200000u);
}

}  // namespace
}  // namespace sculler::emu::ptx
