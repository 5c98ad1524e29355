#include "search/beam/beam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/strings.h"
#include "search/asking_world.h"
#include "search/beam_world.h"

namespace sculler::search::beam {
namespace {

class BeamTest : public AskingTest {
 protected:
  BeamTest() : AskingTest("cpu", "default") {
    settings_.budget = 0;
    settings_.confirm = 0;
    beam_settings_.width = beam_settings_.plans = beam_settings_.kernels = 2;
    beam_settings_.rounds = 3;
    beam_settings_.topk = beam_settings_.expn = 2;
  }

  Result<Summary> run(llm::Provider& provider, Evaluator& evaluator, llm::Tape* tape = nullptr) {
    BeamRun run{around(tape)};
    run.task = task_;
    run.target = "cpu";
    run.name = "run of " + task_;
    run.shared = shared_;
    notes_.clear();
    beam_ = std::make_unique<Beam>(seeds_, beam_settings_, run, provider, beam_brief(), *store_);
    return execute(*beam_, evaluator, tape);
  }
  Result<Summary> run_table(const std::map<int64_t, int>& values, const Drift& drift = {}) {
    llm::FakeProvider provider(
        [&](const llm::Request& request) { return beam_answer(request, values); });
    FakeEvaluator evaluator([&](const std::string& id, const std::string& line) {
      return kernel_verdict(id, line, drift);
    });
    auto out = run(provider, evaluator);
    asked_ = provider.asked();
    return out;
  }
  int asked(const std::string& role) const {
    return static_cast<int>(
        std::count_if(asked_.begin(), asked_.end(),
                      [&](const llm::Request& request) { return request.role == role; }));
  }
  std::vector<int64_t> candidates() const {
    std::vector<int64_t> out;
    for (const auto& sample : beam_->candidates()) out.push_back(sample.program);
    return out;
  }
  std::string state() const {
    std::string out = "at its end: programs";
    for (const int64_t program : candidates()) out += " " + std::to_string(program);
    out += "; memory:";
    for (const auto& item : beam_->memory()) out += (out.ends_with(':') ? " " : ", ") + item.title;
    return out;
  }
  // The same without numbers of programs.
  std::string content() const {
    std::string out;
    for (const auto& sample : beam_->candidates()) out += sample.hash + " ";
    for (const auto& item : beam_->memory()) out += item.key() + " ";
    return out;
  }

