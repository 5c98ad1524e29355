#include "eval/cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace sculler::eval {
namespace {
namespace fs = std::filesystem;

class CacheTest : public testing::Test {
 protected:
  static void put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  // An object of `bytes` bytes under `key`.
  static void add(ArtifactCache& cache, const std::string& key, std::size_t bytes) {
    auto staged = cache.stage();
    ASSERT_TRUE(staged);
    put(*staged + "/artifact.so", std::string(bytes, 'x'));
    put(*staged + "/meta.json", "{}");
    ASSERT_TRUE(cache.insert(key, *staged));
  }
  test::TempFolder temporary_{"cache_test"};
  const fs::path folder_ = temporary_.path();
};

TEST_F(CacheTest, FindsWhatWasInsertedAndKeepsTheFirst) {
  ArtifactCache cache(folder_, 1 << 20);
  ASSERT_TRUE(cache.open());
  const std::string key(64, 'a');
  EXPECT_FALSE(cache.find(key));
  add(cache, key, 10);
  ASSERT_TRUE(cache.find(key));
  add(cache, key, 20);  // another evaluator's: dropped
  EXPECT_EQ(fs::file_size(*cache.find(key) + "/artifact.so"), 10U);
  EXPECT_TRUE(fs::is_empty(folder_ / "staged"));
}

TEST_F(CacheTest, SourceIsKnownUntilAHeaderChanges) {
  ArtifactCache cache(folder_, 1 << 20);
  ASSERT_TRUE(cache.open());
  const std::string key(64, 'b'), source(64, 'c');
  add(cache, key, 10);
  put(folder_ / "header.h", "one");
  auto seen = observe(folder_ / "header.h");
  ASSERT_TRUE(seen);
  cache.remember_source(source, key, {*seen});
  EXPECT_EQ(cache.find_by_source(source), key);
  fs::last_write_time(folder_ / "header.h",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(cache.find_by_source(source), key);  // touched, same content
  put(folder_ / "header.h", "two");
  EXPECT_FALSE(cache.find_by_source(source));
  fs::remove(folder_ / "header.h");
  EXPECT_FALSE(cache.find_by_source(source));
}

TEST_F(CacheTest, TrimDropsTheLeastRecentlyUsed) {
  ArtifactCache cache(folder_, 5000);
  ASSERT_TRUE(cache.open());
  const std::string keys[4] = {std::string(64, '1'), std::string(64, '2'), std::string(64, '3'),
                               std::string(64, '4')};
  for (int i = 0; i < 4; ++i) {
    add(cache, keys[i], 2000);
    fs::last_write_time(*cache.find(keys[i]),
                        fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  ASSERT_TRUE(cache.find(keys[0]));  // used now
  EXPECT_LE(cache.trim(), 5000U);
  EXPECT_TRUE(cache.find(keys[0]));
  EXPECT_FALSE(cache.find(keys[1]));
  EXPECT_FALSE(cache.find(keys[2]));
}

TEST_F(CacheTest, FilesOfAFolderAreTrimmedOldestFirst) {
  for (int i = 0; i < 5; ++i) {
    const fs::path file = fs::path(folder_) / std::to_string(i);
    fs::create_directories(folder_);
    std::ofstream(file) << std::string(1000, 'x');
    fs::last_write_time(file,
                        fs::file_time_type::clock::now() - std::chrono::hours(i == 3 ? 9 : i));
  }
  EXPECT_EQ(trim_files(folder_, 5000), 5000U);
  EXPECT_EQ(trim_files(folder_, 4000), 3000U);
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "3"));
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "4"));
  EXPECT_TRUE(fs::exists(fs::path(folder_) / "0"));
  EXPECT_EQ(trim_files((fs::path(folder_) / "no-such").string(), 1), 0U);
}

TEST_F(CacheTest, StagedFoldersOfTheDeadAreRemoved) {
  ArtifactCache cache(folder_, 1 << 20);
  ASSERT_TRUE(cache.open());
  fs::create_directories(folder_ / "staged/999999999-0");
  auto own = cache.stage();
  ASSERT_TRUE(own);
  ASSERT_TRUE(cache.open());
  EXPECT_FALSE(fs::exists(folder_ / "staged/999999999-0"));
  EXPECT_TRUE(fs::exists(*own));
}

}  // namespace
}  // namespace sculler::eval
