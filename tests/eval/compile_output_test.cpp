#include <gtest/gtest.h>

#include "eval/compile.h"

namespace sculler::eval {
namespace {

TEST(FirstError, OfEachTool) {
  auto e = first_error(
      "candidate.cu(12): warning: unused\ncandidate.cu(31): error: identifier \"foo\" is "
      "undefined\n");
  EXPECT_EQ(e.where, "candidate.cu:31");
  EXPECT_EQ(e.message, "identifier \"foo\" is undefined");
  e = first_error(
      "In file included from x\n/sculler/work/candidate.cpp:3:10: fatal error: nope.h: No such "
      "file\n");
  EXPECT_EQ(e.where, "candidate.cpp:3");
  EXPECT_EQ(e.message, "nope.h: No such file");
  e = first_error(
      "/usr/bin/ld: /tmp/x.o: in function `f':\ncandidate.cu:(.text+0x5): undefined reference to "
      "`g'\n");
  EXPECT_NE(e.message.find("undefined reference to `g'"), std::string::npos);
  e = first_error("ptxas fatal   : Unresolved extern function 'h'\n");
  EXPECT_EQ(e.message, "ptxas fatal   : Unresolved extern function 'h'");
  EXPECT_EQ(first_error("").message, "");
}

TEST(FirstError, IsBoundedAndPrintable) {
  const auto e = first_error("a.cu(1): error: \x1b[31m" + std::string(10000, 'x'));
  EXPECT_LE(e.message.size(), 420U);
  EXPECT_EQ(e.message.find('\x1b'), std::string::npos);
}

TEST(PtxasFacts, AreTheLargestOfAllKernels) {
  const auto facts = ptxas_facts(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "    0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem\n"
      "ptxas info    : Used 128 registers, used 0 barriers\n");
  EXPECT_EQ(facts.at("registers"), 128);
  EXPECT_EQ(facts.at("spills"), 8);
  EXPECT_EQ(facts.at("shared"), 1024);
}

TEST(Depfile, ReadsContinuationsAndEscapes) {
  const auto paths = parse_depfile(
      "artifact.so : candidate.cu \\\n    /usr/include/a.h \\\n /x/with\\ "
      "space.h\n\n/usr/include/a.h:\n");
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(paths[0], "candidate.cu");
  EXPECT_EQ(paths[2], "/x/with space.h");
  EXPECT_TRUE(parse_depfile("").empty());
}

TEST(Requires, OnlyInLineComments) {
  EXPECT_TRUE(source_requires("int a;\n  // sculler:requires cutlass\n", "cutlass"));
  EXPECT_FALSE(source_requires("const char* s = \"sculler:requires cutlass\";", "cutlass"));
  EXPECT_FALSE(source_requires("// sculler:requires nvshmem", "cutlass"));
}

}  // namespace
}  // namespace sculler::eval
