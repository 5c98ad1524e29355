// Scripted stand-ins for what the cascade drives.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "eval/cascade.h"

namespace sculler::eval {

class FakeLinter final : public Linter {
 public:
  std::optional<LintProblem> problem{};
  std::optional<LintProblem> lint(const Job&, const task::Task&, const task::Profile*) override {
    return problem;
  }
};

class FakeCompiler final : public Compiler {
 public:
  CompileOutcome outcome{.ok = true, .artifact = "/cache/a.so", .sha256 = std::string(64, '9')};
  std::vector<CompileRequest> requests;
  CompileOutcome compile(const CompileRequest& request) override {
    requests.push_back(request);
    return outcome;
  }
};

// Each group answers by the script, which sees job.json, rank.json and how often this group was
// asked.
class FakeLauncher final : public Launcher {
 public:
  struct Asked {
    Target target;
    nlohmann::json job, rank;
    Environment env;
  };
  using Script = std::function<std::string(const Asked&, const std::string& line, int turn)>;
  Script script;
  std::vector<Asked> asked;

  Result<std::unique_ptr<Group>> start(const GroupSpec& spec) override {
    asked.push_back({spec.target, nlohmann::json::parse(spec.job_json),
                     nlohmann::json::parse(spec.rank_json), spec.env});
    return std::make_unique<FakeGroup>(*this, asked.back());
  }

 private:
  class FakeGroup final : public Group {
   public:
    FakeGroup(FakeLauncher& owner, Asked asked) : owner_(owner), asked_(std::move(asked)) {}
    Result<std::string> ask(const std::string& line, int64_t) override {
      last_ = owner_.script(asked_, line, turn_++);
      if (last_.empty()) return fail(ErrorCode::kChildFailed, "gone");
      return last_;
    }
    GroupOutcome finish(int64_t) override {
      GroupOutcome out;
      out.line = last_;
      return out;
    }

   private:
    FakeLauncher& owner_;
    Asked asked_;
    int turn_ = 0;
    std::string last_;
  };
};

}  // namespace sculler::eval
