#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "search/evolve/evolve.h"
#include "search/evolve_world.h"
#include "search/run.h"

namespace sculler::search {
namespace {

TEST(EvolveSummary, OneAtATimeHoweverLongItTakes) {
  MemoryFiles files;
  FakeClock clock;
  RecordedProgress progress;
  ASSERT_TRUE(files.mkdirs("/spool"));
  ASSERT_TRUE(files.mkdirs("/run"));
  auto store = store::Store::open(":memory:", clock);
  ASSERT_TRUE(store);
  RunSettings settings;
  settings.frame.task = "/t";
  settings.frame.task_sha256 = "t";
  settings.frame.target = "emu";
  settings.frame.size = "emu";
  settings.frame.stages = search_stages("emu");
  settings.frame.n_ranks = 2;
  settings.budget = 43;
  settings.spool = "/spool";
  settings.stop_at_percent_sol = 0;
  settings.confirm = 0;
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
  std::vector<std::string> notes;
  AskingRun around;
  around.budget = settings.budget;
  around.calls = 8;
  around.note = [&](const std::string& text) { notes.push_back(text); };
  Evolve evolve(toy_seeds(), evolve_settings, around, slow, toy_brief(), **store);
  ASSERT_TRUE(evolve.restore());
  Log log(files, clock, "/run/log.jsonl");
  search::Run run(**store, files, clock, evaluator, evolve, progress, log, settings);
  const auto summary = run.execute({toy_baseline()});
  evolve.finish();
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(most, 1);
  EXPECT_GE(summaries, 2);
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.find("summary 1 by") != std::string::npos;
  }));
}

}  // namespace
}  // namespace sculler::search
