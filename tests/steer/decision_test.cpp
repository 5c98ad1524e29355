// Answers, contexts, makers and the controller: hostile answers, stale decisions, slow models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>

#include "steer/controller.h"
#include "steer/traces.h"

namespace {

using namespace sculler;
using namespace sculler::steer;

constexpr const char* kGood =
    R"({"replace":true,"explanation":"stale rows","expected_impact":{"hitrate":"increase","comm_volume":"stagnant"}})";

std::string with(const std::string& member) {
  std::string text = kGood;
  return text.insert(1, member + ",");
}

TEST(Answers, AreReadFromTheTextAroundThem) {
  for (const std::string& text :
       {std::string(kGood), "Sure!\n```json\n" + std::string(kGood) + "\n```\nI hope it helps. {",
        "\n\t " + std::string(kGood)}) {
    const auto d = parse_answer(text);
    ASSERT_TRUE(d) << d.error().text();
    EXPECT_TRUE(d->replace);
    EXPECT_EQ(d->hit_rate, Direction::kIncrease);
    EXPECT_EQ(d->communication, Direction::kStagnant);
    EXPECT_EQ(d->explanation, "stale rows");
    EXPECT_FALSE(d->rows || d->decay || d->buffer || !d->policy.empty());
  }
  const auto all = parse_answer(with(R"("rows":50,"decay":0.5,"buffer":0.25,"policy":"free:0.9")"));
  ASSERT_TRUE(all) << all.error().text();
  EXPECT_EQ(all->rows, 50U);
  EXPECT_EQ(all->decay, 0.5);
  EXPECT_EQ(all->buffer, 0.25);
  EXPECT_EQ(all->policy, "free:0.9");
}

TEST(Answers, ThatBreakTheSchemaAreRefusedWithTheMember) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "no JSON"},
      {"yes, replace", "no JSON"},
      {"{\"replace\": true", "does not end"},
      {"{replace: yes}", ""},
      {"{}", "replace"},
      {R"({"replace":"yes"})", "replace"},
      {with(R"("evict":true)"), "evict"},
      {with(R"("rows":0)"), "rows"},
      {with(R"("rows":-1)"), "rows"},
      {with(R"("rows":1.5)"), "rows"},
      {with(R"("rows":1e30)"), "rows"},
      {with(R"("rows":18446744073709551615)"), "rows"},
      {with(R"("decay":0)"), "decay"},
      {with(R"("decay":1.01)"), "decay"},
      {with(R"("decay":"0.9")"), "decay"},
      {with(R"("buffer":-0.1)"), "buffer"},
      {with(R"("buffer":2)"), "buffer"},
      {with(R"("policy":"magic")"), "policy"},
      {with(R"("policy":"belady")"), "training"},
      {with(R"("policy":["free"])"), "policy"},
      {with("\"policy\":\"" + std::string(1000, 'x') + "\""), "policy"},
      {R"({"replace":true,"explanation":7,"expected_impact":{}})", "explanation"},
      {R"({"replace":true,"explanation":"x"})", "expected_impact"},
      {R"({"replace":true,"explanation":"x","expected_impact":{"hitrate":"up","comm_volume":"stagnant"}})",
       "hitrate"},
      {R"({"replace":true,"explanation":"x","expected_impact":{"hitrate":"increase"}})",
       "comm_volume"},
      {std::string(100'000, '{'), "longer"},
      {"{\"replace\":" + std::string(100, '[') + std::string(100, ']') + "}", ""},
  };
  for (const auto& [text, says] : cases) {
    const auto d = parse_answer(text);
    ASSERT_FALSE(d) << text.substr(0, 80);
    EXPECT_EQ(d.error().code, ErrorCode::kModel);
    EXPECT_THAT(d.error().text(), testing::HasSubstr(says)) << text.substr(0, 80);
    EXPECT_LT(d.error().text().size(), 600U);
  }
}

TEST(Answers, ExplanationsCannotDriveATerminalOrGrow) {
  const std::string text =
      R"({"replace":false,"explanation":")" + std::string(2000, 'a') +
      R"(\u001b[2J","expected_impact":{"hitrate":"stagnant","comm_volume":"stagnant"}})";
  const auto d = parse_answer(text);
  ASSERT_TRUE(d);
  EXPECT_LE(d->explanation.size(), Decision::kMaxExplanation + 4);
  EXPECT_EQ(d->explanation.find('\x1b'), std::string::npos);
}

