// The parts of a provider, each alone.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/toml.h"
#include "llm/budget.h"
#include "llm/choose.h"
#include "llm/health.h"
#include "llm/http.h"
#include "llm/prices.h"
#include "llm/schema.h"
#include "llm/settings.h"
#include "llm/sse.h"
#include "llm/text.h"

namespace sculler::llm {
namespace {

TEST(Sse, LineEndsCommentsNamesAndSeveralDataLines) {
  const std::string text =
      "\xef\xbb\xbf: hello\r\nevent: one\r\ndata: a\r\ndata:b\r\n\r\ndata: c\n\n\n"
      "event: empty\n\ndata\rid: 4\r\rdata: last";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    SseParser parser(1000);
    std::vector<std::string> seen;
    const auto visit = [&](std::string_view name, std::string_view data) {
      seen.push_back(std::string(name) + "|" + std::string(data));
      return true;
    };
    for (std::size_t i = 0; i < text.size(); i += size)
      ASSERT_TRUE(parser.feed(std::string_view(text).substr(i, size), visit));
    ASSERT_TRUE(parser.finish(visit));
    EXPECT_EQ(seen, (std::vector<std::string>{"one|a\nb", "|c", "|", "|last"})) << size;
  }
}

TEST(Sse, AnEventIsBounded) {
  SseParser parser(100);
  const auto visit = [](std::string_view, std::string_view) { return true; };
  EXPECT_FALSE(parser.feed("data: " + std::string(200, 'x'), visit));
  EXPECT_TRUE(parser.too_big());
  SseParser lines(100);
  bool more = true;
  for (int i = 0; i < 50 && more; ++i) more = lines.feed("data: 12345\n", visit);
  EXPECT_FALSE(more);
  EXPECT_LE(lines.held_bytes(), 300U);
}

TEST(Text, Utf8) {
  EXPECT_TRUE(valid_utf8("plain, \xc3\xa9, \xe2\x82\xac, \xf0\x9f\x9a\xa3"));
  for (const char* bad : {"\xff", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xe2\x82", "a\x80"}) {
    EXPECT_FALSE(valid_utf8(bad)) << bad;
  }
  EXPECT_EQ(without_nul(std::string("a\0b", 3)),
            "a\xef\xbf\xbd"
            "b");
}

TEST(Text, TheFirstDifferenceIsALine) {
  EXPECT_EQ(first_difference("a\nb", "a\nb").line, 0);
  const auto middle = first_difference("a\nb\nc", "a\nx\nc");
  EXPECT_EQ(middle.line, 2);
  EXPECT_EQ(middle.a, "b");
  EXPECT_EQ(middle.b, "x");
  const auto shorter = first_difference("a", "a\nmore");
  EXPECT_EQ(shorter.line, 2);
  EXPECT_EQ(shorter.a, "(end)");
  EXPECT_EQ(shorter.b, "more");
}

TEST(Schema, FindsJsonWhereModelsPutIt) {
  for (const char* text : {"{\"a\": 1}", " \n{\"a\": 1}\n", "```json\n{\"a\": 1}\n```",
                           "Sure!\n```\n{\"a\": 1}\n```\nok", "Here: {\"a\": 1} - that is it"}) {
    const auto found = find_json(text);
    ASSERT_TRUE(found) << text;
    EXPECT_EQ(found->dump(), "{\"a\":1}");
  }
  for (const char* text : {"", "no", "{\"a\": ", "{a: 1}", "}{"})
    EXPECT_FALSE(find_json(text)) << text;
}

TEST(Schema, ChecksWhatPromptsUse) {
  const auto form = nlohmann::json::parse(R"({
    "type": "object", "required": ["kind", "n"], "additionalProperties": false,
    "properties": {"kind": {"enum": ["lsa", "gin"]}, "n": {"type": "integer", "minimum": 1, "maximum": 8},
                   "why": {"type": ["string", "null"], "maxLength": 4},
                   "list": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 2},
                   "any": {"anyOf": [{"type": "string"}, {"const": 3}]}}})");
  const auto problem = [&](const char* text) -> std::string {
    const auto ok = check_schema(form, nlohmann::json::parse(text));
    return ok ? "" : ok.error().key;
  };
  EXPECT_EQ(problem(R"({"kind":"lsa","n":8,"why":null,"list":[1,2.5],"any":3})"), "");
  EXPECT_EQ(problem(R"({"kind":"lsa","n":2.0,"why":"ééééé"})"), "/why");
  EXPECT_EQ(problem(R"({"kind":"lsa"})"), "/");
  EXPECT_EQ(problem(R"({"kind":"nvls","n":1})"), "/kind");
  EXPECT_EQ(problem(R"({"kind":"lsa","n":1.5})"), "/n");
  EXPECT_EQ(problem(R"({"kind":"lsa","n":9})"), "/n");
  EXPECT_EQ(problem(R"({"kind":"lsa","n":1,"list":[]})"), "/list");
  EXPECT_EQ(problem(R"({"kind":"lsa","n":1,"list":[1,"x"]})"), "/list/1");
  EXPECT_EQ(problem(R"({"kind":"lsa","n":1,"more":1})"), "/more");
  EXPECT_EQ(problem(R"({"kind":"lsa","n":1,"any":4})"), "/any");
  EXPECT_EQ(problem("[]"), "/");
}

