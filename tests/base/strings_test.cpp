#include "base/strings.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace sculler {
namespace {

TEST(Strings, EditDistance) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("allgahter", "allgather"), 1u);  // neighbours swapped
}

TEST(Strings, Nearest) {
  const std::vector<std::string> names = {"gemm_allgather", "silu", "moe_dispatch"};
  EXPECT_EQ(nearest("gemm_alllgather", names), "gemm_allgather");
  EXPECT_EQ(nearest("gemm", names), "gemm_allgather");
  EXPECT_EQ(nearest("silo", names), "silu");
  EXPECT_EQ(nearest("zzzzzz", names), std::nullopt);
}

TEST(Strings, SplitWords) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(split_words("a  'b c' \"d \\\" e\" f\\ g"), (Words{"a", "b c", "d \" e", "f g"}));
  EXPECT_EQ(split_words("''"), Words{""});
  EXPECT_EQ(split_words(" "), Words{});
  EXPECT_EQ(split_words("a 'b"), std::nullopt);
  EXPECT_EQ(split_words("$(rm -rf) ;x"), (Words{"$(rm", "-rf)", ";x"}));
}

TEST(Strings, Texts) {
  EXPECT_EQ(duration_text(31), "0:00:31");
  EXPECT_EQ(duration_text(3671), "1:01:11");
  EXPECT_EQ(microseconds_text(552.1), "552 µs");
  EXPECT_EQ(microseconds_text(5.519), "5.52 µs");
  EXPECT_EQ(microseconds_text(12345), "12.35 ms");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(shorten("aµµb", 3), "aµ…");
  EXPECT_EQ(shorten("aµb", 3), "aµb");
  EXPECT_EQ(display_width("µs –"), 4u);
  EXPECT_EQ(printable("a\x1b[31m\nb"), "a?[31m?b");
}

TEST(Random, BelowIsInRangeAndCoversIt) {
  Random random(7, "salt");
  std::vector<int> seen(5);
  for (int i = 0; i < 1000; ++i) ++seen.at(random.below(5));
  for (const int n : seen) EXPECT_GT(n, 140);
  EXPECT_EQ(Random(3).next(), Random(3).next());
  EXPECT_NE(Random(3, "a").next(), Random(3, "b").next());
}

}  // namespace
}  // namespace sculler
