#include "base/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/log.h"
#include "support/temp_folder.h"

namespace sculler {
namespace {

// The same behaviour of the real tree and the one in memory.
class FilesTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      root_ = temporary_.path("root");
      ASSERT_TRUE(real_files().mkdirs(root_));
      files_ = &real_files();
    } else {
      root_ = "/root";
      files_ = &memory_;
      ASSERT_TRUE(memory_.mkdirs(root_));
    }
  }
  void TearDown() override { ASSERT_TRUE(files_->remove_all(root_)); }
  MemoryFiles memory_;
  Files* files_ = nullptr;
  test::TempFolder temporary_{"sculler_files"};
  std::string root_;
};

TEST_P(FilesTest, WritesReadsListsAndRemoves) {
  const std::string folder = root_ + "/a/b";
  ASSERT_TRUE(files_->mkdirs(folder));
  ASSERT_TRUE(files_->mkdirs(folder));
  ASSERT_TRUE(files_->write_atomic(folder + "/two", "22"));
  ASSERT_TRUE(files_->write_atomic(folder + "/one", "1"));
  ASSERT_TRUE(files_->write_atomic(folder + "/one", "11"));
  ASSERT_TRUE(files_->append(folder + "/two", "2"));
  EXPECT_EQ(files_->read(folder + "/one"), "11");
  EXPECT_EQ(files_->read(folder + "/two"), "222");
  EXPECT_EQ(files_->list(folder), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(files_->list(root_), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(files_->is_folder(folder));
  EXPECT_FALSE(files_->is_folder(folder + "/one"));
  ASSERT_TRUE(files_->remove_all(root_ + "/a"));
  EXPECT_FALSE(files_->exists(folder + "/one"));
}

TEST_P(FilesTest, Failures) {
  EXPECT_EQ(files_->read(root_ + "/none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(files_->list(root_ + "/none").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(files_->write_atomic(root_ + "/no/folder", "x"));
  ASSERT_TRUE(files_->write_atomic(root_ + "/big", std::string(100, 'x')));
  EXPECT_EQ(files_->read(root_ + "/big", 99).error().code, ErrorCode::kBadInput);
  EXPECT_TRUE(files_->remove_all(root_ + "/none"));
}

INSTANTIATE_TEST_SUITE_P(Both, FilesTest, ::testing::Bool());

TEST(MemoryFiles, FullDiskKeepsTheOldText) {
  MemoryFiles files;
  ASSERT_TRUE(files.mkdirs("/d"));
  ASSERT_TRUE(files.write_atomic("/d/f", "old"));
  files.set_capacity(10);
  auto written = files.write_atomic("/d/f", "much longer text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kDiskFull);
  EXPECT_EQ(files.read("/d/f"), "old");
}

TEST(RealFiles, FullDeviceIsDiskFull) {
  auto written = real_files().append("/dev/full", "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kDiskFull);
}

TEST(Paths, JoinParentName) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(parent_path("/a/b/"), "/a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(file_name("/a/b/"), "b");
  EXPECT_EQ(absolute_path("/a/./b/../c/"), "/a/c");
}

TEST(Log, WritesOneObjectALine) {
  MemoryFiles files;
  FakeClock clock;
  Log log(files, clock, "/log.jsonl");
  log.write(LogLevel::kDebug, "below the level");
  log.write(LogLevel::kInfo, "start", {{"n", 1}});
  auto text = files.read("/log.jsonl", 1000);
  ASSERT_TRUE(text);
  auto record = parse_json(*text, "log");
  ASSERT_TRUE(record);
  EXPECT_EQ(string_or(*record, "event", ""), "start");
  EXPECT_EQ(string_or(*record, "t", ""), "2026-11-18T11:06:40Z");
  files.set_capacity(0);
  log.write(LogLevel::kError, "lost");
  EXPECT_EQ(log.dropped(), 1u);
}

}  // namespace
}  // namespace sculler
