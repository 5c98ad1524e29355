#include "source/answer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "source/bundle.h"
#include "source/edit.h"

namespace sculler::source {
namespace {

std::string error_of(std::string_view text) {
  auto parsed = parse_answer(text);
  return parsed ? "no error" : parsed.error().text();
}

TEST(Answer, TakesBlocksBareAndFenced) {
  const auto a = parse_answer(
      "I change two places.\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\nand\n```cpp "
      "halo.cuh\n<<<<<<< SEARCH\nx\n```\n=======\n>>>>>>> REPLACE\n```\n");
  ASSERT_TRUE(a) << a.error().text();
  ASSERT_EQ(a->edits.size(), 2u);
  EXPECT_EQ(a->edits[0].search, "a\n");
  EXPECT_EQ(a->edits[0].text, "b\n");
  EXPECT_EQ(a->edits[0].line, 2);
  EXPECT_TRUE(a->edits[0].file.empty());
  EXPECT_EQ(a->edits[1].file, "halo.cuh");
  EXPECT_EQ(a->edits[1].search, "x\n```\n");  // a fence within a block is code
  EXPECT_EQ(a->edits[1].text, "");
  EXPECT_EQ(a->prose, "I change two places.\nand\n");
}

TEST(Answer, TakesWholeFilesByName) {
  const auto a = parse_answer(
      "# Title\n=======\n### `candidate.cu`\n\n````cuda\nint x;\n```\nno end\n````\n~~~cpp "
      "halo.cuh\nint y;\n~~~\n```bash\nmake\n```\n```\n```\n");
  ASSERT_TRUE(a) << a.error().text();
  ASSERT_EQ(a->edits.size(), 2u);
  EXPECT_EQ(a->edits[0].kind, Edit::Kind::kRewrite);
  EXPECT_EQ(a->edits[0].file, "candidate.cu");
  EXPECT_EQ(a->edits[0].text, "int x;\n```\nno end\n");
  EXPECT_EQ(a->edits[1].file, "halo.cuh");
}

TEST(Answer, TakesTheDirectiveFencedOrBare) {
  const std::string directive = R"({"backend":"lsa","why":"braces } in \" text"})";
  for (const std::string& text : {"```json\n" + directive + "\n```\n```cpp\nint x;\n```\n",
                                  directive + "\n```cpp\nint x;\n```\n",
                                  "<think>\n```json\n{\"backend\":\"gin\"}\n```\n</think>\n```\n" +
                                      directive + "\n```\n```cpp\nint x;\n```\n"}) {
    const auto a = parse_answer(text);
    ASSERT_TRUE(a) << a.error().text();
    EXPECT_EQ(a->directive, directive);
    ASSERT_EQ(a->edits.size(), 1u);
    EXPECT_EQ(a->edits[0].text, "int x;\n");
  }
  EXPECT_EQ(error_of(directive + "\n```json\n" + directive + "\n```\n"),
            "answer:2: a second directive, the first is at line 1 (give one directive)");
}

TEST(Answer, RefusesWithTheLine) {
  EXPECT_EQ(error_of("x\n<<<<<<< SEARCH\na\n"),
            "answer:2: half an answer: a block without >>>>>>> REPLACE (answer again, in whole, "
            "and shorter)");
  EXPECT_EQ(error_of("```cpp\nint x;\n"),
            "answer:1: half an answer: a code fence without an end (answer again, in whole, and "
            "shorter)");
  EXPECT_EQ(error_of("<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n"),
            "answer:3: a second <<<<<<< SEARCH within the block of line 1 (end each block with "
            ">>>>>>> REPLACE before the next one)");
  EXPECT_EQ(error_of("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n"),
            "answer:3: the block of line 1 has no ======= line (write SEARCH, =======, REPLACE in "
            "this order)");
  EXPECT_EQ(error_of("<<<<<<< SEARCH\na\n=======\n=======\n>>>>>>> REPLACE\n"),
            "answer:4: a second ======= within the block of line 1 (leave lines of = alone out of "
            "the code)");
  EXPECT_NE(error_of(">>>>>>> REPLACE\n").find("answer:1: >>>>>>> REPLACE without"),
            std::string::npos);
  EXPECT_NE(error_of("<think> and never ends").find("half an answer"), std::string::npos);
  EXPECT_NE(error_of(std::string("a\n\0b", 4)).find("answer:2: a NUL byte"), std::string::npos);
}

