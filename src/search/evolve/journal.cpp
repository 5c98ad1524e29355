#include "search/evolve/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "search/kept.h"

namespace sculler::search {
namespace {

constexpr std::string_view kDecided = "proposal", kAnswered = "proposal_end", kSummary = "summary",
                           kMigrated = "migration";

}  // namespace

Status Journal::decided(const Proposal& p) {
  if (p.kind == Proposal::Kind::kSummary) return {};  // asked again where it did not end
  nlohmann::json fact{{"index", p.index},
                      {"island", p.island},
                      {"mutation", mutation_name(p.mutation)},
                      {"explore", p.explore},
                      {"temperature", p.temperature},
                      {"parent", p.parent.program}};
  if (p.partner) fact["partner"] = p.partner->program;
  if (p.blocks != 0) fact["blocks"] = p.blocks;
  for (const auto& member : p.inspirations) fact["inspirations"].push_back(member.program);
  return store_.add_event(kDecided, dump_json(fact));
}

Result<int64_t> Journal::answered(const Made& made) {
  const Proposal& p = *made.proposal;
  nlohmann::json fact{{"index", p.index}, {"outcome", made.outcome}};
  if (!made.model.empty()) fact["model"] = made.model;
  if (!made.failure.empty()) fact["failure"] = printable(shorten(made.failure, 600));
  if (made.questions > 0) fact["questions"] = made.questions;
  if (made.usd > 0) fact["usd"] = made.usd;
  auto transaction = store_.begin();
  if (!transaction) return fail(transaction.error());
  int64_t id = 0;
  if (made.source) {
    Candidate candidate = usual(made.source, "model");
    candidate.parent = p.parent.program;
    candidate.why = made.why;
    auto added = store_.add_program(program_of(candidate), made.source->text);
    if (!added) return fail(added.error());
    id = *added;
    fact["program"] = id;
    fact["why"] = made.why;
  }
  const bool summary = p.kind == Proposal::Kind::kSummary;
  if (summary) fact["text"] = made.text;
  if (auto ok = store_.add_event(summary ? kSummary : kAnswered, dump_json(fact)); !ok)
    return fail(ok.error());
  if (auto ok = transaction->commit(); !ok) return fail(ok.error());
  return id;
}

Status Journal::migrated(int64_t program, int island) {
  return store_.add_event(kMigrated, dump_json({{"program", program}, {"island", island}}));
}

Result<Journal::State> Journal::read() {
  State out;
  std::map<int64_t, Decided> proposals;
  Status inner;
  auto ok = store_.each_event([&](const std::string& kind, const std::string& text) {
    if (!inner || (kind != kDecided && kind != kAnswered && kind != kSummary && kind != kMigrated))
      return;
    auto fact = parse_json(text, "event " + kind);
    if (!fact) {
      inner = fail(fact.error());
      return;
    }
    const int64_t index = int_or(*fact, "index", -1);
    if (kind == kDecided) {
      auto mutation = parse_mutation(string_or(*fact, "mutation", ""));
      if (!mutation) {
        inner = fail(mutation.error());
        return;
      }
      Decided& d = proposals[index];
      d.index = index;
      d.island = static_cast<int>(int_or(*fact, "island", 0));
      d.mutation = *mutation;
      d.explore = bool_or(*fact, "explore", true);
      d.temperature = number_or(*fact, "temperature", 0);
      d.parent = int_or(*fact, "parent", 0);
      d.partner = int_or(*fact, "partner", 0);
      d.blocks = static_cast<uint64_t>(int_or(*fact, "blocks", 0));
      d.inspirations = ints_of(*fact, "inspirations");
    } else if (kind == kAnswered) {
      Decided& d = proposals[index];
      d.index = index;
      d.answered = true;
      d.program = int_or(*fact, "program", 0);
      d.model = string_or(*fact, "model", "");
      d.why = string_or(*fact, "why", "");
    } else if (kind == kSummary) {
      out.summaries = std::max(out.summaries, index + 1);
      if (const auto summary = string_or(*fact, "text", ""); !summary.empty())
        out.summary = summary;
    } else {
      out.migrations.emplace(int_or(*fact, "program", 0),
                             static_cast<int>(int_or(*fact, "island", 0)));
    }
  });
  if (!ok) return fail(ok.error());
  if (!inner) return fail(inner.error());
  for (auto& [index, decided] : proposals) out.proposals.push_back(std::move(decided));
  return out;
}

}  // namespace sculler::search
