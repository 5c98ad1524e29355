// The real client against a real server on this machine. Every answer here is scripted.
#include "llm/http.h"

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "world.h"

namespace sculler::llm {
namespace {

using fakes::Connection;
using fakes::HttpServer;
using fakes::Received;

class HttpTest : public ProviderTest {
 protected:
  static double seconds_since(int64_t start) {
    return static_cast<double>(real_clock().now_ns() - start) / 1e9;
  }
};

TEST_F(HttpTest, StreamsAnAnswerWithItsUsage) {
  HttpServer server([](Connection& c, const Received&) {
    c.stream();
    c.send(chunk("forty") + ": a comment\n\n" + chunk("-two") + last_chunks(100, 7));
  });
  Model model = http_model(server.url() + "/v1");
  model.price_in = 1;
  model.price_out = 10;
  auto provider = make(one(model));
  Request request = question();
  request.temperature = 0.5;
  const auto answer = provider->ask(request);
  ASSERT_TRUE(answer) << answer.error().error.text();
  EXPECT_EQ(answer->text, "forty-two");
  EXPECT_EQ(answer->finish, "stop");
  EXPECT_EQ(answer->prompt_tokens, 100);
  EXPECT_EQ(answer->answer_tokens, 7);
  EXPECT_NEAR(answer->usd, (100 * 1 + 7 * 10) / 1e6, 1e-12);
  EXPECT_FALSE(answer->estimated);
  const auto sent = server.received();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_TRUE(sent[0].head.starts_with("POST /v1/chat/completions")) << sent[0].head;
  const auto body = nlohmann::json::parse(sent[0].body);
  EXPECT_EQ(body.at("model"), "m");
  EXPECT_EQ(body.at("temperature"), 0.5);
  EXPECT_EQ(body.at("messages").size(), 2U);
  EXPECT_EQ(body.at("stream"), true);
  const auto calls = log_.calls();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].answer, "forty-two");
  EXPECT_EQ(calls[0].role, "mutator");
  EXPECT_EQ(calls[0].outcome, "ok");
}

TEST_F(HttpTest, PiecesOfEverySizeMakeTheSameAnswer) {
  const std::string all = chunk("a\\u00e9") + chunk("\xe2\x82\xac") + last_chunks();
  std::atomic<int> size{1};
  HttpServer server([&](Connection& c, const Received&) {
    c.stream();
    for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(size))
      if (!c.send(all.substr(i, static_cast<std::size_t>(size)))) return;
  });
  auto provider = make(one(http_model(server.url())));
  for (const int bytes : {1, 2, 3, 7, 64}) {
    size = bytes;
    const auto answer = provider->ask(question("odd", bytes));
    ASSERT_TRUE(answer) << answer.error().error.text();
    EXPECT_EQ(answer->text, "a\xc3\xa9\xe2\x82\xac") << bytes;
  }
}

TEST_F(HttpTest, ParametersOfAModelAreItsOwn) {
  HttpServer server([](Connection& c, const Received&) { c.reply(200, whole_answer("ok")); });
  Model model = http_model(server.url() + "/deployments/x/chat/completions?api-version=2");
  model.model = "served-name";
  model.temperature = false;
  model.stream = false;
  model.max_tokens = 77;
  model.max_tokens_field = "max_completion_tokens";
  model.body = R"({"top_p": 0.9, "model": null})";
  model.headers = {{"X-Title", "Sculler"}};
  auto provider = make(one(model));
  Request request = question();
  request.temperature = 1;
  ASSERT_TRUE(provider->ask(request));
  const auto sent = server.received().at(0);
  EXPECT_TRUE(sent.head.starts_with("POST /deployments/x/chat/completions?api-version=2 "))
      << sent.head;
  EXPECT_NE(sent.head.find("X-Title: Sculler"), std::string::npos);
  const auto body = nlohmann::json::parse(sent.body);
  EXPECT_FALSE(body.contains("temperature"));
  EXPECT_FALSE(body.contains("stream"));
  EXPECT_FALSE(body.contains("model"));
  EXPECT_FALSE(body.contains("max_tokens"));
  EXPECT_EQ(body.at("max_completion_tokens"), 77);
  EXPECT_EQ(body.at("top_p"), 0.9);
}

