#include "source/edit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/strings.h"
#include "source/blocks.h"

namespace sculler::source {
namespace {

const std::string kText =
    "// sculler:directive {\"backend\":\"lsa\"}\n"
    "#include <x>\n"
    "// EVOLVE-BLOCK-START\n"
    "int a;\n"
    "  int b;\n"
    "int c;\n"
    "int b2;\n"
    "int c;\n"
    "// EVOLVE-BLOCK-END\n"
    "int a;\n"
    "extern int sculler_run();\n";

std::vector<File> files(const std::string& text = kText) { return {{"candidate.cu", text}}; }

std::string replaced(std::string text, const std::string& a, const std::string& b) {
  return text.replace(text.find(a), a.size(), b);
}
Edit block(const std::string& search, const std::string& text) {
  return {Edit::Kind::kReplace, "", search, text, 7};
}
Edit whole(const std::string& text) { return {Edit::Kind::kRewrite, "", "", text, 7}; }

std::string apply_text(const std::vector<Edit>& edits, Scope scope = Scope::kBlocks,
                       const std::string& text = kText) {
  auto out = apply(files(text), edits, scope);
  return out ? (*out)[0].text : out.error().text();
}

TEST(Edit, ReplacesWhereTheTextMayChange) {
  // "int a;" stands in the frozen text too.
  EXPECT_EQ(apply_text({block("int a;\n", "int A;\n")}), replaced(kText, "int a;", "int A;"));
  EXPECT_EQ(apply_text({block("int a;\n", "")}), replaced(kText, "int a;\n", ""));
  EXPECT_EQ(apply_text({block("int a;  \n  int b; \n", "x\n")}),
            replaced(kText, "int a;\n  int b;\n", "x\n"));
  // In order, each on what the ones before it left.
  EXPECT_EQ(apply_text({block("int a;\n", "int z;\nint y;\n"), block("int y;\n", "int w;\n")}),
            replaced(kText, "int a;\n", "int z;\nint w;\n"));
}

TEST(Edit, RefusesWithTheReason) {
  EXPECT_EQ(apply_text({block("int c;\n", "")}),
            "answer:7: the text to search occurs 2 times in candidate.cu (lines 6, 8) (add lines "
            "before or after it, so that it is found once)");
  EXPECT_EQ(apply_text({block("#include <x>\n", "")}),
            "answer:7: line 2 of candidate.cu is outside the evolve blocks and may not change: "
            "\"#include <x>\" (change only what lies between EVOLVE-BLOCK-START and "
            "EVOLVE-BLOCK-END)");
  EXPECT_EQ(apply_text({block("int a;\nint b;\nint c;\n", "")}),
            "answer:7: the text to search is not in candidate.cu; nearest is line 4, where 3 of 3 "
            "lines agree, but line 5 has 2 blanks before it, not 0 (copy the lines from the source "
            "as it is shown)");
  EXPECT_EQ(apply_text({block("int a;\n  int bb;\nint c;\n", "")}),
            "answer:7: the text to search is not in candidate.cu; nearest is line 4, where 2 of 3 "
            "lines agree, but line 5 is \"  int b;\", not \"  int bb;\" (copy the lines from the "
            "source as it is shown)");
  EXPECT_EQ(apply_text({block("nothing\n", "")}),
            "answer:7: the text to search is not in candidate.cu: no line of it is, it begins with "
            "\"nothing\" (copy the lines from the source as it is shown)");
  EXPECT_NE(apply_text({block("\n", "x\n")}).find("the text to search is empty"),
            std::string::npos);
  EXPECT_NE(apply_text({}).find("holds no change"), std::string::npos);
  Edit other = block("int a;\n", "");
  other.file = "halo.cuh";
  EXPECT_NE(apply_text({other}).find("there is no file halo.cuh (the files are candidate.cu; a new "
                                     "one must be a header)"),
            std::string::npos);
}

TEST(Edit, MarkersCannotBeDamaged) {
  for (const Scope scope : {Scope::kBlocks, Scope::kFile}) {
    EXPECT_NE(apply_text({block("// EVOLVE-BLOCK-START\nint a;\n", "int a;\n")}, scope)
                  .find("may not change"),
              std::string::npos);
    EXPECT_NE(apply_text({block("int a;\n  int b;\n", "/* open\n")}, scope)
                  .find("where evolve blocks begin or end"),
              std::string::npos);
  }
  EXPECT_NE(apply_text({block("int a;\n  int b;\n",
                              "// EVOLVE-BLOCK-END\nint q;\n// EVOLVE-BLOCK-START\n")})
                .find("where evolve blocks begin or end"),
            std::string::npos);
  // In scope kFile another place for a block is the model's choice.
  EXPECT_EQ(apply_text({block("#include <x>\n", "#include <y>\n")}, Scope::kFile),
            replaced(kText, "<x>", "<y>"));
}

TEST(Edit, WholeTexts) {
  const std::string changed = replaced(kText, "  int b;", "  int B;");
  EXPECT_EQ(apply_text({whole(changed)}), changed);
  // Another directive, or none on top, is the engine's affair.
  EXPECT_EQ(apply_text({whole(replaced(changed, "lsa", "gin"))}), changed);
  EXPECT_EQ(apply_text({whole(changed.substr(changed.find('\n') + 1))}), changed);
  EXPECT_EQ(apply_text({whole(replaced(changed, "<x>", "<y>"))}),
            "answer:7: the new candidate.cu changes text outside the evolve blocks, first at its "
            "line 2: \"#include <y>\" (repeat that text exactly, or send the evolve blocks alone "
            "with their markers)");
  EXPECT_EQ(apply_text({whole(replaced(changed, "<x>", "<y>"))}, Scope::kFile),
            replaced(changed, "<x>", "<y>"));
  const std::string inner = "int only;\n";
  const auto begin = kText.find("int a;"), end = kText.find("// EVOLVE-BLOCK-END");
  const std::string alone = kText.substr(0, begin) + inner + kText.substr(end);
  EXPECT_EQ(apply_text({whole(inner)}), alone);
  EXPECT_EQ(apply_text({whole("// EVOLVE-BLOCK-START\n" + inner + "// EVOLVE-BLOCK-END\n")}),
            alone);
  EXPECT_EQ(apply_text({whole("// sculler:directive {\"backend\":\"gin\"}\n" + inner)}), alone);
  EXPECT_NE(apply_text({whole("int sculler_run();\n")}).find("repeat the lines with"),
            std::string::npos);
  EXPECT_NE(apply_text({whole("// EVOLVE-BLOCK-START\n")}).find("without an end"),
            std::string::npos);
}

TEST(Edit, LineEndsStay) {
  std::string crlf;
  for (const char c : kText) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  crlf.resize(crlf.size() - 2);  // no last end either
  EXPECT_EQ(apply_text({block("  int b;\n", "int x;\nint y;\n")}, Scope::kBlocks, crlf),
            replaced(crlf, "  int b;", "int x;\r\nint y;"));
  const std::string changed = replaced(kText, "  int b;", "  int B;");
  EXPECT_EQ(apply_text({whole(changed)}, Scope::kBlocks, crlf),
            replaced(crlf, "  int b;", "  int B;"));
  EXPECT_EQ(
      apply_text({block("int c;\n// EVOLVE-BLOCK-END\nint a;\nextern int sculler_run();\n", "")},
                 Scope::kBlocks, crlf)
          .find("answer:7: line 9"),
      0u);
}

TEST(Edit, SeveralFiles) {
  const std::vector<File> two = {{"candidate.cu", kText}, {"halo.cuh", "frozen\n"}};
  Edit edit = whole("new\n");
  edit.file = "halo.cuh";
  EXPECT_FALSE(apply(two, {edit}, Scope::kBlocks));
  auto out = apply(two, {edit, block("  int b;\n", "  int B;\n")}, Scope::kFile);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ((*out)[1].text, "new\n");
  EXPECT_EQ((*out)[0].text, replaced(kText, "int b;", "int B;"));
  edit.file = "more.h";
  out = apply(files(), {edit, block("int a;\n", "#include \"more.h\"\n")}, Scope::kBlocks);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ((*out)[1], (File{"more.h", "new\n"}));
}

TEST(Edit, IsBounded) {
  std::string text = "// EVOLVE-BLOCK-START\n";
  for (int i = 0; i < 200'000; ++i) text += "\n\n";
  text += "// EVOLVE-BLOCK-END\n";
  std::vector<Edit> edits(4000, block(std::string(100'000, '\n') + "x\n", "y\n"));
  EXPECT_NE(apply_text(edits, Scope::kBlocks, text).find("too many for a text of this size"),
            std::string::npos);
  std::vector<Edit> thousands;
  std::string lines = "// EVOLVE-BLOCK-START\n", expected = lines;
  for (int i = 0; i < 4000; ++i) {
    lines += fmt::format("int v{};\n", i);
    expected += fmt::format("long v{};\n", i);
    thousands.push_back(block(fmt::format("int v{};\n", i), fmt::format("long v{};\n", i)));
  }
  EXPECT_EQ(apply_text(thousands, Scope::kBlocks, lines + "// EVOLVE-BLOCK-END\n"),
            expected + "// EVOLVE-BLOCK-END\n");
  EXPECT_NE(apply_text({block("int a;\n", std::string(2 << 20, 'x') + "\n")}).find("at most"),
            std::string::npos);
}

std::string random_block(int lines) {
  std::string out;
  const auto gen = rc::gen::elementOf(std::vector<std::string>{
      "int a;", "  int a;", "}", "", "\tx();", "for (;;) {", "// note", "int b = \"q\";"});
  for (int i = 0; i < lines; ++i) out += *gen + "\n";
  return out;
}

RC_GTEST_PROP(Edit, ApplyOfDiffRestores, ()) {
  const std::string head = "#include <x>\n", tail = "int tail;\n";
  const auto build = [&](const std::string& a, const std::string& b) {
    return head + "// EVOLVE-BLOCK-START\n" + a + "// EVOLVE-BLOCK-END\nmiddle\n" +
           "// EVOLVE-BLOCK-START\n" + b + "// EVOLVE-BLOCK-END\n" + tail;
  };
  const int n = *rc::gen::inRange(0, 12), m = *rc::gen::inRange(0, 12);
  const std::string a = random_block(n), b = random_block(m), c = random_block(m);
  const bool both = *rc::gen::arbitrary<bool>();
  const std::string before = build(a, b), after = build(both ? c : a, c);
  const auto edits = diff(files(before), files(after));
  if (before == after) {
    RC_ASSERT(edits.empty());
    return;
  }
  const auto parsed = parse_answer(print(edits));
  RC_ASSERT(parsed.has_value());
  const auto out = apply(files(before), parsed->edits, Scope::kFile);
  // A change next to a marker may need the marker as context; then it is refused, never misapplied.
  if (out) RC_ASSERT((*out)[0].text == after);
  else RC_ASSERT(out.error().message.find("may not change") != std::string::npos);
}

RC_GTEST_PROP(Edit, FrozenTextStaysWhateverIsAsked, ()) {
  const auto piece = rc::gen::elementOf(std::vector<std::string>{
      "int a;", "  int b;", "int c;", "// EVOLVE-BLOCK-START", "// EVOLVE-BLOCK-END", "/*", "*/",
      "R\"(", ")\"", "\"", "#include <x>", "\\", "", "// sculler:directive {}", "int z;"});
  std::vector<Edit> edits;
  const int n = *rc::gen::inRange(1, 5);
  for (int i = 0; i < n; ++i) {
    Edit edit;
    edit.kind = *rc::gen::arbitrary<bool>() ? Edit::Kind::kRewrite : Edit::Kind::kReplace;
    for (int k = *rc::gen::inRange(0, 4); k > 0; --k) edit.search += *piece + "\n";
    for (int k = *rc::gen::inRange(0, 6); k > 0; --k) edit.text += *piece + "\n";
    edits.push_back(edit);
  }
  const auto before = files();
  const auto out = apply(before, edits, Scope::kBlocks);
  RC_ASSERT(before == files());
  if (out) RC_ASSERT(first_frozen_difference((*out)[0].text, kText) == 0);
}

TEST(Edit, Crossover) {
  const auto build = [](const std::string& a, const std::string& b) {
    return "// EVOLVE-BLOCK-START\n" + a + "// EVOLVE-BLOCK-END\n// EVOLVE-BLOCK-START\n" + b +
           "// EVOLVE-BLOCK-END\n";
  };
  const std::string x = build("a\n", "b\n"), y = build("c\n", "d\n");
  EXPECT_EQ(*cross_blocks(x, y, 2), build("a\n", "d\n"));
  EXPECT_EQ(different_blocks(x, y), 3u);
  EXPECT_EQ(different_blocks(x, build("a\n", "d\n")), 2u);
  EXPECT_EQ(different_blocks(x, "z" + y), 0u);
  const std::string d = "// sculler:directive {}\n", e = "// sculler:directive {\"x\":1}\n";
  EXPECT_EQ(different_blocks(d + x, e + y), 3u);
  EXPECT_EQ(*cross_blocks(d + x, e + y, 1), d + build("c\n", "b\n"));
  EXPECT_FALSE(cross_blocks(x, "z\n" + y, 1));
}

TEST(Edit, WithDirective) {
  EXPECT_EQ(with_directive(kText, "{}").substr(0, 24), "// sculler:directive {}\n");
  EXPECT_EQ(with_directive("a\r\n", "{}"), "// sculler:directive {}\r\na\r\n");
  EXPECT_EQ(with_directive("a\n  //  sculler:directive {\"x\":1}\r\nb", "{}"),
            "a\n// sculler:directive {}\r\nb");
}

}  // namespace
}  // namespace sculler::source
