#include "search/fast/record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::search {
namespace {

constexpr std::string_view kBegin = "lowering", kStep = "lowering_step";
constexpr std::size_t kLongest = 6000;

}  // namespace

Status add_begin(store::Store& store, const FastBegin& b) {
  return store.add_event(kBegin, dump_json({{"program", b.program},
                                            {"name", b.name},
                                            {"path", b.path},
                                            {"refusal", b.refusal},
                                            {"stage_a_done", b.stage_a_done}}));
}

Status add_step(store::Store& store, const FastStep& s) {
  nlohmann::json fact{{"stage", s.stage},     {"number", s.number}, {"index", s.index},
                      {"outcome", s.outcome}, {"passed", s.passed}, {"usd", s.usd}};
  if (s.program > 0) fact["program"] = s.program;
  for (const auto& [key, value] :
       {std::pair{"failure", &s.failure}, std::pair{"job", &s.job}, std::pair{"status", &s.status},
        std::pair{"line", &s.line}, std::pair{"diagnosis", &s.diagnosis},
        std::pair{"judge", &s.judge}, std::pair{"why", &s.why}, std::pair{"model", &s.model}})
    if (!value->empty()) fact[key] = value->substr(0, kLongest);
  return store.add_event(kStep, dump_json(fact));
}

Result<FastFacts> read_facts(store::Store& store) {
  FastFacts out;
  Status inner;
  auto ok = store.each_event([&](const std::string& kind, const std::string& text) {
    if (!inner || (kind != kBegin && kind != kStep)) return;
    auto fact = parse_json(text, "event " + kind);
    if (!fact) {
      inner = fail(fact.error());
      return;
    }
    if (kind == kBegin) {
      FastBegin b;
      b.program = int_or(*fact, "program", 0);
      b.name = string_or(*fact, "name", "");
      b.path = string_or(*fact, "path", "");
      b.refusal = string_or(*fact, "refusal", "");
      b.stage_a_done = bool_or(*fact, "stage_a_done", false);
      out.begin = std::move(b);
      return;
    }
    FastStep s;
    s.stage = string_or(*fact, "stage", "");
    s.number = int_or(*fact, "number", 0);
    s.index = int_or(*fact, "index", 0);
    s.program = int_or(*fact, "program", 0);
    s.passed = bool_or(*fact, "passed", false);
    s.usd = number_or(*fact, "usd", 0);
    for (const auto& [key, value] :
         {std::pair{"outcome", &s.outcome}, std::pair{"failure", &s.failure},
          std::pair{"job", &s.job}, std::pair{"status", &s.status}, std::pair{"line", &s.line},
          std::pair{"diagnosis", &s.diagnosis}, std::pair{"judge", &s.judge},
          std::pair{"why", &s.why}, std::pair{"model", &s.model}})
      *value = string_or(*fact, key, "");
    out.steps.push_back(std::move(s));
  });
  if (!ok) return fail(ok.error());
  if (!inner) return fail(inner.error());
  return out;
}

std::string step_line(const FastStep& s) {
  return fmt::format("{} {}  {}", s.stage, s.number, printable(s.line));
}

}  // namespace sculler::search