TEST(Answers, TheSchemaIsTheOneOfTheDocumentation) {
  const auto schema = nlohmann::json::parse(answer_schema());
  std::ifstream in(std::string(SCULLER_SOURCE_DIR) + "/docs/steer-answer.schema.json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(nlohmann::json::parse(text), schema);
}

std::unique_ptr<Buffer> make(const std::string& policy, uint64_t capacity, uint64_t window) {
  BufferSettings settings;
  settings.policy = policy;
  settings.capacity = capacity;
  settings.window = window;
  auto made = Buffer::make(settings);
  if (!made) throw std::runtime_error(made.error().text());
  return std::move(*made);
}

TEST(Contexts, HaveTheTextOfTheGoldenFile) {
  auto buffer = make("rudder", 100, 4);
  for (const auto& ids : test::random_trace(9, 12, 40, 200)) {
    buffer->replace();
    ASSERT_TRUE(buffer->minibatch(ids));
  }
  ASSERT_TRUE(buffer->set_knobs({0.9, 50}));
  History history(5, 4);
  Decision d = *parse_answer(kGood);
  Counts before{4, 400, 200, 210, 10, 0, 0}, after{4, 400, 280, 130, 10, 0, 0};
  history.applied(d, 4, before);
  history.settle(8, after);
  d = Decision();
  d.decay = 0.98;
  d.buffer = 0.5;
  history.applied(d, 9, after);
  RunFacts facts{"products, 4 parts", 2'449'029, 61'859'140, 350'000, 10, 96};
  const std::string text = context_text(facts, situation_of(*buffer, 2), history.outcomes());
  const std::string path = std::string(SCULLER_SOURCE_DIR) + "/tests/steer/context.golden.txt";
  std::ifstream in(path);
  const std::string golden{std::istreambuf_iterator<char>(in), {}};
  if (text != golden) {
    const std::string now = std::string(SCULLER_BINARY_DIR) + "/context.txt";
    std::ofstream(now) << text;
    FAIL() << path << " differs from " << now;
  }
}

TEST(Contexts, SayNothingOfWhatNobodyKnows) {
  auto buffer = make("free", 0, 4);
  const std::string text = context_text({}, situation_of(*buffer, 0), {});
  EXPECT_EQ(text.find("graph:"), std::string::npos);
  EXPECT_EQ(text.find("left"), std::string::npos);
  EXPECT_THAT(text, testing::HasSubstr("none yet"));
  EXPECT_EQ(text.find("nan "), std::string::npos);
}

TEST(Histories, SettleAfterAWindowAndScoreWhatWasSaid) {
  History history(2, 10);
  const Counts low{10, 100, 50, 50, 0, 0, 0}, high{10, 100, 60, 40, 0, 0, 0};
  Decision up, still, silent;
  up.hit_rate = Direction::kIncrease;
  still.hit_rate = Direction::kStagnant;
  history.applied(up, 0, low);
  history.settle(9, high);
  EXPECT_FALSE(history.outcomes().back().settled);
  history.settle(10, high);
  ASSERT_TRUE(history.outcomes().back().settled);
  EXPECT_NEAR(history.outcomes().back().hit_rate_change, 0.1, 1e-12);
  EXPECT_NEAR(history.outcomes().back().communication_change, -0.1, 1e-12);
  history.applied(up, 11, high);      // came: nothing
  history.applied(still, 14, high);   // after three minibatches: settled by the next decision
  history.applied(silent, 15, high);  // after one: `still` never gets an outcome
  history.settle(100, low);
  EXPECT_EQ(history.pass_at_1().decisions, 2U);
  EXPECT_EQ(history.pass_at_1().right, 1U);
  EXPECT_EQ(history.pass_at_1().stagnant, 1U);
  EXPECT_EQ(history.outcomes().size(), 2U);
}

// Runs the job when told to, so that a slow model is tested without time.
class ManualRunner final : public Runner {
 public:
  void start(std::function<void()> job) override { job_ = std::move(job); }
  bool idle() override { return !job_; }
  void wait(int64_t ms) override {
    waited.push_back(ms);
    if (ms < 0 || answers_in_time) finish();
  }
  void finish() {
    if (job_) std::exchange(job_, nullptr)();
  }
  std::vector<int64_t> waited;
  bool answers_in_time = false;

 private:
  std::function<void()> job_;
};

struct Loop {
  explicit Loop(ControllerSettings settings, AskText ask, const std::string& policy = "rudder")
      : buffer(make(policy, 20, 4)) {
    auto own = std::make_unique<ManualRunner>();
    runner = own.get();
    settings.window = 4;
    controller =
        std::make_unique<Controller>(make_asking(std::move(ask)), settings, std::move(own), clock);
  }
  void minibatch() {
    controller->step(*buffer, 0);
    const std::vector<uint64_t> ids = {next, next + 1, next + 2};
    ASSERT_TRUE(buffer->minibatch(ids));
    next += 2;
  }
  FakeClock clock;
  std::unique_ptr<Buffer> buffer;
  std::unique_ptr<Controller> controller;
  ManualRunner* runner;
  uint64_t next = 0;
};

TEST(Controllers, AsyncNeverWaitsAndAppliesWhatIsThere) {
  Loop loop({.mode = Mode::kAsync}, [](const std::string&) { return with(R"("buffer":0.5)"); });
  loop.minibatch();
  loop.minibatch();  // asks
  loop.minibatch();
  EXPECT_EQ(loop.controller->counts().asked, 1U) << "one question at a time";
  EXPECT_EQ(loop.controller->counts().applied, 0U);
  loop.runner->finish();
  loop.minibatch();
  EXPECT_EQ(loop.controller->counts().applied, 1U);
  EXPECT_EQ(loop.controller->counts().asked, 2U);
  EXPECT_EQ(loop.buffer->limit(), 10U);
  EXPECT_GT(loop.buffer->used(), 0U) << "the replacement filled it";
  EXPECT_TRUE(loop.runner->waited.empty());
}

TEST(Controllers, StaleDecisionsExpire) {
  Loop loop({.mode = Mode::kAsync, .expire = 3},
            [](const std::string&) { return std::string(kGood); });
  loop.minibatch();
  loop.minibatch();  // asks after 1
  for (int i = 0; i < 3; ++i) loop.minibatch();
  loop.runner->finish();
  loop.minibatch();  // 5 done: 4 later
  EXPECT_EQ(loop.controller->counts().expired, 1U);
  EXPECT_EQ(loop.controller->counts().applied, 0U);
  EXPECT_EQ(loop.buffer->used(), 0U);
}

TEST(Controllers, SyncWaitsForEveryAnswer) {
  Loop loop({.mode = Mode::kSync, .every = 2},
            [](const std::string&) { return std::string(kGood); });
  for (int i = 0; i < 7; ++i) loop.minibatch();
  EXPECT_EQ(loop.controller->counts().asked, 3U);
  EXPECT_EQ(loop.controller->counts().applied, 3U);
  EXPECT_THAT(loop.runner->waited, testing::Each(-1));
}

TEST(Controllers, DeadlineWaitsABoundedTimeAndTakesLateAnswersLater) {
  Loop loop({.mode = Mode::kDeadline, .deadline_ms = 7},
            [](const std::string&) { return std::string(kGood); });
  loop.minibatch();
  loop.minibatch();  // asks, waits, goes on
  EXPECT_EQ(loop.runner->waited, std::vector<int64_t>{7});
  EXPECT_EQ(loop.controller->counts().applied, 0U);
  loop.runner->finish();
  loop.runner->answers_in_time = true;
  loop.minibatch();
  EXPECT_EQ(loop.controller->counts().applied, 2U) << "the late one and the one in time";
}

TEST(Controllers, LyingModelsChangeNothing) {
  int n = 0;
  Loop loop({.mode = Mode::kSync}, [&](const std::string&) -> Result<std::string> {
    switch (n++ % 4) {
      case 0: return fail(ErrorCode::kModel, "the server is down");
      case 2: throw std::runtime_error("thrown by a caller");
      case 1: return std::string("Yes! Evict everything!");
      default: return with(R"("policy":"rm -rf")");
    }
  });
  for (int i = 0; i < 10; ++i) loop.minibatch();
  EXPECT_EQ(loop.controller->counts().invalid, 9U);
  EXPECT_EQ(loop.controller->counts().applied, 0U);
  EXPECT_EQ(loop.buffer->policy(), "rudder");
  EXPECT_EQ(loop.buffer->used(), 0U);
  EXPECT_FALSE(loop.controller->last_fault().empty());
}

TEST(Controllers, DecisionsReachTheBufferAndTheContextShowsThem) {
  std::string seen;
  Loop loop({.mode = Mode::kSync, .every = 4}, [&](const std::string& text) {
    seen = text;
    return with(R"("rows":3,"decay":0.75,"policy":"lru")");
  });
  for (int i = 0; i < 14; ++i) loop.minibatch();
  EXPECT_EQ(loop.buffer->policy(), "lru");
  EXPECT_EQ(loop.buffer->knobs().rows, 3U);
  EXPECT_EQ(loop.buffer->knobs().decay, 0.75);
  EXPECT_GT(loop.buffer->used(), 3U) << "lru fills it";
  EXPECT_THAT(seen, testing::HasSubstr("replace, rows 3, decay 0.75, policy lru; expected hit rate "
                                       "increase, communication stagnant; came: hit rate"));
  EXPECT_GE(loop.controller->counts().pass.decisions, 2U);
}

TEST(Controllers, AThreadAnswersBesideTheTrainer) {
  auto buffer = make("rudder", 20, 4);
  std::promise<void> go;
  auto gone = go.get_future().share();
  Controller controller(make_asking([gone](const std::string&) {
                          gone.wait();
                          return Result<std::string>(kGood);
                        }),
                        {.mode = Mode::kAsync, .expire = 1'000'000},
                        std::make_unique<ThreadRunner>(), real_clock());
  const auto minibatch = [&] {
    controller.step(*buffer, 0);
    ASSERT_TRUE(buffer->minibatch(std::vector<uint64_t>{1, 2, 3}));
  };
  for (int i = 0; i < 50; ++i) minibatch();  // the model is slow: training goes on
  EXPECT_EQ(controller.counts().asked, 1U);
  EXPECT_EQ(controller.counts().applied, 0U);
  go.set_value();
  for (int i = 0; i < 100'000 && controller.counts().applied == 0; ++i) {
    std::this_thread::yield();
    minibatch();
  }
  EXPECT_GE(controller.counts().applied, 1U);
  EXPECT_EQ(buffer->used(), 3U);
}

TEST(Makers, AreMadeByName) {
  for (const char* good : {"none", "fixed:8", "heuristic", "random:1"})
    EXPECT_TRUE(make_maker(good)) << good;
  for (const char* wrong : {"", "fixed", "fixed:0", "fixed:x", "none:1", "model", "random:-1"})
    EXPECT_FALSE(make_maker(wrong)) << wrong;
}

TEST(Makers, FixedReplacesAtItsInterval) {
  auto fixed = std::move(*make_maker("fixed:8"));
  std::vector<uint64_t> at;
  for (uint64_t m = 1; m <= 30; ++m) {
    Situation s;
    s.minibatch = m;
    const auto d = fixed->decide(s, "");
    ASSERT_TRUE(d);
    if (*d && (*d)->replace) at.push_back(m);
  }
  EXPECT_EQ(at, (std::vector<uint64_t>{8, 16, 24}));
}

TEST(Makers, TheHeuristicForgetsAfterAChangeAndRemembersAgain) {
  auto heuristic = std::move(*make_maker("heuristic"));
  std::vector<double> decays;
  for (uint64_t m = 1; m <= 200; ++m) {
    Situation s;
    s.minibatch = m;
    s.policy = "free";
    s.window = {10, 1000, m < 60 ? 700U : m < 80 ? 500U : 650U, 0, 0, 0, 0};
    const auto d = heuristic->decide(s, "");
    ASSERT_TRUE(d);
    if (*d) decays.push_back(*(*d)->decay);
  }
  EXPECT_EQ(decays, (std::vector<double>{0.98, 1.0}));
}

TEST(Makers, RandomAnswersAreValidAndRepeatable) {
  auto a = std::move(*make_maker("random:5")), b = std::move(*make_maker("random:5"));
  bool replaced = false, kept = false;
  for (int i = 0; i < 100; ++i) {
    const auto x = a->decide({}, ""), y = b->decide({}, "");
    ASSERT_TRUE(x && *x && y && *y);
    EXPECT_EQ((*x)->replace, (*y)->replace);
    EXPECT_EQ((*x)->decay, (*y)->decay);
    ((*x)->replace ? replaced : kept) = true;
    if ((*x)->decay) { EXPECT_GE(*(*x)->decay, 0.01); }
  }
  EXPECT_TRUE(replaced && kept);
}

}  // namespace
