#include "eval/stress_ptx.h"

#include <gtest/gtest.h>

#include "eval/compile.h"

namespace sculler::eval {
namespace {

int count(std::string_view text, std::string_view part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

constexpr const char* kModule = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .func foo();
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.visible .entry k(.param .u64 p)
{
	.reg .pred 	%p<2>;
	.loc 1 3 5
	ld.param.u64 	%rd1, [p];
	bar.sync 	0; // bar.sync in a comment: bar.sync 1;
	@%p1 membar.sys;
$L__BB0_1:
	ld.acquire.sys.global.u32 	%r1, [%rd1];
	// begin inline asm
	{ .reg .pred q; W: mbarrier.try_wait.parity.shared::cta.b64 q, [%r2], %r3; @q bra D; bra W; D: }
	// end inline asm
	ld.global.v2.u32 {%r4, %r5}, [%rd1];
	st.global.u32 [%rd1], %r1;
	call.uni (retval0), foo, (param0);
	red.release.gpu.global.add.u32 [%rd1], 1;
	ret;
}
.visible .global .align 4 .u32 sculler_stress_ns;
)";

TEST(StressPtx, SleepsStandBeforeEverySynchronisationPoint) {
  const auto out = stress_ptx(kModule);
  EXPECT_EQ(out.points, 5);
  EXPECT_EQ(count(out.text, "nanosleep.u32"), 5);
  // The variable is known before it is read, and once only.
  EXPECT_EQ(count(out.text, ".u32 sculler_stress_ns;"), 1);
  EXPECT_LT(out.text.find(".u32 sculler_stress_ns;"), out.text.find(".entry"));
  // Labels keep their places: the sleep is inside of the polling loops.
  EXPECT_LT(out.text.find("$L__BB0_1:"), out.text.find("ld.acquire"));
  EXPECT_NE(out.text.find("bar.sync in a comment: bar.sync 1;"), std::string::npos);
  const auto wait = out.text.find("W: {");
  EXPECT_NE(wait, std::string::npos);
  EXPECT_LT(wait, out.text.find("mbarrier.try_wait"));
  // Nothing but sleeps and the variable's place changed.
  EXPECT_EQ(count(out.text, "ld.global.v2.u32 {%r4, %r5}"), 1);
}

TEST(StressPtx, WithoutTheVariableOrWithoutPointsNothingChanges) {
  const std::string plain = ".version 9.0\n.address_size 64\n.entry k() { bar.sync 0; ret; }\n";
  EXPECT_EQ(stress_ptx(plain).text, plain);
  const std::string idle =
      ".version 9.0\n.address_size 64\n.global .u32 sculler_stress_ns;\n.entry k() { ret; }\n";
  EXPECT_EQ(stress_ptx(idle).points, 0);
  EXPECT_EQ(stress_ptx(idle).text, idle);
}

TEST(StressPtx, BrokenTextEnds) {
  for (const char* text : {"", "{", "}", "\"", "/*", "// x", "@", ".global .u32 sculler_stress_ns",
                           ".address_size 64\n.global .u32 sculler_stress_ns;\n.entry k { bar.sync",
                           ".address_size 64\n.global .u32 sculler_stress_ns;\n{{{\"{ atom."}) {
    EXPECT_LE(stress_ptx(text).points, 1) << text;
  }
}

TEST(StressPtx, TheSourceKeepsItsLinesAndItsSetup) {
  const auto text = stressed_source("int x;\n");
  EXPECT_LT(text.find("#line 1\nint x;"), text.find("#undef sculler_setup"));
  EXPECT_NE(text.find("sculler_setup_of_candidate(rank, problem, pool, state)"), std::string::npos);
}

TEST(StressPtx, TheDryRunIsCutBeforeTheAssembler) {
  const auto script = split_dryrun(
      "#$ _SPACE_= \n#$ CICC_PATH=/cuda/nvvm/bin\n#$ INCLUDES=\"-I/a\"  \n#$ rm ./x\n"
      "#$ gcc -D__A__=1 -E c.cu\n#$ -- Filter Dependencies -- > d\n"
      "#$ \"$CICC_PATH/cicc\" c.ii -o \"./c.ptx\"\n#$ ptxas \"./c.ptx\" -o \"./c.cubin\"\n"
      "#$ fatbinary x\n#$ g++ -shared\nwarning: noise\n");
  EXPECT_EQ(script.before,
            "export CICC_PATH='/cuda/nvvm/bin'\ngcc -D__A__=1 -E c.cu || exit 1\n"
            "\"$CICC_PATH/cicc\" c.ii -o \"./c.ptx\" || exit 1\n");
  EXPECT_EQ(script.after,
            "export CICC_PATH='/cuda/nvvm/bin'\nptxas \"./c.ptx\" -o \"./c.cubin\" || exit 1\n"
            "fatbinary x || exit 1\ng++ -shared || exit 1\n");
}

}  // namespace
}  // namespace sculler::eval
