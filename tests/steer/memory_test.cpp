// Memory a row, as docs/steer.md states it: what bytes() says is below the statement, and it is
// what the allocator has handed out.
#include <gtest/gtest.h>
#include <malloc.h>

#include "steer/buffer.h"

namespace {

using namespace sculler::steer;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounted = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kCounted = false;
#else
constexpr bool kCounted = true;
#endif
#else
constexpr bool kCounted = true;
#endif

double allocated() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

struct Stated {
  const char* policy;
  double a_row, a_tracked;  // bytes: a row of the capacity, an id whose count is kept
};

TEST(Memory, IsWhatTheDocumentationStates) {
  constexpr Stated kStated[] = {{"none", 34, 0},    {"lru", 46, 0},       {"lfu", 44, 0},
                                {"clock", 35, 0},   {"sieve", 43, 0},     {"s3fifo", 70, 0},
                                {"free", 36, 43},   {"rudder:2", 92, 43}, {"massivegnn:8", 92, 43},
                                {"known:2", 92, 43}};
  // Few enough rows that no array is on huge pages. Fixed: the levels of counts.
  constexpr double kFixed = 150e3;
  constexpr uint64_t kCapacity = 40'000;
  for (const Stated& stated : kStated) {
    SCOPED_TRACE(stated.policy);
    std::vector<uint64_t> ids(kCapacity / 4);
    BufferSettings settings;
    settings.capacity = kCapacity;
    settings.policy = stated.policy;
    const double before = allocated();
    auto made = Buffer::make(settings);
    ASSERT_TRUE(made);
    Buffer& buffer = **made;
    const auto batch = [&](uint64_t b) {
      for (uint64_t i = 0; i < ids.size(); ++i) ids[i] = (b * ids.size() + i) % (2 * kCapacity);
    };
    for (uint64_t b = 0; b < 12; ++b) {
      batch(b + 1);
      ASSERT_TRUE(buffer.schedule(ids));
      batch(b);
      ASSERT_TRUE(buffer.minibatch(ids));
    }
    const auto bytes = static_cast<double>(buffer.bytes());
    EXPECT_LE(bytes, stated.a_row * kCapacity + stated.a_tracked * 2 * kCapacity + kFixed);
    EXPECT_GE(bytes, 33.0 * kCapacity);
    if (kCounted) {
      const auto plan = static_cast<double>(buffer.plan_bytes());
      EXPECT_NEAR(allocated() - before, bytes + plan, 0.03 * bytes);
    }
  }
}

}  // namespace