TEST(Prices, EditionsOfAModelCostTheSameOthersDoNot) {
  const auto prices = Prices::parse(
      "version = 1\n[[price]]\nmodel = \"gpt\"\nin = 1\nout = 2\n[[price]]\nmodel = \"gpt-mini\"\n"
      "in = 0.1\nout = 0.2\ncontext = 1000\n",
      "p.toml");
  ASSERT_TRUE(prices) << prices.error().text();
  EXPECT_EQ(prices->find("gpt-mini-2025-04-14")->context, 1000);
  EXPECT_EQ(prices->find("gpt-mini-latest")->in, 0.1);
  EXPECT_EQ(prices->find("vendor/gpt-mini")->in, 0.1);
  EXPECT_EQ(prices->find("gpt-20250414")->out, 2);
  EXPECT_FALSE(prices->find("gpt-large"));
  EXPECT_FALSE(prices->find("gpt-mini-5"));
  EXPECT_FALSE(prices->find("other"));
  EXPECT_FALSE(Prices::parse("version = 1\n[[price]]\nmodel = \"x\"\nin = -1\nout = 2\n", "p"));
  EXPECT_FALSE(Prices::parse("version = 2\n", "p"));
}

TEST(Prices, TheTableThatComesAlongIsWhole) {
  const auto prices =
      Prices::load(real_files(), std::string(SCULLER_SOURCE_DIR) + "/knowledge/prices.toml");
  ASSERT_TRUE(prices) << prices.error().text();
  EXPECT_GT(prices->size(), 5U);
}

TEST(Budget, CountsWhatIsInFlightAndRefusesWhatCannotFit) {
  FakeClock clock;
  Stop stop;
  Budget budget(1.0, 1000, {0.2, 100});
  ASSERT_TRUE(budget.reserve({0.5, 100}, clock, 1000, stop));
  EXPECT_DOUBLE_EQ(budget.reserved().usd, 0.5);
  // Would fit once the other one has cost nothing, but nobody can wait on a clock that stands.
  clock.advance_ns(2000);
  auto waits = budget.reserve({0.5, 100}, clock, 1000, stop);
  ASSERT_FALSE(waits);
  EXPECT_EQ(waits.error().fault, Fault::kTimeout);
  auto never = budget.reserve({0.81, 100}, clock, 1'000'000, stop);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().fault, Fault::kBudget);
  EXPECT_FALSE(never.error().error.cure.empty());
  EXPECT_EQ(budget.reserve({0.0, 901}, clock, 1'000'000, stop).error().fault, Fault::kBudget);
  budget.settle({0.5, 100}, {0.1, 50});
  EXPECT_NEAR(budget.spent().usd, 0.3, 1e-12);
  EXPECT_EQ(budget.reserved().tokens, 0);
  EXPECT_TRUE(budget.reserve({0.5, 100}, clock, 1'000'000, stop));
}

