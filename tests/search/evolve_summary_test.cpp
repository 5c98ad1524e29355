#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "search/asking_world.h"
#include "search/evolve/evolve.h"

namespace sculler::search {
namespace {

class EvolveSummary : public AskingTest {
 protected:
  EvolveSummary() : AskingTest("emu", "emu") {
    settings_.frame.n_ranks = 2;
    settings_.budget = 43;
    settings_.confirm = 0;
    calls_ = 8;
  }
};

TEST_F(EvolveSummary, OneAtATimeHoweverLongItTakes) {
  EvolveSettings evolve_settings;
  evolve_settings.summary_every = 2;
  evolve_settings.directive_first = false;

  std::mutex mutex;
  std::condition_variable written;
  int programs = 0, open = 0, most = 0, summaries = 0;
  llm::FakeProvider slow([&](const llm::Request& request) -> llm::Reply {
    std::unique_lock lock(mutex);
    if (request.role == "meta") {
      ++summaries;
      most = std::max(most, ++open);
      // As long as it takes to write what the next five would sum up.
      const int until = programs + 10;
      written.wait_for(lock, std::chrono::milliseconds(500), [&] { return programs >= until; });
      --open;
    } else {
      ++programs;
      written.notify_all();
    }
    return toy_answer(request);
  });
  FakeEvaluator evaluator(toy_verdict);
  Evolve evolve(toy_seeds(), evolve_settings, around(), slow, toy_brief(), *store_);
  const auto summary = execute(evolve, evaluator);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(most, 1);
  EXPECT_GE(summaries, 2);
  EXPECT_GE(notes_with("summary 1 by"), 1);
}

}  // namespace
}  // namespace sculler::search
