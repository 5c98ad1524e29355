#include "llm/provider.h"

#include <gtest/gtest.h>

namespace sculler::llm {
namespace {

TEST(Provider, QuestionsHaveStableNames) {
  Request request;
  request.role = "mutator";
  request.index = 12;
  EXPECT_EQ(request.name(), "000012-mutator");
  request.step = 2;
  EXPECT_EQ(request.name(), "000012-mutator-2");
}

TEST(Provider, FaultsHaveNamesAndSomeEndTheRun) {
  for (std::size_t i = 0; i < kFaults; ++i) {
    EXPECT_NE(fault_name(static_cast<Fault>(i)), "unknown") << i;
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(fault_name(static_cast<Fault>(i)), fault_name(static_cast<Fault>(j)));
  }
  EXPECT_TRUE((Failure{Fault::kBudget, {}}.stops_run()));
  EXPECT_FALSE((Failure{Fault::kTimeout, {}}.stops_run()));
}

TEST(FakeProvider, AnswersCountsAndStops) {
  FakeProvider fake([](const Request& request) -> Reply {
    if (request.index == 1) return fault(Fault::kServer, "500");
    return Answer{.text = "yes", .prompt_tokens = 3, .answer_tokens = 1, .usd = 0.5};
  });
  Request request{.messages = {{"user", "well?"}}, .role = "judge"};
  const auto good = fake.ask(request);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->text, "yes");
  EXPECT_EQ(good->model, "fake");
  request.index = 1;
  const auto bad = fake.ask(request);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().fault, Fault::kServer);
  fake.stop();
  const auto late = fake.ask(request);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().fault, Fault::kCancelled);
  const auto usage = fake.usage();
  EXPECT_EQ(usage.asked, 2);
  EXPECT_EQ(usage.answered, 1);
  EXPECT_EQ(usage.in_flight, 0);
  EXPECT_EQ(usage.faults[static_cast<std::size_t>(Fault::kServer)], 1);
  EXPECT_DOUBLE_EQ(usage.usd, 0.5);
  EXPECT_EQ(fake.asked().size(), 2U);
}

}  // namespace
}  // namespace sculler::llm
