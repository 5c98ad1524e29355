#include "verify/recognition.h"

#include <gtest/gtest.h>

#include <set>

namespace sculler::verify {
namespace {

constexpr int kContents = 8;

// `n` timed iterations of a candidate that takes `known` us, and `fresh` us for inputs it never
// saw.
std::optional<std::string> judged(int n, uint64_t known, uint64_t fresh, uint64_t noise_every = 0) {
  Recognition r(kContents);
  std::set<int> contents;
  for (int i = 0; i < n; ++i) {
    const int content = r.next_content();
    if (content >= 0) {
      EXPECT_GE(content, kContents + 2);  // none that setup or another iteration has
      EXPECT_TRUE(contents.insert(content).second);
    }
    IterationResult result;
    result.content = content >= 0 ? content : i % kContents;
    result.latency_ns = (content >= 0 ? fresh : known) * 1000;
    if (noise_every != 0 && static_cast<uint64_t>(i) % noise_every == 0) result.latency_ns *= 4;
    r.add(result);
  }
  EXPECT_LE(contents.size(), static_cast<std::size_t>(Recognition::kFresh));
  return r.finding();
}

TEST(Recognition, AnHonestCandidateIsLeftAlone) {
  EXPECT_FALSE(judged(100, 500, 500));
  EXPECT_FALSE(judged(100, 500, 600));  // a colder cache
  EXPECT_FALSE(judged(100, 500, 500, 3));
  EXPECT_FALSE(judged(100, 10, 30));  // below what clocks tell apart
}

TEST(Recognition, KeptAnswersAreFound) {
  const auto why = judged(40, 100, 500);
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("100 us"), std::string::npos) << *why;
  EXPECT_NE(why->find("500 us"), std::string::npos) << *why;
  EXPECT_TRUE(judged(100, 100, 500, 3));
}

TEST(Recognition, SaysNothingOfFewSamples) { EXPECT_FALSE(judged(14, 100, 500)); }

}  // namespace
}  // namespace sculler::verify
