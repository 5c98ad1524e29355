#include "source/tunables.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace sculler::source {
namespace {

const std::string kText =
    "// sculler:tune TILE in {64, 128,256}\n#ifndef TILE\n#define TILE 128\n#endif\n"
    "// sculler:tune MODE in {fast,safe}\n#ifndef MODE\n#define MODE safe\n#endif\n";

std::string error_of(std::string_view text) {
  auto found = find_tunables(text, "c.cu");
  return found ? "no error" : found.error().text();
}

TEST(Tunables, AreRead) {
  auto found = find_tunables(kText, "c.cu");
  ASSERT_TRUE(found) << found.error().text();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].values, (std::vector<std::string>{"64", "128", "256"}));
  EXPECT_EQ((*found)[0].usual, 1u);
  EXPECT_EQ((*found)[1].usual, 1u);
  EXPECT_EQ(space_size(*found), 6u);
  EXPECT_EQ(print(point(*found, usual_choice(*found))), "TILE=128 MODE=safe");
  EXPECT_TRUE(check_defines(*found, {{"TILE", "64"}}, "c.cu"));
  EXPECT_EQ(check_defines(*found, {{"TLIE", "64"}}, "c.cu").error().cure, "did you mean TILE?");
  EXPECT_EQ(check_defines(*found, {{"TILE", "65"}}, "c.cu").error().text(),
            "c.cu:1: TILE: 65 is not one of its values (choose from {64,128,256})");
}

TEST(Tunables, NearestNumberIsUsualWhereTheDefaultIsNotListed) {
  auto found =
      find_tunables("// sculler:tune T in {1,8,64}\n#ifndef T\n#define T 10\n#endif\n", "c");
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)[0].usual, 1u);
  EXPECT_FALSE((*found)[0].from_define);
}

TEST(Tunables, ErrorsNameLineAndCure) {
  EXPECT_EQ(
      error_of("\n// sculler:tune T {1}\n"),
      "c.cu:2: \"T {1}\" is no declaration of a tunable (write // sculler:tune NAME in {1,2,4})");
  EXPECT_EQ(error_of("// sculler:tune T in {1}\nint x;\n"),
            "c.cu:1: T: is not followed by its default (write #ifndef T, #define T VALUE and "
            "#endif below it)");
  EXPECT_EQ(error_of("// sculler:tune T in {1,1}\n"), "c.cu:1: T: 1 occurs twice (remove one)");
  EXPECT_EQ(error_of("// sculler:tune T in {}\n"),
            "c.cu:1: T: \"\" is no value of a tunable (use numbers or names)");
  EXPECT_EQ(error_of("// sculler:tune T in {1;system(\"x\")}\n"),
            "c.cu:1: T: \"1;system(\"x\")\" is no value of a tunable (use numbers or names)");
  EXPECT_EQ(error_of(kText + kText), "c.cu:9: TILE: is declared at line 1 already (remove one)");
}

TEST(Tunables, SpaceSaturates) {
  std::vector<Tunable> many(40);
  for (auto& tunable : many) tunable.values = {"1", "2", "3", "4"};
  EXPECT_EQ(space_size(many), uint64_t{1} << 62);
}

TEST(Tunables, Requirements) {
  EXPECT_EQ(requirements("// x\n// sculler:requires cutlass cublas\n"),
            (std::vector<std::string>{"cutlass", "cublas"}));
}

RC_GTEST_PROP(Tunables, AnyDeclarationParsesOrFails, (const std::string& text)) {
  auto found = find_tunables("// sculler:tune " + text + "\n#ifndef T\n#define T 1\n#endif\n", "c");
  if (found) {
    for (const auto& tunable : *found)
      RC_ASSERT(!tunable.values.empty() && tunable.usual < tunable.values.size());
  }
}

}  // namespace
}  // namespace sculler::source
