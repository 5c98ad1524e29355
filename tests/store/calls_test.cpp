#include "store/calls.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "store/store.h"
#include "support/temp_folder.h"

namespace sculler::store {
namespace {

class CallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = Store::open(path(), clock_);
    ASSERT_TRUE(store) << store.error().text();
    store_ = std::move(*store);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/store.sqlite"; }
  std::unique_ptr<Calls> open() {
    auto calls = Calls::open(path(), clock_);
    EXPECT_TRUE(calls) << calls.error().text();
    return calls ? std::move(*calls) : nullptr;
  }
  static LlmCall call(const std::string& question, const std::string& answer,
                      const std::string& outcome = "ok") {
    return {"mutator", "m", question, 10, 5, 0.25, "prompt", std::string(64, 'a'), answer, outcome};
  }
  FakeClock clock_;
  test::TempFolder temporary_{"sculler_calls"};
  const std::string folder_ = temporary_.path();
  std::unique_ptr<Store> store_;
};

TEST_F(CallsTest, KeepsFindsAndSums) {
  {
    auto calls = open();
    ASSERT_TRUE(calls->add(call("000000-mutator", "bad", "half")));
    ASSERT_TRUE(calls->add(call("000000-mutator", "first")));
    ASSERT_TRUE(calls->add(call("000001-mutator", std::string("n\0l", 3))));
    ASSERT_TRUE(calls->add_reward("m", 0.5));
    ASSERT_TRUE(calls->add_reward("gone", 0.25));
  }
  auto calls = open();
  const auto found = calls->find("000000-mutator", std::string(64, 'a'));
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->answer, "first");
  EXPECT_EQ((*found)->t, clock_.wall_ms());
  EXPECT_FALSE(*calls->find("000000-mutator", std::string(64, 'b')));
  EXPECT_FALSE(*calls->find("000009-mutator", std::string(64, 'a')));
  const auto totals = calls->totals();
  ASSERT_TRUE(totals);
  ASSERT_EQ(totals->size(), 2U);
  EXPECT_EQ((*totals)[0].model, "gone");
  EXPECT_EQ((*totals)[0].rewards, 1);
  EXPECT_EQ((*totals)[1].calls, 3);
  EXPECT_EQ((*totals)[1].prompt_tokens, 30);
  EXPECT_DOUBLE_EQ((*totals)[1].usd, 0.75);
  EXPECT_DOUBLE_EQ((*totals)[1].worth, 0.5);
  std::vector<std::string> outcomes;
  ASSERT_TRUE(calls->each([&](const LlmCall& one) { outcomes.push_back(one.outcome); }));
  EXPECT_EQ(outcomes, (std::vector<std::string>{"half", "ok", "ok"}));
}

TEST_F(CallsTest, ManyThreadsBesideTheStore) {
  auto calls = open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        ASSERT_TRUE(calls->add(call(std::to_string(t) + "-" + std::to_string(i), "x")));
    });
  }
  for (int i = 0; i < 100; ++i) {
    auto transaction = store_->begin();
    ASSERT_TRUE(transaction);
    ASSERT_TRUE(store_->add_event("k", "{}"));
    ASSERT_TRUE(transaction->commit());
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(calls->totals()->at(0).calls, 400);
  EXPECT_EQ(store_->counts()->events, 100);
}

TEST_F(CallsTest, AKilledProcessLosesNoCallThatReturned) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto calls = Calls::open(path(), clock_);
    if (!calls) _exit(1);
    for (int i = 0; i < 1'000'000; ++i) {
      if (!(*calls)->add(call(std::to_string(i), "x"))) _exit(2);
      if (write(ends[1], "x", 1) != 1) _exit(3);
    }
    _exit(0);
  }
  int64_t returned = 0;
  char chunk[64];
  while (returned < 200) returned += read(ends[0], chunk, sizeof chunk);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ends[1]);
  for (ssize_t n = 0; (n = read(ends[0], chunk, sizeof chunk)) > 0;) returned += n;
  close(ends[0]);
  EXPECT_GE(open()->totals()->at(0).calls, returned);
}

}  // namespace
}  // namespace sculler::store
