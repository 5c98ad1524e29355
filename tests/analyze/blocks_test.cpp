// Marks without a model.
#include "analyze/blocks.h"

#include <gtest/gtest.h>

namespace sculler::analyze {
namespace {

TEST(MarkUsual, KernelsLaunchersAndTheBodyOfRun) {
  const std::string text =
      "#include <nccl.h>\n"
      "static int plain(int a) { return a; }\n"
      "__global__ void kernel() {}\n"
      "void launch() {\n  kernel<<<1, 1>>>();\n}\n"
      "extern \"C\" int sculler_setup() { ncclDevCommCreate(); return plain(0); }\n"
      "extern \"C\" int sculler_run() {\n  launch();\n  return 0;\n}\n"
      "extern \"C\" int sculler_teardown() { return 0; }\n";
  const auto marked = mark_usual(text, "p.cu");
  ASSERT_TRUE(marked) << marked.error().text();
  EXPECT_EQ(*marked,
            "#include <nccl.h>\n"
            "static int plain(int a) { return a; }\n"
            "// EVOLVE-BLOCK-START\n"
            "__global__ void kernel() {}\n"
            "void launch() {\n  kernel<<<1, 1>>>();\n}\n"
            "// EVOLVE-BLOCK-END\n"
            "extern \"C\" int sculler_setup() { ncclDevCommCreate(); return plain(0); }\n"
            "extern \"C\" int sculler_run() {\n"
            "// EVOLVE-BLOCK-START\n  launch();\n  return 0;\n// EVOLVE-BLOCK-END\n}\n"
            "extern \"C\" int sculler_teardown() { return 0; }\n");
  EXPECT_EQ(source::without_marks(*marked), text);
}

TEST(MarkUsual, WhereMarksWouldNotStandInCodeEverythingIsOneBlock) {
  // The body begins and ends on a line that a comment holds.
  const std::string text =
      "extern \"C\" int sculler_run() { /* one\n comment\n over lines */ return 0;\n}\n";
  const auto marked = mark_usual(text, "p.cu");
  ASSERT_TRUE(marked) << marked.error().text();
  EXPECT_EQ(*marked, "// EVOLVE-BLOCK-START\n" + text + "// EVOLVE-BLOCK-END\n");
  const auto whole = mark_usual("int x;", "p.cu");
  ASSERT_TRUE(whole) << whole.error().text();
  EXPECT_EQ(source::without_marks(*whole), "int x;");
  EXPECT_FALSE(mark_usual("/* no end", "p.cu"));
  EXPECT_FALSE(mark_usual("", "p.cu"));
}

}  // namespace
}  // namespace sculler::analyze
