// A language model's endpoint for the comparison: OpenAI's chat completions on a port of 127.0.0.1,
// the same for every system that asks. An answer is a function of the question and its number: the
// line of the program that holds a value, changed to the next one.
//   endpoint [DELAY_MS] [DIE_AFTER] [FAULT_AT] [FAULT]
// Its URL is the first line on stdout. After DIE_AFTER answers it is gone (0: never). In answer
// FAULT_AT and the one behind it the value is the expression FAULT. GET /seen: when
// the first question came and the last answer went (CLOCK_MONOTONIC, ns), and how many of each.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "fakes/http_server.h"

using namespace sculler;

namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Seen {
  std::atomic<int64_t> first_ns{0}, last_ns{0};
  std::atomic<int> questions{0}, programs{0}, answers{0};
};

// The line that holds the value, in the program that is to be changed: each system's prompt has it
// below a heading of its own.
std::string_view value_line(std::string_view prompt) {
  std::size_t from = 0;
  for (const std::string_view heading :
       {"## The program\n", "# Current Program\n", "# Current program\n"}) {
    const auto at = prompt.find(heading);
    if (at != std::string_view::npos) {
      from = at;
      break;
    }
  }
  auto at = prompt.find("value = ", from);
  if (at == std::string_view::npos) return {};
  const auto begin = prompt.rfind('\n', at) + 1;
  return prompt.substr(begin, prompt.find('\n', at) - begin);
}

std::string answer_to(std::string_view prompt, const std::string& value) {
  const auto line = value_line(prompt);
  if (line.empty()) return "What holds: nothing. What to try: another value.";
  const std::string changed = std::string(line.substr(0, line.find("value = ") + 8)) + value +
                              (line.ends_with(';') ? ";" : "");
  const std::string diff =
      "<<<<<<< SEARCH\n" + std::string(line) + "\n=======\n" + changed + "\n>>>>>>> REPLACE\n";
  if (prompt.find("<DIFF>") == std::string_view::npos) return "Another value.\n" + diff;
  return "<NAME>\nvalue_" + value + "\n</NAME>\n<DESCRIPTION>\nAnother value.\n</DESCRIPTION>\n" +
         "<DIFF>\n" + diff + "</DIFF>\n";
}

std::string prompt_of(const nlohmann::json& body) {
  std::string out;
  for (const auto& message : body.value("messages", nlohmann::json::array())) {
    const auto content = message.find("content");
    if (content == message.end()) continue;
    if (content->is_string()) out += content->get<std::string>() + "\n";
    else
      for (const auto& part : *content) out += part.value("text", "") + "\n";
  }
  return out;
}

std::string whole(const std::string& text, const std::string& model, std::size_t prompt_bytes) {
  const nlohmann::json usage{{"prompt_tokens", prompt_bytes / 4},
                             {"completion_tokens", text.size() / 4},
                             {"total_tokens", (prompt_bytes + text.size()) / 4}};
  return nlohmann::json{{"id", "null"},
                        {"object", "chat.completion"},
                        {"created", 0},
                        {"model", model},
                        {"choices",
                         {{{"index", 0},
                           {"message", {{"role", "assistant"}, {"content", text}}},
                           {"finish_reason", "stop"}}}},
                        {"usage", usage}}
      .dump();
}

std::string stream(const std::string& text, std::size_t prompt_bytes) {
  const nlohmann::json piece{
      {"choices", {{{"index", 0}, {"delta", {{"content", text}}}, {"finish_reason", nullptr}}}}},
      end{{"choices",
           {{{"index", 0}, {"delta", nlohmann::json::object()}, {"finish_reason", "stop"}}}}},
      usage{
          {"choices", nlohmann::json::array()},
          {"usage", {{"prompt_tokens", prompt_bytes / 4}, {"completion_tokens", text.size() / 4}}}};
  return "data: " + piece.dump() + "\n\ndata: " + end.dump() + "\n\ndata: " + usage.dump() +
         "\n\ndata: [DONE]\n\n";
}

int argument(char** argv, int argc, int at) { return argc > at ? std::atoi(argv[at]) : 0; }

}  // namespace

int main(int argc, char** argv) {
  const int delay_ms = argument(argv, argc, 1), die_after = argument(argv, argc, 2),
            fault_at = argument(argv, argc, 3);
  const std::string fault = argc > 4 ? argv[4] : "0";
  Seen seen;
  fakes::HttpServer server([&](fakes::Connection& connection, const fakes::Received& request) {
    if (request.head.starts_with("GET /seen")) {
      connection.reply(200, nlohmann::json{{"first_ns", seen.first_ns.load()},
                                           {"last_ns", seen.last_ns.load()},
                                           {"questions", seen.questions.load()},
                                           {"programs", seen.programs.load()},
                                           {"answers", seen.answers.load()}}
                                .dump());
      return;
    }
    int64_t none = 0;
    seen.first_ns.compare_exchange_strong(none, now_ns());
    ++seen.questions;
    const auto body = nlohmann::json::parse(request.body, nullptr, false);
    if (!body.is_object()) {
      connection.reply(400, R"({"error":{"message":"no JSON object"}})");
      return;
    }
    const std::string prompt = prompt_of(body);
    const bool program = !value_line(prompt).empty();
    const int number = program ? ++seen.programs : 0;
    if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    const bool faulty = fault_at > 0 && (number == fault_at || number == fault_at + 1);
    const std::string text = answer_to(prompt, faulty ? fault : std::to_string(1'000'000 + number));
    if (body.value("stream", false)) {
      const std::string events = stream(text, prompt.size());
      connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " +
                      std::to_string(events.size()) + "\r\n\r\n" + events);
    } else {
      connection.reply(200, whole(text, body.value("model", "null"), prompt.size()));
    }
    seen.last_ns = now_ns();
    if (++seen.answers == die_after) ::_exit(0);
  });
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  for (;;) ::pause();
}
