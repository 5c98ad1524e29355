// sculler ask and the settings of models, with a program as the model. Answers are scripted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/models.h"
#include "store/store.h"
#include "support/temp_folder.h"

namespace sculler::cli {
namespace {

struct Outcome {
  int code = -1;
  std::string out, err;
};

class AskTest : public ::testing::Test {
 protected:
  void SetUp() override {}
  static App app() {
    return {real_files(), real_clock(), real_processes(), "/nowhere", SCULLER_SOURCE_DIR, ""};
  }
  static Outcome run(const std::vector<std::string>& arguments) {
    Outcome result;
    char *out = nullptr, *err = nullptr;
    std::size_t out_bytes = 0, err_bytes = 0;
    App one = app();
    one.out = open_memstream(&out, &out_bytes);
    one.err = open_memstream(&err, &err_bytes);
    result.code = run_app(one, arguments);
    std::fclose(one.out);
    std::fclose(one.err);
    result.out.assign(out, out_bytes);
    result.err.assign(err, err_bytes);
    std::free(out);
    std::free(err);
    return result;
  }
  std::string file(const std::string& name, const std::string& text) {
    EXPECT_TRUE(real_files().write_atomic(folder_ + "/" + name, text));
    return folder_ + "/" + name;
  }
  test::TempFolder temporary_{"sculler_ask"};
  const std::string folder_ = temporary_.path();
};

TEST_F(AskTest, AProgramAnswers) {
  const auto r = run({"ask", "--model", "command:sh -c 'grep -c oars; echo ahoy'", "two oars"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "1\nahoy\n\n");
  EXPECT_NE(r.err.find("command: about "), std::string::npos) << r.err;
}

TEST_F(AskTest, JsonAnswersAreCheckedAndRepaired) {
  const auto schema = file("schema.json", R"({"type":"object","required":["n"]})");
  const std::string program =
      R"(command:sh -c 'if grep -q "cannot be used"; then echo "{\"n\": 1}"; else echo no; fi')";
  auto r = run({"ask", "--json", "--schema", schema, "--model", program, "how many?"});
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  const auto answer = parse_json(r.out, "out");
  ASSERT_TRUE(answer) << r.out;
  EXPECT_EQ(answer->at("answer"), "{\"n\":1}");
  EXPECT_EQ(answer->at("repaired"), true);
  EXPECT_EQ(answer->at("requests"), 2);
  r = run({"ask", "--schema", schema, "--model", "command:echo no", "how many?"});
  EXPECT_EQ(r.code, 18) << r.err;
  EXPECT_NE(r.err.find("twice no answer of the form"), std::string::npos) << r.err;
}

TEST_F(AskTest, ErrorsNameWhatIsMissing) {
  auto r = run({"ask", "hello"});
  EXPECT_EQ(r.code, 18);
  EXPECT_NE(r.err.find("no model is configured"), std::string::npos) << r.err;
  ::unsetenv("OPENAI_API_KEY");
  r = run({"ask", "--model", "openai:x", "hello"});
  EXPECT_EQ(r.code, 18);
  EXPECT_NE(r.err.find("OPENAI_API_KEY: key_env: model x: the environment variable is not set"),
            std::string::npos)
      << r.err;
  r = run({"ask", "--model", "opnai:x", "hello"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("did you mean openai?"), std::string::npos) << r.err;
  const auto models = file("run.toml",
                           "version = 1\n[llm]\nmax_usd = 1\n[[model]]\nname = \"m\"\n"
                           "provider = \"openai\"\nurl = \"http://127.0.0.1:9/v1\"\n");
  r = run({"ask", "--run-file", models, "hello"});
  EXPECT_EQ(r.code, 19);
  EXPECT_NE(r.err.find("run.toml:4: price_in: model m: "), std::string::npos) << r.err;
  r = run({"ask", "--run-file", models, "--model", "mm", "hello"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("did you mean m?"), std::string::npos) << r.err;
}

TEST_F(AskTest, ACassetteIsRecordedAndReplayed) {
  const std::string path = folder_ + "/c.jsonl";
  auto r = run({"ask", "--model", "command:echo first", "--set", "llm.record=" + path, "question"});
  EXPECT_EQ(r.code, 0) << r.err;
  r = run({"ask", "--set", "llm.replay=" + path, "question"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "first\n\n");
  EXPECT_NE(r.err.find(", recorded"), std::string::npos) << r.err;
  r = run({"ask", "--set", "llm.replay=" + path, "another question"});
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_NE(r.err.find("recorded \"question\", now \"another question\""), std::string::npos)
      << r.err;
}

TEST_F(AskTest, CallsAreKeptInTheRunsDatabase) {
  Settings settings;
  settings.llm_model = "command:echo yes";
  llm::Request request;
  request.messages = {{"user", "well?"}};
  request.role = "judge";
  for (const bool again : {false, true}) {
    auto store = store::Store::open(folder_ + "/store.sqlite", real_clock());
    ASSERT_TRUE(store) << store.error().text();
    auto models = open_models(app(), settings, folder_, store->get());
    ASSERT_TRUE(models) << models.error().text();
    const auto answer = models->provider->ask(request);
    ASSERT_TRUE(answer) << answer.error().error.text();
    EXPECT_EQ(answer->text, "yes\n");
    EXPECT_EQ(answer->recorded, again) << "answered once, not asked again";
    int calls = 0;
    ASSERT_TRUE(models->calls->each([&](const store::LlmCall& call) {
      ++calls;
      EXPECT_EQ(call.question, "000000-judge");
      EXPECT_NE(call.prompt.find("well?"), std::string::npos);
      EXPECT_EQ(call.answer, "yes\n");
    }));
    EXPECT_EQ(calls, 1);
  }
}

TEST(ModelSettings, RoundTripWithTables) {
  MemoryFiles files;
  ASSERT_TRUE(files.write_atomic(
      "/run.toml",
      "version = 1\n[llm]\nmax_usd = 2.5\nchoose = \"ucb\"\n[[model]]\nname = \"a\"\nprovider = "
      "\"openai\"\nprice_in = 0.5\n[[model]]\nname = \"b\"\nprovider = \"files\"\npath = \"p\"\n"));
  Settings settings;
  auto read = read_settings(files, "/run.toml", settings);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings.llm.max_usd, 2.5);
  EXPECT_EQ(settings.llm.choose, "ucb");
  ASSERT_EQ(settings.llm.models.size(), 2U);
  const std::string printed = print_settings(settings);
  ASSERT_TRUE(files.write_atomic("/again.toml", printed));
  Settings again;
  read = read_settings(files, "/again.toml", again);
  ASSERT_TRUE(read) << read.error().text() << printed;
  EXPECT_EQ(print_settings(again), printed);
  settings.llm_model = "b";
  const auto one = effective_llm(settings);
  ASSERT_TRUE(one);
  ASSERT_EQ(one->models.size(), 1U);
  EXPECT_EQ(one->models[0].name, "b");
  Settings bad;
  EXPECT_FALSE(apply_override(bad, "llm.choose=best"));
  EXPECT_FALSE(apply_override(bad, "llm.parallel=0"));
  EXPECT_TRUE(apply_override(bad, "llm.max_usd=3"));
  EXPECT_EQ(bad.llm.max_usd, 3);
}

}  // namespace
}  // namespace sculler::cli