TEST(Answer, IsBounded) {
  EXPECT_NE(error_of(std::string(kMaxAnswerBytes + 1, 'x')).find("at most 10"), std::string::npos);
  std::string many;
  for (std::size_t i = 0; i <= kMaxEdits; ++i)
    many += "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n";
  EXPECT_NE(error_of(many).find("more than 4096 changes"), std::string::npos);
  // The worst of ten megabytes: fences that open and close on every line, braces, no newline.
  for (const char* unit :
       {"```\n", "```cpp\n", "{", "{\"backend\"", "<", "\n", "`", "~~~\n```\n"}) {
    std::string text;
    while (text.size() + 16 < kMaxAnswerBytes) text += unit;
    (void)parse_answer(text);
  }
  const auto prose = parse_answer(std::string(100'000, 'a') + "\nshort\n");
  ASSERT_TRUE(prose);
  EXPECT_LE(prose->prose.size(), 4000u);
}

RC_GTEST_PROP(Answer, PrintedChangesAreReadBack, ()) {
  const auto word = rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab {};`\t#")));
  const auto lines = *rc::gen::container<std::vector<std::string>>(word);
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  Edit edit;
  edit.file = "halo.cuh";
  edit.search = text + "x\n";
  edit.text = text;
  const auto back = parse_answer(print({edit}));
  RC_ASSERT(back.has_value());
  RC_ASSERT(back->edits.size() == 1u);
  RC_ASSERT(back->edits[0].search == edit.search);
  RC_ASSERT(back->edits[0].text == edit.text);
  RC_ASSERT(back->edits[0].file == edit.file);
  edit.kind = Edit::Kind::kRewrite;
  edit.text = "x\n" + text;
  const auto whole = parse_answer(print({edit}));
  RC_ASSERT(whole.has_value());
  RC_ASSERT(whole->edits.size() == 1u);
  RC_ASSERT(whole->edits[0].text == edit.text);
}

TEST(Bundle, SplitsAndJoins) {
  const std::string text = "int a;\n// sculler:file halo.cuh\nint b;\n// sculler:file x.h\n";
  const auto files = split_bundle(text, "candidate.cu", "c.cu");
  ASSERT_TRUE(files) << files.error().text();
  ASSERT_EQ(files->size(), 3u);
  EXPECT_EQ((*files)[1], (File{"halo.cuh", "int b;\n"}));
  EXPECT_EQ((*files)[2], (File{"x.h", ""}));
  EXPECT_EQ(*join_bundle(*files), text);
  EXPECT_EQ(split_bundle("a\n// sculler:file ../x.h\n", "c.cu", "c.cu").error().text(),
            "c.cu:2: \"../x.h\" is no file name (use a plain name that ends in .cu, .cuh, .cpp, "
            ".cc, .h, .hpp or .inc)");
  EXPECT_FALSE(split_bundle("// sculler:file a.h\n// sculler:file a.h\n", "c.cu", "c.cu"));
  EXPECT_FALSE(join_bundle({{"c.cu", "// sculler:file a.h\n"}}));
  EXPECT_EQ(split_bundle("// sculler:files are a thing\n", "c.cu", "c.cu")->size(), 1u);
}

TEST(Bundle, AFileMayStandElsewhereWhereItIsRead) {
  MemoryFiles files;
  ASSERT_TRUE(files.mkdirs("/tasks/shared"));
  ASSERT_TRUE(files.mkdirs("/tasks/k/seeds"));
  ASSERT_TRUE(files.write_atomic("/tasks/shared/tile.h", "int b;"));
  const auto read = [&](const std::string& text) {
    EXPECT_TRUE(files.write_atomic("/tasks/k/seeds/s.cu", text));
    return read_bundle(files, "/tasks/k/seeds/s.cu");
  };
  EXPECT_EQ(*read("int a;\n// sculler:file tile.h from ../../shared\n"),
            "int a;\n// sculler:file tile.h\nint b;\n");
  EXPECT_EQ(*read("int a;\n// sculler:file x.h\nint c;"), "int a;\n// sculler:file x.h\nint c;");
  const auto refused = [&](const std::string& heading) { return read(heading).error().text(); };
  EXPECT_EQ(refused("a\n// sculler:file tile.h from /tasks/shared\n"),
            "/tasks/k/seeds/s.cu:2: names no file of a folder beside it (write // sculler:file "
            "NAME.h from ../FOLDER)");
  EXPECT_NE(refused("// sculler:file ../tile.h from ../../shared\n").find("s.cu:1: names no file"),
            std::string::npos);
  EXPECT_NE(refused("// sculler:file other.h from ../../shared\n").find("s.cu:1: "),
            std::string::npos);
  // An answer of a model holds no such line: it is not read as a seed is.
  EXPECT_FALSE(split_bundle("// sculler:file tile.h from ../../shared\n", "c.cu", "c.cu"));
}

}  // namespace
}  // namespace sculler::source