TEST_F(HttpTest, AnthropicStreamsAndWholes) {
  std::atomic<bool> stream{true};
  HttpServer server([&](Connection& c, const Received&) {
    if (!stream) {
      c.reply(
          200,
          R"({"type":"message","content":[{"type":"text","text":"whole"}],"stop_reason":"max_tokens","usage":{"input_tokens":3,"output_tokens":2}})");
      return;
    }
    c.stream();
    c.send(
        "event: message_start\ndata: "
        "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":20,"
        "\"cache_read_input_tokens\":5,\"output_tokens\":1}}}\n\n"
        "event: content_block_start\ndata: "
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","
        "\"text\":\"\"}}\n\n"
        "event: content_block_delta\ndata: "
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":"
        "\"Hi\"}}\n\n"
        "event: ping\ndata: {\"type\":\"ping\"}\n\n"
        "event: message_delta\ndata: "
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_"
        "tokens\":9}}\n\n"
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
  });
  ::setenv("SCULLER_TEST_KEY", "sk-test-0123456789", 1);
  Model model = http_model(server.url() + "/v1", "anthropic");
  model.key_env = "SCULLER_TEST_KEY";
  auto provider = make(one(model));
  const auto answer = provider->ask(question());
  ASSERT_TRUE(answer) << answer.error().error.text();
  EXPECT_EQ(answer->text, "Hi");
  EXPECT_EQ(answer->finish, "stop");
  EXPECT_EQ(answer->prompt_tokens, 25);
  EXPECT_EQ(answer->answer_tokens, 9);
  stream = false;
  const auto whole = provider->ask(question("again", 1));
  ASSERT_TRUE(whole) << whole.error().error.text();
  EXPECT_EQ(whole->text, "whole");
  EXPECT_EQ(whole->finish, "length");
  const auto sent = server.received().at(0);
  EXPECT_TRUE(sent.head.starts_with("POST /v1/messages ")) << sent.head;
  EXPECT_NE(sent.head.find("x-api-key: sk-test-0123456789"), std::string::npos);
  EXPECT_NE(sent.head.find("anthropic-version: "), std::string::npos);
  const auto body = nlohmann::json::parse(sent.body);
  EXPECT_EQ(body.at("system"), "You help.");
  EXPECT_EQ(body.at("messages").size(), 1U);
}

TEST_F(HttpTest, ConnectionsAreUsedAgain) {
  HttpServer server([](Connection& c, const Received&) { c.reply(200, whole_answer("ok")); });
  auto provider = make(one(http_model(server.url())));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(provider->ask(question("again", i)));
  EXPECT_EQ(server.requests(), 20);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(HttpTest, BusyServersAreAskedAgainWhenTheySay) {
  HttpServer server([](Connection& c, const Received& r) {
    if (r.number == 0) c.reply(429, R"({"error":{"message":"slow down"}})", "Retry-After: 1\r\n");
    else if (r.number == 1) c.reply(503, "overloaded");
    else c.reply(200, whole_answer("at last"));
  });
  auto provider = make(one(http_model(server.url())));
  const auto start = real_clock().now_ns();
  const auto answer = provider->ask(question());
  ASSERT_TRUE(answer) << answer.error().error.text();
  EXPECT_EQ(answer->text, "at last");
  EXPECT_EQ(answer->attempts, 3);
  EXPECT_GE(seconds_since(start), 1.0 + 1.0);  // Retry-After, then half of two seconds at least
  EXPECT_EQ(provider->usage().sent, 3);
}

TEST_F(HttpTest, AnHourOfRetryAfterIsNotWaitedFor) {
  HttpServer server([](Connection& c, const Received&) {
    c.reply(429, R"({"error":{"message":"slow down"}})", "Retry-After: 3600\r\n");
  });
  auto provider = make(one(http_model(server.url())));
  const auto start = real_clock().now_ns();
  EXPECT_EQ(fault_of(provider->ask(question())), Fault::kRateLimited);
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(HttpTest, OneDeadlineOverAllRetries) {
  HttpServer server([](Connection& c, const Received& r) {
    if (r.number < 2) c.reply(500, "broken");
    else c.pause(30'000);
  });
  Settings settings = one(http_model(server.url()));
  settings.timeout_s = 6;
  auto provider = make(settings);
  const auto start = real_clock().now_ns();
  const auto reply = provider->ask(question());
  EXPECT_EQ(fault_of(reply), Fault::kTimeout);
  EXPECT_GE(seconds_since(start), 5.9);
  EXPECT_LT(seconds_since(start), 15);
  EXPECT_EQ(server.requests(), 3);
}

TEST_F(HttpTest, ASlowDripEndsAtTheDeadlineAndIsPaidFor) {
  HttpServer server([](Connection& c, const Received&) {
    c.stream();
    while (c.send(chunk("drip")) && c.pause(50)) {}
  });
  Settings settings = one(http_model(server.url()));
  settings.models[0].price_out = 1'000'000;
  settings.models[0].price_in = 0;
  settings.timeout_s = 1;
  auto provider = make(settings);
  EXPECT_EQ(fault_of(provider->ask(question())), Fault::kTimeout);
  EXPECT_GT(provider->usage().usd, 1.0);  // some dozens of bytes arrived, at a dollar a token
  ASSERT_EQ(log_.calls().size(), 1U);
  EXPECT_EQ(log_.calls()[0].outcome, "timeout");
  EXPECT_TRUE(log_.calls()[0].answer.starts_with("dripdrip"));
}

TEST_F(HttpTest, DroppedConnections) {
  std::atomic<int> way{0};
  HttpServer server([&](Connection& c, const Received&) {
    c.drop();
    if (way == 0) return;
    if (way == 1) {
      c.stream();
      c.send(chunk("half an ans"));
      return;
    }
    c.send(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"choi");
  });
  Settings settings = one(http_model(server.url()));
  settings.retries = 1;
  auto provider = make(settings);
  EXPECT_EQ(fault_of(provider->ask(question("gone", 0))), Fault::kUnreachable);
  EXPECT_EQ(server.requests(), 2);
  way = 1;
  EXPECT_EQ(fault_of(provider->ask(question("half", 1))), Fault::kHalf);
  way = 2;
  EXPECT_EQ(fault_of(provider->ask(question("half", 2))), Fault::kHalf);
}

TEST_F(HttpTest, TooMuchIsCutOff) {
  std::atomic<int> way{0};
  HttpServer server([&](Connection& c, const Received&) {
    const std::string big(1 << 20, 'x');
    if (way == 0) {
      c.stream();
      while (c.send(chunk(big))) {}
    } else if (way == 1) {
      c.drop();
      c.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"choices\":[");
      while (c.send(big)) {}
    } else if (way == 2) {
      c.stream();
      c.send("data: ");
      while (c.send(big)) {}
    } else {
      c.drop();
      c.send("HTTP/1.1 200 OK\r\n");
      while (c.send("X-Flood: " + big.substr(0, 60'000) + "\r\n")) {}
    }
  });
  Settings settings = one(http_model(server.url()));
  settings.stop_after = 0;
  auto provider = make(settings);
  for (way = 0; way < 4; ++way)
    EXPECT_EQ(fault_of(provider->ask(question("endless", way))), Fault::kTooBig) << way;
  // Ten megabytes, all there at once, are more than the one that is allowed.
  HttpServer ten([](Connection& c, const Received&) {
    c.reply(200, whole_answer(std::string(10'000'000, 'y')));
  });
  provider = make(one(http_model(ten.url())));
  EXPECT_EQ(fault_of(provider->ask(question())), Fault::kTooBig);
}

TEST_F(HttpTest, BadAnswersHaveNamesOfTheirOwn) {
  struct Case {
    std::string body;
    Fault fault;
  };
  const std::vector<Case> cases = {
      {"", Fault::kMalformed},
      {"[1,2]", Fault::kMalformed},
      {"{\"choices\":[]}", Fault::kMalformed},
      {"not json at all", Fault::kMalformed},
      {whole_answer(""), Fault::kMalformed},
      {whole_answer("a \xff byte"), Fault::kEncoding},
      {R"({"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"shell","arguments":""}}]},"finish_reason":"tool_calls"}]})",
       Fault::kMalformed},
      {std::string(200'000, '['), Fault::kMalformed},
      {R"({"error":{"message":"out of memory"}})", Fault::kServer}};
  std::atomic<std::size_t> at{0};
  HttpServer server([&](Connection& c, const Received&) { c.reply(200, cases[at].body); });
  Settings settings = one(http_model(server.url()));
  settings.retries = 0;
  auto provider = make(settings);
  for (at = 0; at < cases.size(); ++at) {
    EXPECT_EQ(fault_of(provider->ask(question("bad", static_cast<int64_t>(at)))), cases[at].fault)
        << cases[at].body.substr(0, 80);
  }
}

TEST_F(HttpTest, RefusalsEndTheRunAndRejectionsDoNot) {
  std::atomic<int> status{401};
  HttpServer server([&](Connection& c, const Received&) {
    c.reply(status, R"({"error":{"message":"no","code":"why"}})",
            "Location: http://127.0.0.1:1/\r\n");
  });
  for (const int code : {401, 403, 404, 302}) {
    status = code;
    auto provider = make(one(http_model(server.url())));
    const auto reply = provider->ask(question());
    EXPECT_EQ(fault_of(reply), Fault::kRefused) << code;
    EXPECT_TRUE(reply.error().stops_run());
    EXPECT_NE(reply.error().error.message.find("no (why)"), std::string::npos)
        << reply.error().error.message;
    const int before = server.requests();
    EXPECT_EQ(fault_of(provider->ask(question("again", 1))), Fault::kRefused);
    EXPECT_EQ(server.requests(), before) << "a refused endpoint is not asked again";
  }
  status = 400;
  auto provider = make(one(http_model(server.url())));
  const auto reply = provider->ask(question());
  EXPECT_EQ(fault_of(reply), Fault::kRejected);
  EXPECT_FALSE(reply.error().stops_run());
}

TEST_F(HttpTest, ADeadEndpointEndsTheRunInsteadOfSpinning) {
  std::string url;
  {
    HttpServer gone([](Connection&, const Received&) {});
    url = gone.url();
  }
  Settings settings = one(http_model(url));
  settings.stop_after = 3;
  settings.stop_after_s = 0.5;
  auto provider = make(settings);
  const auto start = real_clock().now_ns();
  const auto reply = provider->ask(question());
  EXPECT_EQ(fault_of(reply), Fault::kDown);
  EXPECT_TRUE(reply.error().stops_run());
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_EQ(provider->usage().sent, 3);
  EXPECT_EQ(fault_of(provider->ask(question("later", 1))), Fault::kDown);
  EXPECT_EQ(provider->usage().sent, 3);
}

TEST_F(HttpTest, AnotherModelStandsInForOneThatIsDown) {
  HttpServer bad([](Connection& c, const Received&) { c.reply(401, "{}"); });
  HttpServer good([](Connection& c, const Received&) { c.reply(200, whole_answer("here")); });
  Settings settings = one(http_model(bad.url()));
  settings.models.push_back(http_model(good.url()));
  settings.models[0].weight = 1e6;
  settings.models[1].name = "other";
  auto provider = make(settings);
  const auto answer = provider->ask(question());
  ASSERT_TRUE(answer) << answer.error().error.text();
  EXPECT_EQ(answer->model, "other");
}

TEST_F(HttpTest, StopEndsEveryWaitAtOnce) {
  HttpServer server([](Connection& c, const Received& r) {
    if (r.number % 2 == 0) c.pause(60'000);
    else c.reply(503, "later", "Retry-After: 50\r\n");
  });
  Settings settings = one(http_model(server.url()));
  settings.timeout_s = 100;
  settings.parallel = 6;
  auto provider = make(settings);
  std::vector<std::thread> threads;
  std::atomic<int> cancelled{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto reply = provider->ask(question("wait", i));
      if (!reply && reply.error().fault == Fault::kCancelled) ++cancelled;
    });
  }
  while (server.requests() < 2) std::this_thread::yield();
  const auto start = real_clock().now_ns();
  provider->stop();
  for (auto& thread : threads) thread.join();
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_EQ(cancelled, 8);
  EXPECT_EQ(fault_of(provider->ask(question("late", 9))), Fault::kCancelled);
}

