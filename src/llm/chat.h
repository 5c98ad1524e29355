// The provider of a run: chooses a model, checks the context, sets the cost aside, asks, waits and
// asks again, repairs, keeps what was said. Its parts stand in their own files.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llm/backend.h"
#include "llm/budget.h"
#include "llm/choose.h"
#include "llm/health.h"
#include "llm/http.h"
#include "llm/make.h"
#include "llm/prices.h"
#include "llm/secrets.h"

namespace sculler::llm {

// A model of the run and what is known about it.
struct Member {
  Member(Model m, std::unique_ptr<Backend> b, int64_t stop_after, int64_t grace_ns)
      : model(std::move(m)), backend(std::move(b)), health(stop_after, grace_ns) {}
  Model model;
  std::unique_ptr<Backend> backend;
  Health health;
  double price_in = 0, price_out = 0;  // USD a million tokens
  int64_t context = 0, max_tokens = 0;
  // The least seen of long prompts; a text of ordinary English or code has 3 to 4.
  std::atomic<double> bytes_per_token{3.2};
  // How many ways to ask for JSON the server turned out not to know.
  std::atomic<int> schema_steps{0};
  [[nodiscard]] bool serves(std::string_view role) const;
  [[nodiscard]] double usd(int64_t prompt_tokens, int64_t answer_tokens) const;
};

class Chat final : public Provider {
 public:
  Chat(Settings settings, const Surroundings& around, std::unique_ptr<Http> http,
       std::vector<std::unique_ptr<Member>> members, Secrets secrets,
       const std::vector<CallLog::Total>& before);
  [[nodiscard]] Reply ask(const Request& request) override;
  void stop() override;
  void reward(std::string_view model, double worth) override;
  [[nodiscard]] Usage usage() const override;
  [[nodiscard]] std::vector<std::string> models() const override;

 private:
  struct Asking;  // one ask() in progress
  [[nodiscard]] Reply live(const Request& request, int64_t start_ns);
  [[nodiscard]] Reply ask_member(Member& member, Asking& asking);
  // One question until it is answered, recorded or lost.
  [[nodiscard]] tl::expected<Raw, Failure> question(Member& member, Asking& asking,
                                                    const Request& request,
                                                    const std::string& name);
  [[nodiscard]] tl::expected<Raw, Failure> attempts(Member& member, Asking& asking,
                                                    const Request& request,
                                                    const std::string& name);
  [[nodiscard]] tl::expected<Raw, Failure> send(Member& member, Asking& asking,
                                                const Request& request, Question& question,
                                                RawFailure& lost);
  [[nodiscard]] Status keep(const Member& member, const Asking& asking, const Request& request,
                            const std::string& name, const Raw& raw, double usd,
                            std::string_view outcome);
  [[nodiscard]] tl::expected<void, Failure> enter(int64_t deadline_ns);
  void leave();

  Settings settings_;
  Files& files_;
  Clock& clock_;
  CallLog* log_;
  Tape* tape_;
  int64_t seed_;
  bool resumed_;
  std::unique_ptr<Http> http_;
  Secrets secrets_;
  std::vector<std::unique_ptr<Member>> members_;
  Stop stop_;
  Budget budget_;
  Chooser chooser_;
  mutable std::mutex mutex_;
  std::condition_variable left_;
  int64_t inside_ = 0;
  Usage usage_;
};

}  // namespace sculler::llm
