#include "store/shared_memory.h"

#include <gtest/gtest.h>

#include "store/store.h"
#include "support/temp_folder.h"

namespace sculler::store {
namespace {

TEST(SharedMemory, ItemsStayAndUsesCountOnce) {
  FakeClock clock;
  test::TempFolder folder("sculler_memory");
  const std::string path = folder.path() + "/memory.sqlite";
  {
    auto a = SharedMemory::open(path, clock), b = SharedMemory::open(path, clock);
    ASSERT_TRUE(a) << a.error().text();
    ASSERT_TRUE(b) << b.error().text();
    EXPECT_TRUE((*a)->add("k1", "cpu", "one"));
    EXPECT_TRUE((*b)->add("k2", "cpu", "two"));
    EXPECT_TRUE((*b)->add("k1", "cpu", "another text"));  // known
    EXPECT_TRUE((*b)->add("k3", "cuda", "three"));
    EXPECT_TRUE((*a)->used("k1", "run a", 4, "silu", 1.25, true));
    EXPECT_TRUE((*a)->used("k1", "run a", 4, "silu", 9.0, true));  // the same plan
    EXPECT_TRUE((*b)->used("k1", "run b", 4, "silu", 1.5, true));
    EXPECT_TRUE((*b)->used("k1", "run b", 5, "bmm", 0.9, false));
    EXPECT_TRUE((*b)->used("k9", "run b", 5, "bmm", 1.1, true));  // of no item
  }
  auto again = SharedMemory::open(path, clock);
  ASSERT_TRUE(again) << again.error().text();
  const auto items = (*again)->items("cpu");
  ASSERT_TRUE(items) << items.error().text();
  ASSERT_EQ(items->size(), 2u);
  EXPECT_EQ((*items)[0].text, "one");
  EXPECT_EQ((*items)[0].uses, 3);
  EXPECT_EQ((*items)[0].wins, 2);
  EXPECT_EQ((*items)[0].helped, (std::map<std::string, double>{{"silu", 1.5}}));
  EXPECT_EQ((*items)[1].uses, 0);
}

TEST(SharedMemory, OtherFilesAreRefused) {
  FakeClock clock;
  test::TempFolder folder("sculler_memory");
  const std::string path = folder.path() + "/notes.txt";
  ASSERT_TRUE(real_files().write_atomic(path, std::string(4096, 'x')));
  const auto other = SharedMemory::open(path, clock);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kVersion);
}

TEST(Store, MemoryItemsComeBackInOrder) {
  FakeClock clock;
  auto store = Store::open(":memory:", clock);
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->add_memory_item("slow_fast", 3, 4, "a"));
  ASSERT_TRUE((*store)->add_memory_item("fast_slow", 5, 4, "b"));
  std::string seen;
  ASSERT_TRUE((*store)->each_memory_item(
      [&](const std::string& kind, int64_t slow, int64_t fast, const std::string& text) {
        seen += kind + " " + std::to_string(slow) + " " + std::to_string(fast) + " " + text + "\n";
      }));
  EXPECT_EQ(seen, "slow_fast 3 4 a\nfast_slow 5 4 b\n");
}

}  // namespace
}  // namespace sculler::store
