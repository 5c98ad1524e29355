#include "search/call_log.h"

namespace sculler::search {
namespace {

class StoreLog final : public llm::CallLog {
 public:
  explicit StoreLog(store::Calls& calls) : calls_(calls) {}

  Status add(const llm::Call& call) override {
    return calls_.add({call.role, call.model, call.question, call.prompt_tokens, call.answer_tokens,
                       call.usd, call.prompt, call.prompt_sha, call.answer, call.outcome, 0});
  }

  Result<std::optional<llm::Call>> find(std::string_view question,
                                        std::string_view prompt_sha) override {
    auto found = calls_.find(question, prompt_sha);
    if (!found) return fail(found.error());
    if (!*found) return std::optional<llm::Call>();
    store::LlmCall& call = **found;
    return std::optional(llm::Call{call.role, call.model, call.question, call.prompt_tokens,
                                   call.answer_tokens, call.usd, std::move(call.prompt),
                                   std::move(call.prompt_sha), std::move(call.answer),
                                   std::move(call.outcome)});
  }

  Status add_reward(std::string_view model, double worth) override {
    return calls_.add_reward(model, worth);
  }

  Result<std::vector<Total>> totals() override {
    auto totals = calls_.totals();
    if (!totals) return fail(totals.error());
    std::vector<Total> out;
    for (const auto& t : *totals)
      out.push_back(
          {t.model, t.calls, t.prompt_tokens, t.answer_tokens, t.usd, t.rewards, t.worth});
    return out;
  }

 private:
  store::Calls& calls_;
};

}  // namespace

std::unique_ptr<llm::CallLog> make_call_log(store::Calls& calls) {
  return std::make_unique<StoreLog>(calls);
}

}  // namespace sculler::search
