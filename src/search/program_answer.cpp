#include "search/program_answer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "base/json.h"

namespace sculler::search {
namespace {

// On top of the answer, or in the text itself; else `usual` stays.
Result<directive::Directive> chosen(const source::ModelAnswer& answer, directive::Directive usual) {
  if (!answer.directive.empty())
    return directive::parse_text(answer.directive, fmt::format("answer:{}", answer.directive_line));
  for (const auto& edit : answer.edits) {
    if (edit.kind != source::Edit::Kind::kRewrite) continue;
    auto found = directive::from_source(edit.text, fmt::format("answer:{}", edit.line));
    if (!found) return fail(found.error());
    if (*found) usual = std::move(**found);
  }
  return usual;
}

}  // namespace

Result<ProgramAnswer> program_of_answer(const Source& parent, const std::string& answer,
                                        AnswerRules rules, const std::string& name) {
  auto parsed = source::parse_answer(answer);
  if (!parsed) return fail(parsed.error());
  if (rules.may_choose) {
    auto directive = chosen(*parsed, rules.directive.value_or(parent.directive));
    if (!directive) return fail(directive.error());
    rules.directive = std::move(*directive);
    if (rules.check) {
      if (auto ok = rules.check(*rules.directive); !ok) return fail(ok.error());
    }
  }
  auto files = source::apply(parent.files, parsed->edits, rules.scope);
  if (!files) return fail(files.error());
  if (rules.directive) {
    files->front().text =
        source::with_directive(files->front().text, dump_json(to_json(*rules.directive)));
  }
  auto text = source::join_bundle(*files);
  if (!text) return fail(text.error());
  if (*text == parent.text) {
    return fail(Error{ErrorCode::kBadSource,
                      "the program is the same as before",
                      "answer",
                      {},
                      "change something that can matter"});
  }
  auto source = make_source(name, parent.file_name, std::move(*text));
  if (!source) return fail(source.error());
  ProgramAnswer out;
  out.source = std::move(*source);
  out.why = agent::one_line(
      parsed->prose.empty() && rules.directive ? rules.directive->why : parsed->prose, 600);
  return out;
}

}  // namespace sculler::search