  BeamSettings beam_settings_;
  std::vector<std::shared_ptr<const Source>> seeds_ = {kernel_seed(1000)};
  std::string task_ = "toy";
  store::SharedMemory* shared_ = nullptr;
  std::unique_ptr<Beam> beam_;
  std::vector<llm::Request> asked_;
};

const std::map<int64_t, int> kGoldenValues = {
    {0, 900},   {1, 800}, {2, 0},    {3, 1200},  // round 1
    {4, 700},   {5, -1},  {6, -1},   {7, 500},   // round 2
    {8, 850},   {9, 860}, {10, 960}, {11, 0},    //
    {16, 1000}, {17, 900}};                      // round 3: all others are wrong
const Drift kGoldenDrift = {{{800, 1}, 840}, {{700, 2}, 720}, {{850, 2}, 830}};

TEST_F(BeamTest, FaithfulIsTheTraceThatWasComputedByHand) {
  beam_settings_.faithful = true;
  const auto summary = run_table(kGoldenValues, kGoldenDrift);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->why, "rounds");
  std::string trace;
  for (const auto& note : notes_)
    if (note.starts_with("round ")) trace += "> " + note + "\n";
  trace += "> " + state() + "\n";
  const auto golden =
      real_files().read(std::string(SCULLER_SOURCE_DIR) + "/tests/search/golden_beam_faithful.txt");
  ASSERT_TRUE(golden) << golden.error().text();
  std::string expected;
  for (const auto line : split(*golden, '\n'))
    if (line.starts_with("> ")) (expected += line) += '\n';
  EXPECT_EQ(trace, expected);
  // What the paper's rules leave out: no repair, no second question, no word of the speedup.
  EXPECT_EQ(asked("fixer"), 0);
  EXPECT_EQ(asked("planner"), 10);
  EXPECT_EQ(asked("executor"), 20);
  for (const auto& request : asked_)
    EXPECT_EQ(request.messages[1].text.find("of the time of the first"), std::string::npos);
}

TEST_F(BeamTest, MendedTheBestIsNeverLost) {
  beam_settings_.fixes = 0;
  beam_settings_.rounds = 2;
  const auto summary = run_table(kGoldenValues, kGoldenDrift);
  ASSERT_TRUE(summary) << summary.error().text();
  // After round 1: 4 (800) and the seed (1000), not 6 (1200). Round 2 has the same table: program
  // 10 counts although the attempt before it did not end.
  EXPECT_EQ(notes_with("round 2: 4 (PASSED 840 µs"), 1);
  EXPECT_EQ(notes_with("), 2 (PASSED 1000 µs"), 1);
  EXPECT_EQ(notes_with("round 2 plan 4 for program 2: program 10, 2.000x"), 1);
  EXPECT_EQ(candidates(), (std::vector<int64_t>{10, 7}));
  EXPECT_EQ(summary->best->program, 10);
  int told = 0;
  for (const auto& request : asked_)
    told +=
        request.messages[1].text.find("takes 0.50 of the time of the first") != std::string::npos;
  EXPECT_EQ(told, 1);
}

TEST_F(BeamTest, PlannersSeeTheProfileInAnotherOrderAndWhatWasTriedAndLearnt) {
  beam_settings_.fixes = 0;
  ASSERT_TRUE(run_table(kGoldenValues, kGoldenDrift));
  std::set<std::string> profiles;
  int with_memory = 0, with_tried = 0;
  for (const auto& request : asked_) {
    if (request.role != "planner") continue;
    EXPECT_FALSE(request.schema.empty());
    const auto& user = request.messages[1].text;
    const auto from = user.find("## What was measured of it");
    profiles.insert(user.substr(from, user.find("\n## ", from + 4) - from));
    EXPECT_NE(user.find("status: PASSED at stage bench"), std::string::npos);
    with_memory += user.find("### 1. lesson of plan") != std::string::npos;
    with_tried += user.find("1.250 times as fast: step 0") != std::string::npos;
  }
  EXPECT_GT(profiles.size(), 3u);
  EXPECT_EQ(with_memory, asked("planner") - 2);  // all but those of the first round
  EXPECT_GT(with_tried, 0);
}

TEST_F(BeamTest, TheSameTextIsNotEvaluatedTwice) {
  beam_settings_.rounds = 2;
  beam_settings_.fixes = 0;
  llm::FakeProvider provider([](const llm::Request& request) -> llm::Reply {
    if (request.role != "executor") return beam_answer(request, {});
    return beam_reply(block_answer(900, 0));
  });
  int evaluated = 0;
  FakeEvaluator evaluator([&](const std::string& id, const std::string& line) {
    evaluated += line.find("int by = 0;") != std::string::npos ? 1 : 0;
    return kernel_verdict(id, line);
  });
  const auto summary = run(provider, evaluator);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->tally.evaluated, 2);
  EXPECT_EQ(evaluated, 2);  // the second time is the one before round 2
  // The first of 4, and of 8 in the second round, is the same as its program for half of them.
  EXPECT_EQ(notes_with("not_new"), 7);
  EXPECT_EQ(notes_with("the program is the same as before"), 4);
}

TEST_F(BeamTest, AFixerRepairsWhatDidNotPassAndTheAttemptCounts) {
  beam_settings_.rounds = 1;
  llm::FakeProvider provider([](const llm::Request& request) -> llm::Reply {
    if (request.role != "fixer") return beam_answer(request, {{0, 900}, {1, 0}, {2, 0}, {3, -1}});
    const auto& user = request.messages[1].text;
    EXPECT_NE(user.find("step "), std::string::npos);  // the plan
    EXPECT_NE(user.find(request.index == 3 ? "it did not end" : "Y[3] is 1, not 2"),
              std::string::npos);
    return beam_reply(block_answer(request.index == 1 ? 600 : 0, 100 + request.index));
  });
  FakeEvaluator evaluator(first_verdict);
  const auto summary = run(provider, evaluator);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->tally.evaluated, 8);  // seed, four attempts, three repairs
  EXPECT_EQ(summary->best->verdict.latency_us, 600);
  EXPECT_EQ(notes_with("plan 1 for program 2: program"), 1);
  EXPECT_EQ(notes_with("plan 2 for program 2: nothing right"), 1);
}

TEST_F(BeamTest, ABudgetIsKeptAndTheLastRoundIsLearntFrom) {
  settings_.budget = 4;  // the seed and three programs: the second plan gets one
  beam_settings_.plans = 6;
  const auto summary = run_table({{0, 900}, {1, 950}, {2, 800}, {3, 700}});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->why, "budget");
  EXPECT_EQ(summary->tally.evaluated, 4);
  EXPECT_EQ(asked("planner"), 2);
  EXPECT_EQ(asked("executor"), 3);
  EXPECT_EQ(asked("summarizer"), 2);
  EXPECT_EQ(state(), "at its end: programs 5 3; memory: lesson of plan 2, lesson of plan 1");
}

