#include "search/fast/writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/diagnosis.h"
#include "agent/fence.h"
#include "base/json.h"
#include "base/strings.h"
#include "source/edit.h"
#include "source/lint.h"
#include "source/marks.h"

namespace sculler::search {
namespace {

using agent::Role;

std::string calls_of(const Source& of) {
  std::string out;
  for (const auto& file : of.files) {
    for (const auto& call : source::host_collectives(file.text))
      out += fmt::format("{}:{} {}\n", file.name, call.line, call.name);
  }
  return out;
}

// A program says what it does: from the answer, else from its text, else what its code shows.
Result<directive::Directive> directive_of(const source::ModelAnswer& answer,
                                          const std::string& text,
                                          const directive::Topology& topology) {
  directive::Directive out;
  out.issuer = directive::Issuer::kCta;
  if (!answer.directive.empty()) {
    auto found =
        directive::parse_text(answer.directive, fmt::format("answer:{}", answer.directive_line));
    if (!found) return fail(found.error());
    out = std::move(*found);
  } else {
    // Where a whole text is applied the line that was there before stays: what the model wrote
    // counts.
    std::string_view said = text;
    for (const auto& edit : answer.edits) {
      if (edit.kind == source::Edit::Kind::kRewrite &&
          edit.text.find("sculler:directive") != std::string::npos)
        said = edit.text;
    }
    auto found = directive::from_source(said, "answer");
    if (!found) return fail(found.error());
    if (*found) out = std::move(**found);
  }
  if (!source::host_collectives(text).empty()) {
    out.backend = directive::Backend::kNone;
  } else if (!out.device_initiated()) {
    out.backend =
        source::names_word(text, "ncclGin") ? directive::Backend::kGin : directive::Backend::kLsa;
  }
  if (auto ok = directive::check(out, topology, "answer"); !ok) return fail(ok.error());
  return out;
}

}  // namespace

Result<std::shared_ptr<const Source>> with_first_file(const Source& of, const std::string& name,
                                                      std::string text) {
  auto files = of.files;
  files[0].text = std::move(text);
  auto bundle = source::join_bundle(files);
  if (!bundle) return fail(bundle.error());
  return make_source(name, of.file_name, std::move(*bundle));
}

FastWriter::FastWriter(Brief brief, Ask ask) : brief_(std::move(brief)), ask_(std::move(ask)) {
  auto& constants = brief_.constants;
  constants.texts["topology"] = {topology_text(brief_.topology), {}, 0};
  constants.flags["device_code"] = true;
  for (const char* flag : {"directive_with_code", "whole_file", "blocks_only"})
    constants.flags[flag] = false;
  fillers_ = agent::make_fillers(brief_.library, constants, brief_.context_bytes);
}

Status FastWriter::check() const {
  const std::vector<std::string> known = {
      "files",       "given_files", "has_given_files",    "stage_a",  "stage_b", "refusal",
      "collectives", "evidence",    "diagnosis",          "history",  "cut",     "parent",
      "by_schema",   "listing",     "has_more_knowledge", "has_files"};
  for (const Role role : {Role::kTransformer, Role::kJudge, Role::kAnnotator})
    if (auto ok = filler(role).check(known); !ok) return ok;
  return {};
}

Result<llm::Request> FastWriter::request(Role role, const agent::Fill& fill, int64_t index) const {
  auto prompt = filler(role).fill(fill);
  if (!prompt) return fail(prompt.error());
  llm::Request out;
  out.role = agent::role_name(role);
  out.index = index;
  out.messages = std::move(prompt->messages);
  return out;
}

std::optional<std::string> FastWriter::put(llm::Request question, Said& said) const {
  auto reply = ask_(std::move(question));
  if (!reply) {
    said.fault = std::move(reply.error());
    return std::nullopt;
  }
  said.model = reply->model;
  said.usd = reply->usd;
  return std::move(reply->text);
}

Result<std::shared_ptr<const Source>> FastWriter::read(const FastView& view,
                                                       const std::string& answer, int64_t index,
                                                       std::string& why) const {
  auto parsed = source::parse_answer(answer);
  if (!parsed) return fail(parsed.error());
  auto files = source::apply(view.current->files, parsed->edits, source::Scope::kFile);
  if (!files) return fail(files.error());
  // Marks come last, and from the annotator.
  for (auto& file : *files) file.text = source::without_marks(file.text);
  auto directive = directive_of(*parsed, files->front().text, brief_.topology);
  if (!directive) return fail(directive.error());
  files->front().text =
      source::with_directive(files->front().text, dump_json(directive::to_json(*directive)));
  auto text = source::join_bundle(*files);
  if (!text) return fail(text.error());
  if (*text == view.current->text) {
    return fail(Error{ErrorCode::kBadSource,
                      "the program is the same as before",
                      "answer",
                      {},
                      "change what the evidence speaks of"});
  }
  why = agent::one_line(parsed->prose.empty() ? directive->why : parsed->prose, 600);
  return make_source(fmt::format("lower-{}-{}", view.stage, index), view.current->file_name,
                     std::move(*text));
}

Result<FastWriter::Program> FastWriter::transform(const FastView& view, int64_t index) const {
  agent::Fill fill;
  fill.flags = {{"stage_a", view.stage == "A"}, {"stage_b", view.stage == "B"}};
  fill.lists["files"] = files_of(*view.current, 0);
  fill.lists["given_files"] = view.given ? files_of(*view.given, 50) : std::vector<agent::Item>();
  fill.texts["refusal"] = {view.refusal, "text", 35};
  fill.texts["collectives"] = {calls_of(*view.current), "text", 80};
  fill.texts["evidence"] = {view.evidence, "text", 70};
  fill.texts["diagnosis"] = {view.diagnosis, "text", 65};
  fill.texts["history"] = {view.history, "text", 40};
  auto question = request(Role::kTransformer, fill, index);
  if (!question) return fail(question.error());
  Program out;
  const auto answer = put(std::move(*question), out);
  if (!answer) return out;
  auto source = read(view, *answer, index, out.why);
  if (source) out.source = std::move(*source);
  else out.refused = source.error();
  return out;
}

Result<FastWriter::Diagnosed> FastWriter::diagnose(const FastView& view, int64_t index) const {
  agent::Fill fill;
  fill.flags["by_schema"] = true;
  fill.lists["files"] = files_of(*view.current, 0);
  fill.texts["parent"] = {
      fmt::format("A program that is being made device-initiated, stage {}.", view.stage), {}, 0};
  fill.texts["evidence"] = {view.evidence, "text", 70};
  Diagnosed out;
  auto question = request(Role::kJudge, fill, index);
  if (!question) {  // the next attempt goes without
    out.refused = question.error().text();
    return out;
  }
  question->schema = agent::diagnosis_schema();
  question->temperature = 0;
  const auto answer = put(std::move(*question), out);
  if (!answer) return out;
  auto diagnosis = agent::parse_diagnosis(*answer, view.evidence);
  if (diagnosis) out.text = agent::print(*diagnosis);
  else out.refused = diagnosis.error().text();
  return out;
}

Result<FastWriter::Marked> FastWriter::annotate(const Source& program, const std::string& refusal,
                                                int64_t index) const {
  const auto& file = program.files.front();
  agent::Fill fill;
  fill.texts["listing"] = {numbered(file.text), "text", 0};
  fill.texts["refusal"] = {refusal, "text", 60};
  fill.lists["files"] = files_of(program, 0);
  auto question = request(Role::kAnnotator, fill, index);
  if (!question) return fail(question.error());
  question->temperature = 0;
  Marked out;
  const auto answer = put(std::move(*question), out);
  if (!answer) return out;
  auto marking = read_marking(*answer, file.text, file.name);
  if (!marking) {
    out.refused = marking.error();
    return out;
  }
  out.reasons = std::move(marking->reasons);
  out.why = join(out.reasons, "; ");
  auto source = with_first_file(program, "lowered", std::move(marking->text));
  if (source) out.source = std::move(*source);
  else out.refused = source.error();
  return out;
}

}  // namespace sculler::search
