#include "search/evolve/proposer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/evidence.h"
#include "agent/fence.h"
#include "base/json.h"
#include "base/strings.h"
#include "search/program_answer.h"

namespace sculler::search {
namespace {

constexpr std::size_t kEvidence = 6000, kMeasured = 2000, kSummary = 6000;

using agent::Role;

std::string directive_text(const directive::Directive& d) { return dump_json(to_json(d)); }

std::string member_title(const Member& m) {
  return agent::one_line(
      fmt::format("program {} ({}), directive {}: {}", m.program, m.candidate.source->name,
                  m.candidate.source->has_directive ? print(m.candidate.source->directive) : "none",
                  m.line),
      300);
}

constexpr const char* kDirectiveSchema =
    R"({"type":"object","properties":{"backend":{"enum":["none","lsa","gin","hybrid"]},)"
    R"("issuer":{"enum":["thread","warp","cta","copy_engine"]},)"
    R"("placement":{"enum":["sequential","stream_overlap","split_phase","kernel_fused","tile_fused"]},)"
    R"("sync":{"enum":["global","peer","tile"]},"granularity":{"type":"integer","minimum":0},)"
    R"("why":{"type":"string"}},"required":["backend","issuer","placement","sync","granularity","why"],)"
    R"("additionalProperties":false})";

}  // namespace

std::string topology_text(const directive::Topology& t) {
  return fmt::format(
      "{} ranks, {} a node; load/store access between peers of a node: {}; GIN: {}; NCCL headers "
      "{}",
      t.n_ranks, t.ranks_per_node, t.lsa ? "yes" : "no", t.gin ? "yes" : "no",
      t.nccl_version == 0 ? std::string("none")
                          : fmt::format("{}.{}.{}", t.nccl_version / 10000,
                                        t.nccl_version / 100 % 100, t.nccl_version % 100));
}

std::vector<agent::Item> files_of(const Source& source, int order) {
  std::vector<agent::Item> out;
  for (const auto& file : source.files)
    out.push_back({file.name, {file.text, file.name.ends_with(".cpp") ? "cpp" : "cuda", order}});
  return out;
}

std::string Proposal::name() const {
  llm::Request request;
  request.index = index;
  request.role = kind == Kind::kSummary ? "meta" : "mutator";
  return request.name();
}

// One conversation of a role.
struct Proposer::Talk {
  Role role;
  llm::Request request;
};

Proposer::Proposer(llm::Provider& provider, EvolveSettings settings, Brief brief)
    : provider_(provider), settings_(std::move(settings)), brief_(std::move(brief)) {
  brief_.constants.texts["topology"] = {topology_text(brief_.topology), {}, 0};
  brief_.constants.flags["device_code"] = brief_.device_code;
  brief_.constants.flags["directive_with_code"] = brief_.device_code && !settings_.directive_first;
  brief_.constants.flags["whole_file"] = settings_.whole_file;
  brief_.constants.flags["blocks_only"] = !settings_.whole_file;
  fillers_ = agent::make_fillers(brief_.library, brief_.constants, brief_.context_bytes);
}

Status Proposer::check() const {
  const std::vector<std::string> known = {"files",
                                          "partner_files",
                                          "partner",
                                          "evidence",
                                          "inspirations",
                                          "history",
                                          "standing",
                                          "summary",
                                          "directive",
                                          "tunables",
                                          "cut",
                                          "diff",
                                          "full",
                                          "crossover",
                                          "fix",
                                          "explore",
                                          "exploit",
                                          "backend",
                                          "blocks",
                                          "parent",
                                          "diagnosis",
                                          "recommendations",
                                          "has_files",
                                          "has_inspirations",
                                          "has_partner_files",
                                          "has_more_knowledge",
                                          "by_schema"};
  for (const Role role : {Role::kDirective, Role::kMutator, Role::kJudge, Role::kMeta})
    if (auto ok = fillers_[static_cast<std::size_t>(role)].check(known); !ok) return ok;
  return {};
}

agent::Fill Proposer::common_fill(const Proposal& p) const {
  agent::Fill fill;
  const Source& source = *p.parent.candidate.source;
  fill.lists["files"] = files_of(source, 0);
  fill.texts["parent"] = {member_title(p.parent), {}, 0};
  fill.texts["directive"] = {
      source.has_directive ? directive_text(source.directive) : std::string(), {}, 0};
  fill.texts["tunables"] = {source::print(p.parent.candidate.defines), {}, 0};
  std::string evidence =
      p.parent.verdict ? agent::evidence(*p.parent.verdict, kEvidence) : std::string();
  if (p.parent.measured)
    evidence += "measured on GPUs (what is above is predicted):\n" +
                agent::evidence(*p.parent.measured, kMeasured);
  fill.texts["evidence"] = {std::move(evidence), "text", 70};
  fill.texts["history"] = {p.history, "text", 40};
  fill.texts["backend"] = {p.backend, {}, 0};
  if (p.standing) {
    fill.texts["standing"] = {p.standing->table, "text", 60};
    fill.texts["summary"] = {p.standing->summary, "text", 30};
  }
  for (const Mutation m : {Mutation::kDiff, Mutation::kFull, Mutation::kCrossover, Mutation::kFix})
    fill.flags[std::string(mutation_name(m))] = p.mutation == m;
  fill.flags["explore"] = p.explore;
  fill.flags["exploit"] = !p.explore;
  std::vector<agent::Item> inspirations;
  for (const auto& member : p.inspirations) {
    // Exploring looks at whole programs, exploiting at what others are and how well they do.
    std::string body = member.candidate.source->has_directive
                           ? member.candidate.source->directive.why + "\n"
                           : std::string();
    if (p.explore && inspirations.empty()) body += member.candidate.source->text;
    inspirations.push_back({member_title(member), {std::move(body), "cuda", 20}});
  }
  fill.lists["inspirations"] = std::move(inspirations);
  if (p.partner) {
    fill.texts["partner"] = {member_title(*p.partner), {}, 0};
    fill.lists["partner_files"] = files_of(*p.partner->candidate.source, 50);
  } else {
    fill.texts["partner"] = {};
    fill.lists["partner_files"] = {};
  }
  return fill;
}

Status Proposer::check_directive(const directive::Directive& d, const std::string& backend,
                                 const std::string& origin) const {
  if (auto ok = directive::check(d, brief_.topology, origin); !ok) return ok;
  if (!backend.empty() && directive::name(d.backend) != backend) {
    return fail(Error{
        ErrorCode::kBadDirective,
        fmt::format("this island explores backend {}, not {}", backend, directive::name(d.backend)),
        origin, "backend", fmt::format("use {}", backend)});
  }
  return {};
}

// False where there is no answer; `made` says why.
bool Proposer::ask(Talk& talk, Made& made, std::string& answer) const {
  ++made.questions;
  auto reply = provider_.ask(talk.request);
  if (!reply) {
    made.outcome = llm::fault_name(reply.error().fault);
    made.failure = reply.error().error.text();
    if (reply.error().stops_run()) made.stop = reply.error();
    return false;
  }
  made.model = reply->model;
  made.usd += reply->usd;
  answer = std::move(reply->text);
  return true;
}

namespace {

llm::Request request_of(Role role, const Proposal& p, agent::Prompt prompt) {
  llm::Request request;
  request.role = agent::role_name(role);
  request.index = p.index;
  request.messages = std::move(prompt.messages);
  request.temperature = p.temperature;
  return request;
}

}  // namespace

bool Proposer::decide_directive(const Proposal& p, Made& made,
                                directive::Directive& directive) const {
  auto prompt = fillers_[static_cast<std::size_t>(Role::kDirective)].fill(common_fill(p));
  if (!prompt) {
    made.outcome = "too_long";
    made.failure = prompt.error().text();
    return false;
  }
  Talk talk{Role::kDirective, request_of(Role::kDirective, p, std::move(*prompt))};
  talk.request.schema = kDirectiveSchema;
  for (int64_t attempt = 0;; ++attempt) {
    std::string answer;
    if (!ask(talk, made, answer)) return false;
    const auto parsed = source::parse_answer(answer);
    const std::string text =
        parsed && !parsed->directive.empty() ? parsed->directive : std::string(trim(answer));
    auto found = directive::parse_text(text, "directive");
    Status ok = found ? check_directive(*found, p.backend, "directive") : fail(found.error());
    if (ok) {
      directive = std::move(*found);
      return true;
    }
    if (attempt >= settings_.retries) {
      made.outcome = "refused";
      made.failure = ok.error().text();
      return false;
    }
    agent::object(talk.request, answer, ok.error().text());
  }
}

bool Proposer::diagnose(const Proposal& p, Made& made, std::string& diagnosis) const {
  auto prompt = fillers_[static_cast<std::size_t>(Role::kJudge)].fill(common_fill(p));
  if (!prompt) return true;  // a repair goes without
  Talk talk{Role::kJudge, request_of(Role::kJudge, p, std::move(*prompt))};
  talk.request.temperature = 0;
  std::string answer;
  if (!ask(talk, made, answer)) return !made.stop.has_value();
  diagnosis = agent::cut(answer, kEvidence);
  return true;
}

Result<std::shared_ptr<const Source>> Proposer::read_program(const Proposal& p,
                                                             const std::string& answer,
                                                             const directive::Directive& directive,
                                                             std::string& why) const {
  const Source& parent = *p.parent.candidate.source;
  const bool repair = p.mutation == Mutation::kFix;
  AnswerRules rules;
  rules.scope = settings_.whole_file ? source::Scope::kFile : source::Scope::kBlocks;
  if (brief_.device_code && (parent.has_directive || !repair)) rules.directive = directive;
  rules.may_choose = brief_.device_code && !settings_.directive_first && !repair;
  rules.check = [&](const directive::Directive& d) {
    return check_directive(d, p.backend, "answer");
  };
  auto program = program_of_answer(parent, answer, std::move(rules),
                                   fmt::format("{}-{}", mutation_name(p.mutation), p.index));
  if (!program) return fail(program.error());
  why = std::move(program->why);
  return std::move(program->source);
}

bool Proposer::write_program(const Proposal& p, Made& made, directive::Directive directive) const {
  agent::Fill fill = common_fill(p);
  std::string diagnosis;
  if (p.mutation == Mutation::kFix && settings_.judge && !diagnose(p, made, diagnosis))
    return false;
  fill.texts["diagnosis"] = {diagnosis, "text", 65};
  if (brief_.device_code) fill.texts["directive"] = {directive_text(directive), {}, 0};
  auto prompt = fillers_[static_cast<std::size_t>(Role::kMutator)].fill(fill);
  if (!prompt) {
    made.outcome = "too_long";
    made.failure = prompt.error().text();
    return false;
  }
  Talk talk{Role::kMutator, request_of(Role::kMutator, p, std::move(*prompt))};
  for (int64_t attempt = 0;; ++attempt) {
    std::string answer;
    if (!ask(talk, made, answer)) return false;
    auto source = read_program(p, answer, directive, made.why);
    if (source) {
      made.source = std::move(*source);
      made.signature = std::make_shared<Signature>(signature_of(made.source->text));
      made.outcome = "candidate";
      return true;
    }
    if (attempt >= settings_.retries) {
      made.outcome = "refused";
      made.failure = source.error().text();
      return false;
    }
    agent::object(talk.request, answer, source.error().text());
  }
}

// Programs of one seed with several blocks mix without a model.
void Proposer::cross(const Proposal& p, Made& made) const {
  const Source &a = *p.parent.candidate.source, &b = *p.partner->candidate.source;
  auto text = source::cross_blocks(a.files[0].text, b.files[0].text, p.blocks);
  auto files = a.files;
  if (text) files[0].text = std::move(*text);
  auto bundle = text ? source::join_bundle(files) : Result<std::string>(fail(text.error()));
  auto source =
      bundle ? make_source(fmt::format("crossover-{}", p.index), a.file_name, std::move(*bundle))
             : Result<std::shared_ptr<const Source>>(fail(bundle.error()));
  if (!source) {
    made.outcome = "refused";
    made.failure = source.error().text();
    return;
  }
  made.source = std::move(*source);
  made.signature = std::make_shared<Signature>(signature_of(made.source->text));
  made.why =
      fmt::format("evolve blocks of programs {} and {}", p.parent.program, p.partner->program);
  made.outcome = "candidate";
}

void Proposer::summarize(const Proposal& p, Made& made) const {
  agent::Fill fill;
  fill.texts["history"] = {p.history, "text", 40};
  fill.texts["standing"] = {p.standing ? p.standing->table : std::string(), "text", 60};
  fill.texts["summary"] = {p.standing ? p.standing->summary : std::string(), "text", 30};
  fill.texts["recommendations"] = {std::to_string(settings_.recommendations), {}, 0};
  auto prompt = fillers_[static_cast<std::size_t>(Role::kMeta)].fill(fill);
  if (!prompt) {
    made.outcome = "too_long";
    made.failure = prompt.error().text();
    return;
  }
  Talk talk{Role::kMeta, request_of(Role::kMeta, p, std::move(*prompt))};
  std::string answer;
  if (!ask(talk, made, answer)) return;
  made.text = agent::cut(printable(answer, true), kSummary);
  made.outcome = "summary";
}

Made Proposer::make(std::shared_ptr<const Proposal> proposal) const {
  Made made;
  const Proposal& p = *proposal;
  made.proposal = std::move(proposal);
  if (p.kind == Proposal::Kind::kSummary) {
    summarize(p, made);
    return made;
  }
  if (p.blocks != 0 && p.partner) {
    cross(p, made);
    return made;
  }
  directive::Directive directive = p.parent.candidate.source->directive;
  if (brief_.device_code && settings_.directive_first && p.mutation != Mutation::kFix &&
      !decide_directive(p, made, directive))
    return made;
  (void)write_program(p, made, std::move(directive));
  return made;
}

}  // namespace sculler::search