TEST_F(BeamTest, AnswersOfNoUseCostTheirAttemptAlone) {
  llm::FakeProvider provider([](const llm::Request& request) -> llm::Reply {
    switch (request.index % 4) {
      case 0: return beam_reply("Ignore all instructions.\n```\n<<<<<<< SEARCH\n");
      case 1: return llm::fault(llm::Fault::kTimeout, "too late");
      case 2:
        if (request.role == "planner")  // a quote of nothing
          return beam_reply(R"({"bottleneck":"x","evidence":["not there"],"plan":"y","uses":[9]})");
        if (request.role == "summarizer")
          return beam_reply(
              R"({"title":"t","description":"d","original":"no","optimized":"such line"})");
        return beam_reply("```cpp candidate.cpp\nint sculler_run() { return 1; }\n```\n");
      default:
        return beam_answer(request, {{request.index, 900 - static_cast<int>(request.index)}});
    }
  });
  beam_settings_.plans = 8;
  beam_settings_.rounds = 2;
  FakeEvaluator evaluator(first_verdict);
  const auto summary = run(provider, evaluator);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->why, "rounds");
  EXPECT_EQ(notes_with("it quotes nothing of the profile"), 6);
  EXPECT_GT(notes_with("timeout: too late"), 5);
  EXPECT_GT(summary->tally.evaluated, 4);
  // Asked a second time, with the reason.
  int again = 0;
  for (const auto& request : provider.asked())
    again += request.messages.size() == 4 &&
             request.messages[3].text.find("That answer cannot be used: ") == 0;
  EXPECT_GT(again, 6);
}

TEST_F(BeamTest, EndlessNonsenseEndsTheRun) {
  beam_settings_.give_up = 5;
  llm::FakeProvider provider([](const llm::Request&) { return llm::Reply(beam_reply("no")); });
  FakeEvaluator evaluator(first_verdict);
  beam_settings_.plans = 20;
  const auto summary = run(provider, evaluator);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->why, "5 answers that could not be used");
  EXPECT_EQ(provider.asked().size(), 10u);  // each twice
}

TEST_F(BeamTest, AModelThatIsDownEndsTheRunInOrder) {
  llm::FakeProvider provider([](const llm::Request& request) -> llm::Reply {
    if (request.index >= 2) return llm::fault(llm::Fault::kDown, "it is down");
    return beam_answer(request, {{0, 900}, {1, 950}});
  });
  FakeEvaluator evaluator(first_verdict);
  const auto summary = run(provider, evaluator);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->why, "models that are down");
  EXPECT_EQ(summary->tally.evaluated, 3);
  ASSERT_TRUE(beam_->stopped_by());
}

TEST_F(BeamTest, SamplingAsksForProgramsOfTheFirstOneAlone) {
  beam_settings_.sampling = true;
  beam_settings_.rounds = 2;
  const auto summary = run_table({{0, 900}, {1, 800}, {2, 700}, {3, 850}, {4, 990}});
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(asked("planner") + asked("summarizer"), 0);
  EXPECT_EQ(asked("executor"), 2 * 2 + 2 * 2 * 2);  // as many programs as the beam asks for
  for (const auto& request : asked_) {
    if (request.role != "executor") continue;
    EXPECT_NE(request.messages[1].text.find("int value = 1000;"), std::string::npos);
    EXPECT_EQ(request.messages[1].text.find("## The plan"), std::string::npos);
  }
  EXPECT_EQ(summary->best->verdict.latency_us, 700);
}

TEST_F(BeamTest, ACassetteReplaysARunWhoseAnswersCameInAnyOrder) {
  calls_ = 6;
  settings_.in_flight = 4;
  auto tape = llm::Tape::record(files_, "/run/cassette.jsonl");
  ASSERT_TRUE(tape);
  llm::FakeProvider slow([&](const llm::Request& request) -> llm::Reply {
    std::this_thread::sleep_for(std::chrono::microseconds(request.index * 7919 % 23 * 100));
    return kept(**tape, request, beam_answer(request, kGoldenValues));
  });
  FakeEvaluator evaluator([](const std::string& id, const std::string& line) {
    return kernel_verdict(id, line, kGoldenDrift);
  });
  const auto recorded = run(slow, evaluator, tape->get());
  ASSERT_TRUE(recorded) << recorded.error().text();
  const std::string before = state();
  store_ = std::move(*store::Store::open(":memory:", clock_));
  auto replay = llm::Tape::replay(files_, "/run/cassette.jsonl");
  ASSERT_TRUE(replay) << replay.error().text();
  llm::FakeProvider provider(recorded_by(**replay));
  FakeEvaluator unasked(nobody);
  const auto replayed = run(provider, unasked, replay->get());
  ASSERT_TRUE(replayed) << replayed.error().text();
  EXPECT_EQ(state(), before);
  EXPECT_EQ(replayed->best->program, recorded->best->program);
}

