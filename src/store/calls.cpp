#include "store/calls.h"

#include <map>
#include <mutex>

#include "store/calls_on.h"

namespace sculler::store {
namespace {

constexpr const char* kColumns =
    "role,model,question,tokens_in,tokens_out,usd,prompt,prompt_sha,answer,outcome,t";

LlmCall call_of(const Statement& s) {
  return {s.text(0), s.text(1), s.text(2), s.integer(3), s.integer(4), s.real(5),
          s.text(6), s.text(7), s.text(8), s.text(9),    s.integer(10)};
}

class SqliteCalls final : public Calls {
 public:
  SqliteCalls(std::shared_ptr<Connection> connection, Clock& clock)
      : connection_(std::move(connection)), clock_(clock) {}

  Status prepare() {
    const std::lock_guard lock(connection_->mutex);
    const std::string columns = kColumns;
    const std::pair<Statement*, std::string> all[] = {
        {&add_, "INSERT INTO llm_call(" + columns + ") VALUES(?,?,?,?,?,?,?,?,?,?,?)"},
        {&find_,
         "SELECT " + columns +
             " FROM llm_call WHERE question=? AND prompt_sha=? AND outcome='ok' ORDER BY id "
             "DESC LIMIT 1"},
        {&reward_, "INSERT INTO llm_reward(model,worth,t) VALUES(?,?,?)"},
        {&totals_,
         "SELECT model,count(*),sum(tokens_in),sum(tokens_out),total(usd) FROM llm_call GROUP BY "
         "model"},
        {&rewards_, "SELECT model,count(*),total(worth) FROM llm_reward GROUP BY model"},
        {&all_, "SELECT " + columns + " FROM llm_call ORDER BY id"}};
    for (const auto& [statement, sql] : all) {
      auto made = connection_->database.prepare(sql.c_str());
      if (!made) return fail(made.error());
      *statement = std::move(*made);
    }
    return {};
  }

  Status add(const LlmCall& call) override {
    const std::lock_guard lock(connection_->mutex);
    return add_.begin()
        .bind(call.role)
        .bind(call.model)
        .bind(call.question)
        .bind(call.prompt_tokens)
        .bind(call.answer_tokens)
        .bind(call.usd)
        .bind(call.prompt)
        .bind(call.prompt_sha)
        .bind(call.answer)
        .bind(call.outcome)
        .bind(clock_.wall_ms())
        .run();
  }

  Result<std::optional<LlmCall>> find(std::string_view question,
                                      std::string_view prompt_sha) override {
    const std::lock_guard lock(connection_->mutex);
    Statement& s = find_.begin().bind(question).bind(prompt_sha);
    auto row = s.step();
    if (!row) return fail(row.error());
    if (!*row) return std::optional<LlmCall>();
    auto call = call_of(s);
    s.begin();
    return std::optional(std::move(call));
  }

  Status add_reward(std::string_view model, double worth) override {
    const std::lock_guard lock(connection_->mutex);
    return reward_.begin().bind(model).bind(worth).bind(clock_.wall_ms()).run();
  }

  Result<std::vector<LlmTotal>> totals() override {
    const std::lock_guard lock(connection_->mutex);
    std::map<std::string, LlmTotal> by_name;
    if (auto ok = rows(totals_,
                       [&](const Statement& s) {
                         auto& total = by_name[s.text(0)];
                         total.calls = s.integer(1);
                         total.prompt_tokens = s.integer(2);
                         total.answer_tokens = s.integer(3);
                         total.usd = s.real(4);
                       });
        !ok) {
      return fail(ok.error());
    }
    if (auto ok = rows(rewards_,
                       [&](const Statement& s) {
                         auto& total = by_name[s.text(0)];
                         total.rewards = s.integer(1);
                         total.worth = s.real(2);
                       });
        !ok) {
      return fail(ok.error());
    }
    std::vector<LlmTotal> out;
    for (auto& [name, total] : by_name) {
      total.model = name;
      out.push_back(total);
    }
    return out;
  }

  Status each(const std::function<void(const LlmCall&)>& visit) override {
    const std::lock_guard lock(connection_->mutex);
    return rows(all_, [&](const Statement& s) { visit(call_of(s)); });
  }

 private:
  static Status rows(Statement& statement, const std::function<void(const Statement&)>& visit) {
    Statement& s = statement.begin();
    for (;;) {
      auto row = s.step();
      if (!row) return fail(row.error());
      if (!*row) return {};
      visit(s);
    }
  }

  std::shared_ptr<Connection> connection_;
  Clock& clock_;
  Statement add_, find_, reward_, totals_, rewards_, all_;
};

}  // namespace

Result<std::unique_ptr<Calls>> calls_on(std::shared_ptr<Connection> connection, Clock& clock) {
  auto calls = std::make_unique<SqliteCalls>(std::move(connection), clock);
  if (auto ok = calls->prepare(); !ok) return fail(ok.error());
  return std::unique_ptr<Calls>(std::move(calls));
}

Result<std::unique_ptr<Calls>> Calls::open(const std::string& path, Clock& clock) {
  auto database = Database::open(path);
  if (!database) return fail(database.error());
  if (auto ok = database->execute("PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=60000; PRAGMA "
                                  "wal_autocheckpoint=4000;");
      !ok)
    return fail(ok.error());
  return calls_on(std::make_shared<Connection>(std::move(*database)), clock);
}

}  // namespace sculler::store
