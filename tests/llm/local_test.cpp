// The real llama.cpp server with a small model, where scripts/local-model has put them.
#include "llm/local.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/process.h"
#include "world.h"

namespace sculler::llm {
namespace {

class LocalTest : public ProviderTest {
 protected:
  void SetUp() override {
    const auto cache = env_value("XDG_CACHE_HOME");
    around_.cache =
        join_path(cache.empty() ? join_path(env_value("HOME"), ".cache") : cache, "sculler");
    model_.name = "small";
    model_.provider = "local";
    model_.threads = 2;
    Model found = model_;
    if (auto ok = find_local(real_files(), around_.cache, found); !ok)
      GTEST_SKIP() << ok.error().text();
    around_.run_folder = folder_.path();
  }
  Model model_;
  test::TempFolder folder_{"sculler_llm"};
};

TEST_F(LocalTest, AnswersStreamsAndKeepsToASchema) {
  Settings settings = one(model_);
  settings.timeout_s = 100;
  auto provider = make(settings);
  Request request = question("Say hello in one short sentence.");
  request.max_tokens = 40;
  request.temperature = 0;
  const auto hello = provider->ask(request);
  ASSERT_TRUE(hello) << hello.error().error.text();
  EXPECT_FALSE(hello->text.empty());
  EXPECT_GT(hello->prompt_tokens, 5);
  EXPECT_GT(hello->answer_tokens, 0);
  EXPECT_LE(hello->answer_tokens, 40);
  EXPECT_FALSE(hello->estimated);
  request.index = 1;
  request.messages[1].text = "Should the cache be replaced? A quarter of it is stale.";
  request.schema =
      R"({"type":"object","properties":{"replace":{"type":"boolean"},"fraction":{"type":"number","minimum":0,"maximum":1}},"required":["replace","fraction"],"additionalProperties":false})";
  const auto decision = provider->ask(request);
  ASSERT_TRUE(decision) << decision.error().error.text();
  const auto value = parse_json(decision->text, "answer");
  ASSERT_TRUE(value) << decision->text;
  EXPECT_TRUE(value->at("replace").is_boolean());
  RecordProperty("hello", hello->text);
}

TEST_F(LocalTest, AServerThatDiesIsStartedAgainAndNoneIsLeft) {
  Settings settings = one(model_);
  settings.timeout_s = 100;
  const auto servers = [] {
    std::vector<int> out;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      auto text = real_files().read(entry.path().string() + "/cmdline", 4096);
      if (text && text->find("--model") != std::string::npos &&
          text->find("/llm.sock") != std::string::npos) {
        const auto pid = std::atoi(entry.path().filename().c_str());
        if (parent_of(pid) == ::getpid()) out.push_back(pid);
      }
    }
    return out;
  };
  auto provider = make(settings);
  Request request = question("Say yes.");
  request.max_tokens = 5;
  ASSERT_TRUE(provider->ask(request));
  ASSERT_EQ(servers().size(), 1U);
  ::kill(servers().front(), SIGKILL);
  request.index = 1;
  const auto again = provider->ask(request);
  ASSERT_TRUE(again) << again.error().error.text();
  EXPECT_EQ(servers().size(), 1U);
  provider.reset();
  EXPECT_TRUE(servers().empty());
}

TEST_F(ProviderTest, ALocalModelThatCannotBeIsNamed) {
  Model model;
  model.name = "small";
  model.provider = "local";
  model.server = "/bin/false";
  model.path = "/dev/null";
  auto provider = make(one(model));
  const auto reply = provider->ask(question());
  EXPECT_EQ(fault_of(reply), Fault::kSetup);
  EXPECT_NE(reply.error().error.message.find("/bin/false ended: exit code 1"), std::string::npos)
      << reply.error().error.text();
  EXPECT_TRUE(reply.error().stops_run());
  model.server = "/no/such/llama-server";
  const auto missing = make_provider(one(model), around_);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().text().find("scripts/local-model"), std::string::npos);
}

}  // namespace
}  // namespace sculler::llm