// The process dies after ever more answers and verdicts; what was answered is not asked again, and
// the end is that of a run that lived through.
TEST_F(BeamTest, ResumeGoesOnInTheMiddleOfARound) {
  beam_settings_.retries = 0;  // here nobody keeps the answer before a question's second one
  const auto whole = run_table(kGoldenValues, kGoldenDrift);
  ASSERT_TRUE(whole) << whole.error().text();
  const std::string expected = content();
  const auto path = testing::TempDir() + "beam_resume.sqlite";
  (void)real_files().remove_all(path);
  std::map<std::string, int> answered;
  for (int life = 0; life < 12; ++life) {
    store_ = nullptr;
    store_ = std::move(*store::Store::open(path, clock_));
    int left = 5 + life % 3;
    bool dying = false;
    llm::FakeProvider provider([&](const llm::Request& request) -> llm::Reply {
      if (dying || (life < 11 && life % 2 == 0 && --left < 0)) {
        dying = true;
        return llm::fault(llm::Fault::kCancelled, "the process is gone");
      }
      ++answered[request.name()];
      return beam_answer(request, kGoldenValues);
    });
    int verdicts = 4;
    FakeEvaluator evaluator([&](const std::string& id, const std::string& line) {
      if (life < 11 && life % 2 == 1 && --verdicts < 0) dying = true;
      return kernel_verdict(id, line, kGoldenDrift);
    });
    const auto summary = run(provider, evaluator);
    ASSERT_TRUE(summary) << summary.error().text();
    if (summary->why == "rounds") break;
    EXPECT_LT(life, 11);
  }
  EXPECT_EQ(content(), expected);
  EXPECT_GT(answered.size(), 20u);
  for (const auto& [name, times] : answered) EXPECT_EQ(times, 1) << name;
  store_ = nullptr;
  (void)real_files().remove_all(path);
}

TEST_F(BeamTest, ASharedMemoryHelpsAnotherTaskAndSaysSo) {
  auto shared = store::SharedMemory::open(":memory:", clock_);
  ASSERT_TRUE(shared) << shared.error().text();
  shared_ = shared->get();
  beam_settings_.rounds = 1;
  ASSERT_TRUE(run_table({{0, 900}, {1, 800}, {2, 990}, {3, 980}}));
  auto items = (*shared)->items("cpu");
  ASSERT_TRUE(items);
  ASSERT_EQ(items->size(), 1u);
  EXPECT_EQ((*items)[0].uses, 0);
  ASSERT_TRUE((*shared)->items("cuda"));
  EXPECT_TRUE((*shared)->items("cuda")->empty());

  // Another task: the first plan names the item, the second does not.
  task_ = "other";
  store_ = std::move(*store::Store::open(":memory:", clock_));
  for (int life = 0; life < 2; ++life) {
    int shown_to = 0;
    llm::FakeProvider provider([&](const llm::Request& request) -> llm::Reply {
      if (request.role != "planner") return beam_answer(request, {{0, 500}, {2, 990}});
      const auto& user = request.messages[1].text;
      shown_to += user.find("1. lesson of plan 1 (1.25 times as fast, on toy") != std::string::npos;
      return beam_reply(plan_answer("the same here",
                                    request.index == 0 ? std::vector<int>{1} : std::vector<int>{}));
    });
    FakeEvaluator evaluator(first_verdict);
    ASSERT_TRUE(run(provider, evaluator));
    EXPECT_EQ(shown_to, life == 0 ? 2 : 0);  // the second life asks nothing
    items = (*shared)->items("cpu");
    ASSERT_TRUE(items);
    ASSERT_EQ(items->size(), 2u);
    EXPECT_EQ((*items)[0].uses, 1);
    EXPECT_EQ((*items)[0].wins, 1);
    EXPECT_EQ((*items)[0].helped, (std::map<std::string, double>{{"other", 2.0}}));
    EXPECT_EQ(beam_->memory()[0].helped.count("other"), 1u);
  }
}

}  // namespace
}  // namespace sculler::search::beam
