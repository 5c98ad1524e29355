#include "search/beam/writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "base/json.h"
#include "base/random.h"
#include "base/strings.h"
#include "search/program_answer.h"

namespace sculler::search::beam {
namespace {

using agent::Role;

Role role_of(Task::Kind kind) {
  switch (kind) {
    case Task::Kind::kPlan: return Role::kPlanner;
    case Task::Kind::kKernel: return Role::kExecutor;
    case Task::Kind::kFix: return Role::kFixer;
    case Task::Kind::kLesson: break;
  }
  return Role::kSummarizer;
}

std::string title_of(const Kernel& kernel) {
  return agent::one_line(fmt::format("program {} ({}): {}", kernel.program,
                                     kernel.candidate.source->name, kernel.line),
                         300);
}

}  // namespace

std::string Task::name() const {
  llm::Request request;
  request.role = agent::role_name(role_of(kind));
  request.index = index;
  request.step = step;
  return request.name();
}

Writer::Writer(llm::Provider& provider, BeamSettings settings, Brief brief)
    : provider_(provider), settings_(std::move(settings)), brief_(std::move(brief)) {
  auto& constants = brief_.constants;
  constants.texts["topology"] = {topology_text(brief_.topology), {}, 0};
  constants.flags["device_code"] = brief_.device_code;
  constants.flags["directive_with_code"] = brief_.device_code;
  constants.flags["whole_file"] = settings_.whole_file;
  constants.flags["blocks_only"] = !settings_.whole_file;
  fillers_ = agent::make_fillers(brief_.library, constants, brief_.context_bytes);
}

Status Writer::check() const {
  const std::vector<std::string> known = {
      "files",    "given_files", "has_given_files", "parent",    "evidence",
      "plan",     "memory",      "has_memory",      "tried",     "positive",
      "tunables", "directive",   "speedup",         "has_files", "has_more_knowledge",
      "cut"};
  for (const Role role : {Role::kPlanner, Role::kExecutor, Role::kSummarizer, Role::kFixer})
    if (auto ok = fillers_[static_cast<std::size_t>(role)].check(known); !ok) return ok;
  return {};
}

agent::Fill Writer::fill_of(const Task& task) const {
  agent::Fill fill;
  const Candidate& candidate = task.program->candidate;
  fill.lists["files"] = files_of(*candidate.source, 0);
  fill.lists["given_files"] =
      task.other ? files_of(*task.other->candidate.source, task.kind == Task::Kind::kFix ? 30 : 0)
                 : std::vector<agent::Item>();
  fill.texts["parent"] = {title_of(*task.program), {}, 0};
  fill.texts["evidence"] = {task.profile, "text", 70};
  fill.texts["plan"] = {task.plan, "text", 0};
  fill.texts["tried"] = {task.tried, "text", 40};
  fill.texts["tunables"] = {source::print(candidate.defines), {}, 0};
  fill.texts["directive"] = {candidate.source->has_directive
                                 ? dump_json(to_json(candidate.source->directive))
                                 : std::string(),
                             {},
                             0};
  fill.texts["speedup"] = {task.speedup, {}, 0};
  fill.lists["memory"] = task.memory ? *task.memory : std::vector<agent::Item>();
  fill.flags["positive"] = task.positive;
  return fill;
}

bool Writer::ask(const llm::Request& request, Done& done, std::string& answer) const {
  auto reply = provider_.ask(request);
  if (!reply) {
    done.outcome = llm::fault_name(reply.error().fault);
    done.failure = reply.error().error.text();
    if (reply.error().stops_run()) done.stop = reply.error();
    return false;
  }
  done.model = reply->model;
  done.usd += reply->usd;
  answer = std::move(reply->text);
  return true;
}

Status Writer::read(const Task& task, const std::string& answer, Done& done) const {
  const Source& source = *task.program->candidate.source;
  if (task.kind == Task::Kind::kPlan) {
    auto plan = agent::parse_plan(answer, task.profile, task.memory ? task.memory->size() : 0);
    if (!plan) return fail(plan.error());
    done.plan = std::move(*plan);
    return {};
  }
  if (task.kind == Task::Kind::kLesson) {
    auto lesson = agent::parse_lesson(answer, source.text, task.other->candidate.source->text);
    if (!lesson) return fail(lesson.error());
    done.lesson = std::move(*lesson);
    return {};
  }
  AnswerRules rules;
  rules.scope = settings_.whole_file ? source::Scope::kFile : source::Scope::kBlocks;
  if (brief_.device_code && source.has_directive) {
    rules.directive = source.directive;
    rules.may_choose = true;
    rules.check = [&](const directive::Directive& d) {
      return directive::check(d, brief_.topology, "answer");
    };
  }
  const std::string name = task.kind == Task::Kind::kFix
                               ? fmt::format("kernel-{}-fix-{}", task.index, task.fix)
                               : fmt::format("kernel-{}", task.index);
  auto program = program_of_answer(source, answer, std::move(rules), name);
  if (!program) return fail(program.error());
  done.source = std::move(program->source);
  done.why = std::move(program->why);
  return {};
}

Done Writer::carry_out(std::shared_ptr<const Task> task) const {
  Done done;
  done.task = std::move(task);
  const Task& t = *done.task;
  const Role role = role_of(t.kind);
  auto prompt = fillers_[static_cast<std::size_t>(role)].fill(fill_of(t));
  if (!prompt) {
    done.outcome = "too_long";
    done.failure = prompt.error().text();
    return done;
  }
  llm::Request request;
  request.role = agent::role_name(role);
  request.index = t.index;
  request.step = t.step;
  request.messages = std::move(prompt->messages);
  request.temperature = t.kind == Task::Kind::kLesson ? 0 : settings_.temperature;
  if (t.kind == Task::Kind::kPlan) request.schema = agent::plan_schema();
  if (t.kind == Task::Kind::kLesson) request.schema = agent::lesson_schema();
  for (int64_t attempt = 0;; ++attempt) {
    std::string answer;
    if (!ask(request, done, answer)) return done;
    const Status ok = read(t, answer, done);
    if (ok) {
      done.outcome = "ok";
      return done;
    }
    if (attempt >= settings_.retries) {
      done.outcome = "refused";
      done.failure = ok.error().text();
      return done;
    }
    agent::object(request, answer, ok.error().text());
  }
}

std::string shuffled_profile(const std::string& evidence, uint64_t seed, int64_t salt) {
  // Indented lines belong to the one above them.
  std::vector<std::string> blocks;
  if (trim(evidence).empty()) return {};
  for (const auto line : split(trim(evidence), '\n')) {
    if (blocks.empty() || !(line.starts_with(' ') || line.starts_with('\t'))) blocks.emplace_back();
    (blocks.back() += line) += '\n';
  }
  Random random(seed, fmt::format("profile {}", salt));
  for (std::size_t i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[random.below(i)]);
  return join(blocks, "");
}

}  // namespace sculler::search::beam