TEST_F(HttpTest, JsonAnswersByTheServersMeansOrInWords) {
  const std::string schema =
      R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]})";
  // Knows no response_format at all.
  HttpServer server([](Connection& c, const Received& r) {
    if (r.body.find("response_format") != std::string::npos)
      c.reply(400, R"({"error":{"message":"unknown field: response_format"}})");
    else c.reply(200, whole_answer("Sure! ```json\\n{\\\"n\\\": 4}\\n```"));
  });
  auto provider = make(one(http_model(server.url())));
  Request request = question();
  request.schema = schema;
  const auto answer = provider->ask(request);
  ASSERT_TRUE(answer) << answer.error().error.text();
  EXPECT_EQ(answer->text, "{\"n\":4}");
  EXPECT_EQ(server.requests(), 3);  // json_schema, json_object, words
  request.index = 1;
  ASSERT_TRUE(provider->ask(request));
  EXPECT_EQ(server.requests(), 4);  // learnt
}

TEST_F(HttpTest, OneRepairAndNoMore) {
  const std::string schema = R"({"type":"object","required":["n"]})";
  std::atomic<bool> learns{true};
  HttpServer server([&](Connection& c, const Received& r) {
    const bool repair = r.body.find("cannot be used") != std::string::npos;
    c.reply(200, whole_answer(repair && learns ? "{\\\"n\\\": 1}" : "I would rather not."));
  });
  auto provider = make(one(http_model(server.url())));
  Request request = question();
  request.schema = schema;
  const auto answer = provider->ask(request);
  ASSERT_TRUE(answer) << answer.error().error.text();
  EXPECT_EQ(answer->text, "{\"n\":1}");
  EXPECT_TRUE(answer->repaired);
  EXPECT_EQ(answer->prompt_tokens, 20);
  ASSERT_EQ(log_.calls().size(), 2U);
  EXPECT_EQ(log_.calls()[1].question, "000000-mutator.repair");
  learns = false;
  request.index = 1;
  EXPECT_EQ(fault_of(provider->ask(request)), Fault::kSchema);
  EXPECT_EQ(server.requests(), 4);
}

}  // namespace
}  // namespace sculler::llm
