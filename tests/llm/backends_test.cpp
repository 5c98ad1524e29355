// Folders, programs and rule files as models; cassettes; keys; budgets of a whole provider. Every
// answer here is scripted.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <fstream>

#include "base/strings.h"
#include "world.h"

namespace sculler::llm {
namespace {

using fakes::Connection;
using fakes::HttpServer;
using fakes::Received;

class BackendsTest : public ProviderTest {
 protected:
  static void put(const std::string& path, std::string_view text) {
    ASSERT_TRUE(real_files().write_atomic(path, text));
  }
  Model script(const std::string& rules) {
    put(folder_.path("rules.toml"), rules);
    Model model;
    model.name = "scripted";
    model.provider = "script";
    model.path = folder_.path("rules.toml");
    return model;
  }
  static bool alive_with(const std::string& mark) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      auto text = real_files().read(entry.path().string() + "/cmdline", 4096);
      if (text && text->find(mark) != std::string::npos) return true;
    }
    return false;
  }
  // A killed process is gone when whoever adopted it has seen that.
  static bool gone(const std::string& mark) {
    for (int i = 0; i < 200 && alive_with(mark); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return !alive_with(mark);
  }
  test::TempFolder folder_{"sculler_llm"};
};

TEST_F(BackendsTest, FilesAreAskedAndAnswered) {
  Model model;
  model.name = "me";
  model.provider = "files";
  model.path = folder_.path("prompts");
  auto provider = make(one(model));
  std::thread person([&] {
    const std::string prompt = folder_.path("prompts/000003-judge.prompt.md");
    while (!real_files().exists(prompt)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto text = real_files().read(prompt);
    ASSERT_TRUE(text);
    EXPECT_NE(text->find("Is it right?"), std::string::npos);
    EXPECT_NE(text->find("000003-judge.answer.md"), std::string::npos);
    EXPECT_TRUE(real_files().exists(folder_.path("prompts/README.md")));
    put(folder_.path("prompts/000003-judge.answer.md"), "It is.\n");
  });
  Request request = question("Is it right?", 3);
  request.role = "judge";
  const auto answer = provider->ask(request);
  person.join();
  ASSERT_TRUE(answer) << answer.error().error.text();
  EXPECT_EQ(answer->text, "It is.\n");
  EXPECT_TRUE(answer->estimated);

  // The same question again: answered from the folder. Another text: the old answer is stale.
  MemoryLog none;
  around_.log = &none;
  auto later = make(one(model));
  ASSERT_TRUE(later->ask(request));
  request.messages[1].text = "Is it wrong?";
  request.deadline_ns = real_clock().now_ns() + 500'000'000;
  EXPECT_EQ(fault_of(later->ask(request)), Fault::kTimeout);
  EXPECT_TRUE(real_files().exists(folder_.path("prompts/000003-judge.answer.md.stale")));
}

TEST_F(BackendsTest, FilesThatCannotBeAnswers) {
  Model model;
  model.name = "me";
  model.provider = "files";
  model.path = folder_.path("prompts");
  Settings settings = one(model);
  settings.max_answer_bytes = 1000;
  auto provider = make(settings);
  const auto answer_with = [&](int64_t index, const std::string& text) {
    Request request = question("q", index);
    // The prompt is there first, so that the answer is to it.
    request.deadline_ns = real_clock().now_ns() + 50'000'000;
    (void)provider->ask(request);
    put(folder_.path("prompts/" + request.name() + ".answer.md"), text);
    request.deadline_ns = real_clock().now_ns() + 3'000'000'000;
    return provider->ask(request);
  };
  EXPECT_EQ(fault_of(answer_with(1, std::string(5000, 'x'))), Fault::kTooBig);
  EXPECT_EQ(fault_of(answer_with(2, "a \xff b")), Fault::kEncoding);
  const auto start = real_clock().now_ns();
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    provider->stop();
  });
  EXPECT_EQ(fault_of(provider->ask(question("never answered", 3))), Fault::kCancelled);
  stopper.join();
  EXPECT_LT(real_clock().now_ns() - start, 5'000'000'000);
}

TEST_F(BackendsTest, AProgramIsAModel) {
  Model model;
  model.name = "prog";
  model.provider = "command";
  model.argv = {"sh", "-c", "tr a-z A-Z; echo $SCULLER_QUESTION; echo $SECRET_OF_MINE"};
  ::setenv("SECRET_OF_MINE", "not passed on", 1);
  auto provider = make(one(model));
  const auto answer = provider->ask(question("shout this", 4));
  ASSERT_TRUE(answer) << answer.error().error.text();
  EXPECT_NE(answer->text.find("SHOUT THIS"), std::string::npos);
  EXPECT_NE(answer->text.find("000004-mutator"), std::string::npos);
  EXPECT_EQ(answer->text.find("not passed on"), std::string::npos);
}

TEST_F(BackendsTest, ProgramsThatFail) {
  struct Case {
    std::vector<std::string> argv;
    Fault fault;
  };
  for (const auto& c : std::vector<Case>{{{"no-such-program-anywhere"}, Fault::kSetup},
                                         {{"sh", "-c", "echo broken >&2; exit 3"}, Fault::kServer},
                                         {{"sh", "-c", "cat >/dev/null"}, Fault::kMalformed},
                                         {{"sh", "-c", "printf 'a \\377 b'"}, Fault::kEncoding},
                                         {{"yes", "endless"}, Fault::kTooBig}}) {
    Model model;
    model.name = "prog";
    model.provider = "command";
    model.argv = c.argv;
    Settings settings = one(model);
    settings.retries = 0;
    settings.max_answer_bytes = 100'000;
    const auto start = real_clock().now_ns();
    EXPECT_EQ(fault_of(make(settings)->ask(question())), c.fault) << c.argv.front();
    EXPECT_LT(real_clock().now_ns() - start, 15'000'000'000) << c.argv.front();
  }
}

TEST_F(BackendsTest, AProgramIsKilledWithAllItStarted) {
  const std::string mark = "86399." + std::to_string(::getpid());
  Model model;
  model.name = "prog";
  model.provider = "command";
  model.argv = {"sh", "-c", "sleep " + mark + " & setsid sleep " + mark + " & wait"};
  Settings settings = one(model);
  settings.timeout_s = 0.5;
  auto provider = make(settings);
  EXPECT_EQ(fault_of(provider->ask(question())), Fault::kTimeout);
  EXPECT_TRUE(gone(mark));
  // The stop does the same, at once.
  settings.timeout_s = 60;
  provider = make(settings);
  std::thread stopper([&] {
    while (!alive_with(mark)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    provider->stop();
  });
  const auto start = real_clock().now_ns();
  EXPECT_EQ(fault_of(provider->ask(question())), Fault::kCancelled);
  stopper.join();
  EXPECT_LT(real_clock().now_ns() - start, 20'000'000'000);
  EXPECT_TRUE(gone(mark));
}

TEST_F(BackendsTest, ScriptsGiveEveryFault) {
  around_.log = nullptr;
  Settings settings = one(script(R"(
[[rule]]
role = "judge"
text = "yes {index}"
tokens_in = 7
tokens_out = 3
[[rule]]
from = 0
to = 0
fault = "half"
text = "abcdef"
[[rule]]
from = 1
to = 1
fault = "malformed"
[[rule]]
from = 2
to = 2
fault = "encoding"
[[rule]]
from = 3
to = 3
bytes = 10485760
[[rule]]
from = 4
to = 4
fault = "refused"
role = "meta"
[[rule]]
from = 5
to = 5
fault = "server"
times = 1
[[rule]]
from = 6
to = 6
fault = "timeout"
[[rule]]
from = 7
every = 2
text = "odd"
[[rule]]
text = "else"
)"));
  settings.retries = 1;
  around_.clock.sleep_ns(0);
  Surroundings fast{real_files(), fake_clock_, real_processes()};
  auto made = make_provider(settings, fast);
  ASSERT_TRUE(made) << made.error().text();
  Provider& provider = **made;
  Request judge = question();
  judge.role = "judge";
  judge.index = 9;
  const auto yes = provider.ask(judge);
  ASSERT_TRUE(yes);
  EXPECT_EQ(yes->text, "yes 9");
  EXPECT_EQ(yes->prompt_tokens, 7);
  EXPECT_EQ(fault_of(provider.ask(question("q", 0))), Fault::kHalf);
  EXPECT_EQ(fault_of(provider.ask(question("q", 1))), Fault::kMalformed);
  EXPECT_EQ(fault_of(provider.ask(question("q", 2))), Fault::kEncoding);
  EXPECT_EQ(fault_of(provider.ask(question("q", 3))), Fault::kTooBig);
  const auto after = provider.ask(question("q", 5));
  ASSERT_TRUE(after) << after.error().error.text();
  EXPECT_EQ(after->attempts, 2);
  EXPECT_EQ(fault_of(provider.ask(question("q", 6))), Fault::kTimeout);
  EXPECT_EQ(provider.ask(question("q", 7))->text, "odd");
  EXPECT_EQ(provider.ask(question("q", 8))->text, "else");
}

TEST_F(BackendsTest, RuleFilesAreChecked) {
  for (const char* bad : {"[[rule]]\nfault = \"tiemout\"\n", "[[rule]]\nevery = 0\n",
                          "[[rule]]\nroll = \"x\"\n", "[[rule]]\ntext = 3\n", ""}) {
    auto made = make_provider(one(script(bad)), around_);
    ASSERT_FALSE(made) << bad;
    EXPECT_NE(made.error().text().find("rules.toml"), std::string::npos) << made.error().text();
  }
}

TEST_F(BackendsTest, TheContextIsCheckedBeforeSending) {
  Model model = script("[[rule]]\ntext = \"ok\"\n");
  model.context = 1000;
  auto provider = make(one(model));
  const auto reply = provider->ask(question(std::string(50'000, 'x')));
  EXPECT_EQ(fault_of(reply), Fault::kTooLong);
  EXPECT_FALSE(reply.error().stops_run());
  EXPECT_EQ(provider->usage().sent, 0);
  EXPECT_TRUE(provider->ask(question("short", 1)));
}

TEST_F(BackendsTest, WhatWasPaidForIsNotPaidForTwice) {
  const Model model = script("[[rule]]\ntext = \"first\"\ntokens_in = 5\ntokens_out = 5\n");
  ASSERT_TRUE(make(one(model))->ask(question()));
  put(model.path, "[[rule]]\ntext = \"second\"\n");
  auto resumed = make(one(model));
  const auto same = resumed->ask(question());
  ASSERT_TRUE(same);
  EXPECT_EQ(same->text, "first");
  EXPECT_TRUE(same->recorded);
  EXPECT_EQ(resumed->usage().prompt_tokens, 5) << "of the run's earlier life";
  const auto other = resumed->ask(question("another question"));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->text, "second");
  EXPECT_FALSE(other->recorded);
}

TEST_F(BackendsTest, TheBudgetHoldsUnder64CallsAtOnce) {
  HttpServer server([](Connection& c, const Received&) {
    c.pause(20);
    c.reply(200, whole_answer("ok", 1000, 100));
  });
  Model model = http_model(server.url());
  model.max_tokens = 100;
  model.price_in = 10;
  model.price_out = 100;  // a call costs 0.02
  Settings settings = one(model);
  settings.max_usd = 0.5;
  settings.parallel = 64;
  auto provider = make(settings);
  std::atomic<int> answered{0}, refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&, i] {
      const auto reply = provider->ask(question(std::string(2000, 'x'), i));
      if (reply) ++answered;
      else if (reply.error().fault == Fault::kBudget) ++refused;
      else ADD_FAILURE() << reply.error().error.text();
    });
  }
  for (auto& thread : threads) thread.join();
  const double spent = provider->usage().usd;
  EXPECT_EQ(answered + refused, 64);
  EXPECT_NEAR(spent, 0.02 * answered, 1e-9);
  EXPECT_LE(spent, 0.5 + 1e-9);
  EXPECT_GE(spent, 0.5 - 0.04) << "most of it is used";
  // A resumed run knows what was spent.
  auto resumed = make(settings);
  EXPECT_EQ(fault_of(resumed->ask(question(std::string(2000, 'y'), 100))), Fault::kBudget);
}

TEST_F(BackendsTest, ABudgetInUsdNeedsAPrice) {
  Settings settings = one(http_model("http://127.0.0.1:1/v1"));
  settings.max_usd = 1;
  const auto made = make_provider(settings, around_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().key, "price_in");
  EXPECT_EQ(made.error().code, ErrorCode::kModelBudget);
}

TEST_F(BackendsTest, KeysGoToTheServerAndNowhereElse) {
  const std::string key = "sk-live-abcdefghij0123456789";
  HttpServer server([&](Connection& c, const Received& r) {
    // A server that says what it should not, in an error and in an answer.
    if (r.number == 0) c.reply(400, R"({"error":{"message":"bad header Bearer )" + key + "\"}}");
    else c.reply(200, whole_answer("your key is " + key));
  });
  const std::string file = folder_.path("key");
  put(file, key + "\n");
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  Model model = http_model(server.url());
  model.key_file = file;
  auto open = make_provider(one(model), around_);
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().text().find("chmod 600"), std::string::npos) << open.error().text();
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  auto tape = Tape::record(real_files(), folder_.path("cassette.jsonl"));
  ASSERT_TRUE(tape);
  around_.tape = tape->get();
  auto provider = make(one(model));
  const auto bad = provider->ask(question("my key is " + key));
  EXPECT_EQ(fault_of(bad), Fault::kRejected);
  const auto good = provider->ask(question("and again " + key, 1));
  ASSERT_TRUE(good);
  EXPECT_EQ(good->text, "your key is [key]");
  const auto sent = server.received();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_NE(sent[0].head.find("Authorization: Bearer " + key), std::string::npos);
  EXPECT_EQ(sent[0].body.find(key), std::string::npos) << "no key in a prompt";
  EXPECT_EQ(bad.error().error.text().find(key), std::string::npos) << bad.error().error.text();
  for (const auto& call : log_.calls())
    EXPECT_EQ((call.prompt + call.answer + call.question).find(key), std::string::npos);
  const auto cassette = real_files().read(folder_.path("cassette.jsonl"));
  ASSERT_TRUE(cassette);
  EXPECT_EQ(cassette->find(key), std::string::npos);
  EXPECT_NE(cassette->find("[key]"), std::string::npos);
  // Not set, or not a key: named, never shown.
  model.key_file.clear();
  model.key_env = "SCULLER_TEST_NO_SUCH_KEY";
  const auto unset = make_provider(one(model), around_);
  ASSERT_FALSE(unset);
  EXPECT_NE(unset.error().text().find("SCULLER_TEST_NO_SUCH_KEY"), std::string::npos);
  ::setenv("SCULLER_TEST_KEY", (key + "\nInjected: header").c_str(), 1);
  model.key_env = "SCULLER_TEST_KEY";
  const auto injected = make_provider(one(model), around_);
  ASSERT_FALSE(injected);
  EXPECT_EQ(injected.error().text().find(key), std::string::npos);
}

TEST(Tape, CanonicalPromptsForgetWhatChanges) {
  EXPECT_EQ(canonical_prompt("see /home/me/tasks/x.cu:12, at 2026-11-29T19:05:24Z."),
            canonical_prompt("see /srv/other/tasks/x.cu:12, at 2027-01-02T03:04:05Z."));
  EXPECT_EQ(canonical_prompt("run runs/2026-11-29-gemm_allgather-1 job 0123456789abcdef0123"),
            "run <run> job <id>\n");
  EXPECT_EQ(canonical_prompt("a\r\nb  \n\n"), "a\nb\n");
  // What is not a path, a date or an id stays.
  for (const char* text : {"a / b /c/ d", "x = a/b/c;", "//comment", "http://host/a/b",
                           "12:30 is late", "deadbeefdeadbeefdeadbeef_t", "#include <a/b/c.h>"}) {
    EXPECT_EQ(canonical_prompt(text), std::string(text) + "\n");
  }
}

TEST_F(BackendsTest, ACassetteIsReplayedWordForWordAndInOrder) {
  const std::string path = folder_.path("c.jsonl");
  {
    auto tape = Tape::record(real_files(), path);
    ASSERT_TRUE(tape) << tape.error().text();
    around_.tape = tape->get();
    auto provider =
        make(one(script("[[rule]]\nfrom = 1\nto = 1\nfault = \"malformed\"\n"
                        "[[rule]]\ntext = \"answer {index}\"\n")));
    ASSERT_TRUE(provider->ask(question("first", 0)));
    ASSERT_FALSE(provider->ask(question("second", 1)));
    ASSERT_TRUE((*tape)->keep_verdict("job1", "{\"status\":\"PASSED\"}"));
    ASSERT_TRUE((*tape)->took({Taken::Kind::kAnswer, "000001-mutator"}));
    ASSERT_TRUE((*tape)->took({Taken::Kind::kVerdict, "job1"}));
    ASSERT_TRUE((*tape)->took({Taken::Kind::kAnswer, "000000-mutator"}));
  }
  // Killed within a line: what was whole is kept, and recording goes on.
  ASSERT_TRUE(real_files().append(path, "{\"kind\":\"reply\",\"quest"));
  {
    auto tape = Tape::record(real_files(), path);
    ASSERT_TRUE(tape) << tape.error().text();
    ASSERT_TRUE((*tape)->took({Taken::Kind::kAnswer, "000002-mutator"}));
  }
  auto tape = Tape::replay(real_files(), path);
  ASSERT_TRUE(tape) << tape.error().text();
  around_.tape = tape->get();
  around_.log = nullptr;
  Settings nobody;  // no model, no key, no server
  auto provider = make(nobody);
  const auto first = provider->ask(question("first", 0));
  ASSERT_TRUE(first) << first.error().error.text();
  EXPECT_EQ(first->text, "answer 0");
  EXPECT_EQ(first->model, "scripted");
  EXPECT_TRUE(first->recorded);
  EXPECT_EQ(fault_of(provider->ask(question("second", 1))), Fault::kMalformed);
  EXPECT_EQ(*(*tape)->verdict("job1"), "{\"status\":\"PASSED\"}");
  EXPECT_FALSE((*tape)->verdict("job2"));
  std::vector<std::string> order;
  while (const auto next = (*tape)->next()) order.push_back(next->key);
  EXPECT_EQ(order, (std::vector<std::string>{"000001-mutator", "job1", "000000-mutator",
                                             "000002-mutator"}));
  const auto other = provider->ask(question("First", 0));
  EXPECT_EQ(fault_of(other), Fault::kMismatch);
  EXPECT_TRUE(other.error().stops_run());
  EXPECT_NE(other.error().error.message.find("recorded \"first\", now \"First\""),
            std::string::npos)
      << other.error().error.message;
  EXPECT_EQ(fault_of(provider->ask(question("first", 5))), Fault::kMismatch);
  (*tape)->take_any_prompt();
  const auto by_name = provider->ask(question("First", 0));
  ASSERT_TRUE(by_name) << by_name.error().error.text();
  EXPECT_EQ(by_name->text, "answer 0");
  EXPECT_EQ(fault_of(provider->ask(question("first", 5))), Fault::kMismatch);  // no such question
}

TEST_F(BackendsTest, DamagedCassettesAreRefusedByLine) {
  for (const char* bad : {"", "{\"cassette\":2}\n", "{\"cassette\":1}\nnot json\n{}\n",
                          "{\"cassette\":1}\n{\"kind\":\"other\"}\n",
                          "{\"cassette\":1}\n{\"kind\":\"reply\",\"question\":\"q\"}\n"}) {
    put(folder_.path("bad.jsonl"), bad);
    const auto tape = Tape::replay(real_files(), folder_.path("bad.jsonl"));
    ASSERT_FALSE(tape) << bad;
    EXPECT_NE(tape.error().file.find("bad.jsonl"), std::string::npos) << tape.error().text();
  }
}

}  // namespace
}  // namespace sculler::llm
