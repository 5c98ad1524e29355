#include "eval/spool.h"

#include <gtest/gtest.h>

namespace sculler::eval {
namespace {

const std::string kId(64, 'c');

TEST(Spool, FindsWhatWasWritten) {
  MemoryFiles files;
  Spool spool(files, "/run/spool");
  ASSERT_TRUE(spool.open());
  EXPECT_FALSE(spool.find(kId));
  const std::string line = R"({"job":")" + kId + R"(","status":"PASSED"})";
  ASSERT_TRUE(spool.write(kId, line));
  EXPECT_EQ(spool.find(kId), line);
}

TEST(Spool, DamagedAndForeignFilesCountAsNone) {
  MemoryFiles files;
  Spool spool(files, "/run/spool");
  ASSERT_TRUE(spool.open());
  ASSERT_TRUE(files.write_atomic("/run/spool/" + kId + ".json", "{\"job\":"));
  EXPECT_FALSE(spool.find(kId));
  ASSERT_TRUE(files.write_atomic("/run/spool/" + kId + ".json", R"({"job":"other"})"));
  EXPECT_FALSE(spool.find(kId));
  EXPECT_FALSE(spool.write("../../x", "{}"));
}

TEST(Spool, AFailureOfTheEvaluatorIsKeptButNotFinal) {
  MemoryFiles files;
  Spool spool(files, "/run/spool");
  ASSERT_TRUE(spool.open());
  ASSERT_TRUE(spool.write(kId, R"({"job":")" + kId + R"(","status":"INTERNAL"})"));
  EXPECT_TRUE(files.exists("/run/spool/" + kId + ".json"));
  EXPECT_FALSE(spool.find(kId));
}

TEST(Spool, AFullDiskIsAnError) {
  MemoryFiles files;
  Spool spool(files, "/run/spool");
  ASSERT_TRUE(spool.open());
  files.set_capacity(10);
  auto done = spool.write(kId, R"({"job":")" + kId + R"("})");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kDiskFull);
}

}  // namespace
}  // namespace sculler::eval