TEST(Chooser, WeightsAreAFunctionOfTheQuestion) {
  Chooser a(false, 7), b(false, 7);
  const std::vector<Chooser::Option> options = {{"x", 3}, {"y", 1}, {"z", 0}};
  int x = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto name = std::to_string(i) + "-mutator";
    const auto chosen = a.choose(options, name);
    ASSERT_LT(chosen, 2U);
    x += chosen == 0 ? 1 : 0;
    if (i % 3 == 0) { EXPECT_EQ(b.choose(options, name), chosen); }
  }
  EXPECT_NEAR(x, 1500, 100);
}

TEST(Chooser, UcbFindsTheBetterAndMindsTheCost) {
  Chooser chooser(true, 1);
  const std::vector<Chooser::Option> options = {{"good", 1}, {"bad", 1}};
  int good = 0;
  for (int i = 0; i < 400; ++i) {
    const auto chosen = chooser.choose(options, "q");
    good += chosen == 0 ? 1 : 0;
    chooser.reward(options[chosen].name, chosen == 0 ? 0.8 : 0.2);
  }
  EXPECT_GT(good, 300);
  EXPECT_LT(good, 400) << "the other one is tried too";
  // Worth the same: the cheap one is asked more.
  Chooser cost(true, 1);
  const std::vector<Chooser::Option> priced = {{"dear", 1}, {"cheap", 1}};
  int cheap = 0;
  for (int i = 0; i < 200; ++i) {
    const auto chosen = cost.choose(priced, "q");
    cheap += chosen == 1 ? 1 : 0;
    cost.paid(priced[chosen].name, chosen == 0 ? 1.0 : 0.01);
    cost.reward(priced[chosen].name, 0.5);
  }
  EXPECT_GT(cheap, 130);
}

TEST(Chooser, NamesSurviveAChangedList) {
  Chooser chooser(true, 1);
  chooser.restore("old", {100, 100, 90, 1});
  chooser.restore("gone", {100, 100, 10, 1});
  // "old" was worth 0.9; "new" is unknown and is asked first.
  const std::vector<Chooser::Option> options = {{"new", 1}, {"old", 1}};
  EXPECT_EQ(chooser.choose(options, "q"), 0U);
  for (int i = 0; i < 30; ++i) {
    const auto chosen = chooser.choose(options, "q");
    if (chosen == 0) chooser.reward("new", 0);
  }
  EXPECT_EQ(chooser.choose(options, "q"), 1U);
  EXPECT_EQ(chooser.arm("gone").worth, 10);
  EXPECT_GE(chooser.arm("old").rewards, 100);
}

TEST(Health, NeedsFailuresAndTime) {
  Health health(3, 1000);
  const Failure failure{Fault::kServer, {}};
  for (int i = 0; i < 10; ++i) health.bad(failure, 500);
  EXPECT_FALSE(health.down()) << "a short outage";
  health.good();
  health.bad(failure, 5000);
  health.bad(failure, 5500);
  EXPECT_FALSE(health.down());
  health.bad(failure, 6000);
  EXPECT_TRUE(health.down());
  EXPECT_EQ(health.why("m").fault, Fault::kDown);
  Health refused(3, 1000);
  refused.bad({Fault::kRefused, {}}, 0);
  EXPECT_TRUE(refused.down());
  EXPECT_EQ(refused.why("m").fault, Fault::kRefused);
  Health other(1, 0);
  other.bad({Fault::kTooLong, {}}, 0);
  other.bad({Fault::kSchema, {}}, 0);
  EXPECT_FALSE(other.down()) << "says nothing about the endpoint";
}

TEST(Url, WhatCanBeAsked) {
  EXPECT_EQ(url_problem("https://api.example.com/v1"), "");
  EXPECT_EQ(url_problem("http://127.0.0.1:8080/v1?api-version=2024"), "");
  for (const char* bad : {"", "ftp://x/y", "file:///etc/passwd", "https://user:pass@host/v1",
                          "https://host/v1?key=abc", "not a url at all"}) {
    EXPECT_NE(url_problem(bad), "") << bad;
  }
}

