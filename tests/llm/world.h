// What tests of providers share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "fakes/http_server.h"
#include "llm/make.h"
#include "llm/tape.h"
#include "support/temp_folder.h"

namespace sculler::llm {

// Keeps calls in memory.
class MemoryLog final : public CallLog {
 public:
  Status add(const Call& call) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    return {};
  }
  Result<std::optional<Call>> find(std::string_view question, std::string_view sha) override {
    const std::lock_guard lock(mutex_);
    for (const auto& call : calls_) {
      if (call.question == question && call.prompt_sha == sha && call.outcome == "ok") return call;
    }
    return std::optional<Call>();
  }
  Status add_reward(std::string_view model, double worth) override {
    const std::lock_guard lock(mutex_);
    rewards_.emplace_back(model, worth);
    return {};
  }
  Result<std::vector<Total>> totals() override {
    const std::lock_guard lock(mutex_);
    std::map<std::string, Total> by_name;
    for (const auto& call : calls_) {
      auto& total = by_name[call.model];
      total.model = call.model;
      ++total.calls;
      total.prompt_tokens += call.prompt_tokens;
      total.answer_tokens += call.answer_tokens;
      total.usd += call.usd;
    }
    for (const auto& [name, worth] : rewards_) {
      auto& total = by_name[name];
      total.model = name;
      ++total.rewards;
      total.worth += worth;
    }
    std::vector<Total> out;
    for (const auto& [name, total] : by_name) out.push_back(total);
    return out;
  }
  [[nodiscard]] std::vector<Call> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Call> calls_;
  std::vector<std::pair<std::string, double>> rewards_;
};

inline Request question(std::string text = "What is the answer?", int64_t index = 0) {
  Request request;
  request.messages = {{"system", "You help."}, {"user", std::move(text)}};
  request.role = "mutator";
  request.index = index;
  return request;
}

inline Model http_model(const std::string& url, const std::string& provider = "openai") {
  Model model;
  model.name = "m";
  model.provider = provider;
  model.url = url;
  return model;
}

// One line of a stream of chat completions. Scripted: no model wrote these answers.
inline std::string chunk(const std::string& text) {
  return "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + text + "\"}}]}\n\n";
}
inline std::string last_chunks(int in = 10, int out = 5) {
  return "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":" +
         std::to_string(in) + ",\"completion_tokens\":" + std::to_string(out) +
         "}}\n\ndata: [DONE]\n\n";
}
inline std::string whole_answer(const std::string& text, int in = 10, int out = 5) {
  return "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"" + text +
         "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":" + std::to_string(in) +
         ",\"completion_tokens\":" + std::to_string(out) + "}}";
}

class ProviderTest : public testing::Test {
 protected:
  std::unique_ptr<Provider> make(const Settings& settings) {
    auto provider = make_provider(settings, around_);
    if (!provider) {
      ADD_FAILURE() << provider.error().text();
      return nullptr;
    }
    return std::move(*provider);
  }
  static Settings one(const Model& model) {
    Settings settings;
    settings.models = {model};
    settings.timeout_s = 20;
    return settings;
  }
  static Fault fault_of(const Reply& reply) {
    EXPECT_FALSE(reply) << "answered: " << (reply ? reply->text : "");
    return reply ? Fault::kMismatch : reply.error().fault;
  }
  MemoryLog log_;
  FakeClock fake_clock_;
  Surroundings around_{real_files(), real_clock(), real_processes(), nullptr, &log_};
};

}  // namespace sculler::llm
