#include "source/lint_python.h"

#include <gtest/gtest.h>

#include "source/blocks.h"

namespace sculler::source {
namespace {

std::string rules_of(const std::string& text, PythonRules rules = {}) {
  rules.imports = {"math", "triton", "triton.language"};
  rules.entry = "run";
  std::string out;
  for (const auto& f : lint_python(text, rules))
    out += (out.empty() ? "" : " ") + std::to_string(f.line) + ":" + f.rule;
  return out;
}

std::string around(const std::string& body) {
  return "# EVOLVE-BLOCK-START\ndef run(buffers, dims):\n" + body + "# EVOLVE-BLOCK-END\n";
}

TEST(LintPython, APlainProgramPasses) {
  EXPECT_EQ(rules_of(around("    import math, triton.language as tl\n"
                            "    from triton import cdiv\n"
                            "    # os.system is only named here\n"
                            "    s = 'the os module', f'{math.pi} os'\n"
                            "    x = yield from s\n"
                            "    f(input=3, compile=4)\n"
                            "    return x // 2\n")),
            "");
}

TEST(LintPython, WhatReachesOutIsNamedWithItsLine) {
  EXPECT_EQ(rules_of(around("    import os\n")), "3:import 3:banned-name");
  EXPECT_EQ(rules_of(around("    import math, socket as s\n")), "3:import 3:banned-name");
  EXPECT_EQ(rules_of(around("    if 1: from subprocess import run as r\n")),
            "3:import 3:banned-name");
  EXPECT_EQ(rules_of(around("    from . import x\n")), "3:import");
  EXPECT_EQ(rules_of(around("    import numpy\n")), "3:import");
  EXPECT_EQ(rules_of(around("    triton.runtime.os.system('ls')\n")), "3:banned-name");
  EXPECT_EQ(rules_of(around("    eval('1')\n")), "3:banned-name");
  EXPECT_EQ(rules_of(around("    __import__('os')\n")), "3:hidden-member");
  EXPECT_EQ(rules_of(around("    ().__class__.__bases__\n")), "3:hidden-member 3:hidden-member");
  EXPECT_EQ(rules_of(around("    f'{__import__(1)}'\n")), "3:path 3:hidden-member");
  EXPECT_EQ(rules_of(around("    '/proc/self/mem'\n")), "3:path");
  EXPECT_EQ(rules_of(around("    \\\n    open\\\n('x')\n")), "4:banned-name");
}

TEST(LintPython, BlocksStandInCommentsOfTheirOwn) {
  EXPECT_EQ(rules_of("def run(): pass\n"), "0:evolve-block");
  PythonRules baseline;
  baseline.baseline = true;
  EXPECT_EQ(rules_of("def run(): pass\n", baseline), "");
  EXPECT_EQ(rules_of("'''\n# EVOLVE-BLOCK-START\n'''\ndef run(): pass\n# EVOLVE-BLOCK-END\n"),
            "2:evolve-block");
  EXPECT_EQ(rules_of("# EVOLVE-BLOCK-START\ndef run(): 'x\n# EVOLVE-BLOCK-END\n"), "2:syntax");
  EXPECT_EQ(rules_of("# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-END\n"), "0:entry-point");
}

TEST(LintPython, FrozenTextIsKept) {
  const std::string parent = "import math\n" + around("    return 1\n") + "LAST = 1\n";
  PythonRules rules;
  rules.parent = parent;
  EXPECT_EQ(rules_of("import math\n" + around("    return 2\n    # more\n") + "LAST = 1\n", rules),
            "");
  EXPECT_EQ(rules_of("import math\n" + around("    return 2\n") + "LAST = 2\n", rules),
            "6:frozen-text");
  auto replaced = replace_blocks(parent, {"def run(a, b):\n    return 7 // 2\n"}, "parent");
  ASSERT_TRUE(replaced) << replaced.error().text();
  EXPECT_NE(replaced->find("7 // 2"), std::string::npos);
  EXPECT_TRUE(replaced->ends_with("LAST = 1\n"));
}

TEST(LintPython, TunablesStandBehindAHash) {
  const std::string text =
      around("    pass\n") + "# sculler:tune BLOCK in {64, 128}\nBLOCK = 128  # usual\n";
  auto found = find_tunables(text, "candidate.py");
  ASSERT_TRUE(found) << found.error().text();
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().name, "BLOCK");
  EXPECT_EQ(found->front().usual, 1U);
  PythonRules rules;
  rules.defines = {{"BLOCK", "64"}};
  EXPECT_EQ(rules_of(text, rules), "");
  rules.defines = {{"BLOCK", "65"}};
  EXPECT_NE(rules_of(text, rules), "");
  EXPECT_NE(rules_of(around("    pass\n") + "# sculler:tune BLOCK in {64}\nOTHER = 64\n"), "");
}

}  // namespace
}  // namespace sculler::source