TEST(Settings, ModelsAreReadAndPrinted) {
  const std::string text =
      "[[model]]\nname = \"big\"\nprovider = \"openai\"\nmodel = \"gpt-x\"\nurl = "
      "\"https://h/v1\"\nkey_env = \"K\"\nroles = [\"mutator\", \"meta\"]\nweight = 2.5\n"
      "temperature = false\nstream = false\nmax_tokens = 100\nmax_tokens_field = "
      "\"max_completion_tokens\"\nprice_in = 1.25\nheaders = { \"X-A\" = \"b\", \"api-key\" = "
      "\"env:Q\" }\nbody = '{\"top_p\": 0.5}'\ntimeout = 12\n\n[[model]]\nname = \"me\"\nprovider "
      "= "
      "\"command\"\nargv = [\"prog\", \"a b\", \"\\\"q\\\"\"]\nenv = [\"A\"]\n";
  const auto read = [](const std::string& toml) -> Result<std::vector<Model>> {
    auto tree = parse_toml(toml, "run.toml");
    if (!tree) return fail(tree.error());
    return read_models(TomlReader(*tree, "run.toml"));
  };
  const auto models = read(text);
  ASSERT_TRUE(models) << models.error().text();
  ASSERT_EQ(models->size(), 2U);
  EXPECT_EQ((*models)[0].roles.size(), 2U);
  EXPECT_FALSE((*models)[0].temperature);
  EXPECT_EQ((*models)[0].headers[1].second, "env:Q");
  EXPECT_EQ((*models)[1].argv[1], "a b");
  const std::string printed = print_models(*models);
  const auto again = read(printed);
  ASSERT_TRUE(again) << again.error().text() << printed;
  EXPECT_EQ(print_models(*again), printed);
  EXPECT_EQ((*again)[0].weight, 2.5);
  EXPECT_EQ((*again)[0].price_out, -1);

  struct Case {
    const char* text;
    const char* key;
    const char* says;
  };
  for (const auto& c : std::vector<Case>{
           {"[[model]]\nprovider = \"openai\"\n", "name", "missing"},
           {"[[model]]\nname = \"a\"\n", "provider", "missing"},
           {"[[model]]\nname = \"a\"\nprovider = \"opnai\"\n", "provider", "did you mean openai?"},
           {"[[model]]\nname = \"a\"\nprovider = \"openai\"\nwieght = 1\n", "wieght", "weight"},
           {"[[model]]\nname = \"a\"\nprovider = \"command\"\n", "argv", "missing"},
           {"[[model]]\nname = \"a\"\nprovider = \"script\"\n", "path", "missing"},
           {"[[model]]\nname = \"a\"\nprovider = \"openai\"\nurl = \"https://u:p@h\"\n", "url",
            "key_env"},
           {"[[model]]\nname = \"a\"\nprovider = \"openai\"\nbody = \"[]\"\n", "body",
            "JSON object"},
           {"[[model]]\nname = \"a\"\nprovider = \"openai\"\nmax_tokens = 0\n", "max_tokens", "0"},
           {"[[model]]\nname = \"a\"\nprovider = \"openai\"\nheaders = { Authorization = \"Bearer "
            "x\" }\n",
            "Authorization", "env:NAME"},
           {"[[model]]\nname = \"a\"\nprovider = \"files\"\n[[model]]\nname = \"a\"\nprovider = "
            "\"files\"\n",
            "name", "twice"}}) {
    const auto bad = read(c.text);
    ASSERT_FALSE(bad) << c.text;
    EXPECT_NE(bad.error().key.find(c.key), std::string::npos) << bad.error().text();
    EXPECT_NE(bad.error().text().find(c.says), std::string::npos) << bad.error().text();
    EXPECT_TRUE(bad.error().file.starts_with("run.toml")) << bad.error().text();
  }
}

TEST(Settings, OneModelInAWord) {
  EXPECT_EQ(model_of_word("openai:gpt-4.1")->name, "gpt-4.1");
  EXPECT_EQ(model_of_word("files:/x/y")->path, "/x/y");
  EXPECT_EQ(model_of_word("local")->provider, "local");
  EXPECT_EQ(model_of_word("command: prog 'a b'")->argv.size(), 2U);
  for (const char* bad : {"", "opnai:x", "openai", "command:", "command:'x", "script"})
    EXPECT_FALSE(model_of_word(bad)) << bad;
}

}  // namespace
}  // namespace sculler::llm
