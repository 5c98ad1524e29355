#include "analyze/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "analyze/blocks.h"
#include "analyze/program.h"
#include "base/json.h"
#include "base/strings.h"
#include "directive/directive.h"
#include "source/blocks.h"
#include "source/marks.h"

namespace sculler::analyze {
namespace {

struct Edit {
  std::size_t begin = 0, end = 0;
  std::string text;
};

std::string apply(std::string_view text, std::vector<Edit> edits) {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
  std::string out;
  std::size_t at = 0;
  for (const Edit& edit : edits) {
    out += text.substr(at, edit.begin - at);
    out += edit.text;
    at = edit.end;
  }
  return out + std::string(text.substr(at));
}

class Lowering {
 public:
  Lowering(Program& program, Stage stage) : p_(program), m_(program.model), stage_(stage) {}

  Result<Lowered> run() {
    if (auto ok = read_program(p_); !ok) return fail(ok.error());
    if (auto ok = check_program(p_); !ok) return fail(ok.error());
    for (const Function& function : m_.functions()) {
      if (function.name == "lowered")
        return p_.refuse(function.head, "the name lowered is taken", "rename it");
    }
    if (auto ok = entry_points(); !ok) return fail(ok.error());
    allocations();
    if (stage_ == Stage::kCollectives) collectives();
    find_needs();
    LoweredText added = lowered_text(needs_);
    const std::size_t at = after_includes();
    edits_.push_back({at, at, "\n" + added.frozen + added.mutable_});
    if (auto ok = head(); !ok) return fail(ok.error());
    out_.text = apply(m_.text(), std::move(edits_));
    return mark(added);
  }

 private:
  Status entry_points() {
    const Function* setup = m_.find_function("sculler_setup");
    const Function* teardown = m_.find_function("sculler_teardown");
    if (setup == nullptr || teardown == nullptr || m_.find_function("sculler_run") == nullptr ||
        setup->parameters.size() != 4) {
      return fail(Error{ErrorCode::kUnsupported,
                        "sculler_setup, sculler_run or sculler_teardown is missing",
                        p_.origin,
                        {},
                        "define them as sculler/candidate.h declares them"});
    }
    const std::string rank = parameter(*setup, 0, "lowered_rank");
    const std::string pool = parameter(*setup, 2, "lowered_pool");
    const std::size_t in = m_.code()[setup->open].end;
    edits_.push_back({in, in,
                      fmt::format("\n  if (const int code = lowered::setup({}, {}); code != "
                                  "SCULLER_OK) return code;",
                                  rank, pool)});
    const std::size_t out = m_.code()[teardown->open].end;
    edits_.push_back({out, out, "\n  lowered::teardown();"});
    return {};
  }

  // The name of a parameter; one that has none gets `name`.
  std::string parameter(const Function& function, std::size_t index, const std::string& name) {
    const Range range = function.parameters[index];
    const std::size_t last = range.last - 1;
    if (m_.identifier(last) && last > range.first && !m_.is(last, "sculler_rank") &&
        !m_.is(last, "sculler_pool") && !m_.is(last, "const"))
      return m_.code()[last].text;
    const std::size_t at = m_.code()[last].end;
    edits_.push_back({at, at, " " + name});
    return name;
  }

  void rename(const Call& call, std::string_view name) {
    edits_.push_back(
        {m_.code()[call.name].begin, m_.code()[call.name].end, "lowered::" + std::string(name)});
  }

  void allocations() {
    for (const Call& call : p_.mallocs) {
      rename(call, "window_malloc");
      out_.scratch.push_back(
          fmt::format("line {}: {}", m_.line(call.name), m_.joined(call.arguments[0])));
    }
    for (const Call& call : p_.frees) rename(call, "window_free");
    for (const Call& call : p_.registrations) rename(call, "window_register");
  }

  void collectives() {
    for (const Site& site : p_.sites) {
      const Signature& s = *site.signature;
      std::string text = fmt::format("lowered::{}", s.replacement);
      if (s.operation >= 0) text += fmt::format("<{}>", site.type);
      text += "(";
      bool first = true;
      const auto add = [&](int index) {
        if (index < 0) return;
        if (!first) text += ", ";
        text += m_.written(site.argument(index));
        first = false;
      };
      add(s.send);
      add(s.receive);
      add(s.count);
      if (s.operation < 0) add(s.type);
      else text += fmt::format(", lowered::{}()", site.operation);
      add(s.root);
      add(s.stream);
      edits_.push_back(
          {m_.code()[site.call.name].begin, m_.code()[site.call.close].end, text + ")"});
    }
    for (const Group& group : p_.groups) {
      const Group& outer = p_.groups[static_cast<std::size_t>(group.outer)];
      if (!outer.communicates) continue;
      edits_.push_back({m_.code()[group.start.name].begin, m_.code()[group.start.close].end,
                        "lowered::group_start()"});
      std::string stream;
      for (const Site& site : p_.sites) {
        if (site.group == group.outer && site.point_to_point())
          stream = m_.written(site.argument(site.signature->stream));
      }
      edits_.push_back({m_.code()[group.end.name].begin, m_.code()[group.end.close].end,
                        fmt::format("lowered::group_end({})", stream)});
    }
  }

  void find_needs() {
    needs_.scratch = !p_.mallocs.empty();
    needs_.registers = !p_.registrations.empty();
    std::set<std::string> streams;
    for (const Site& site : p_.sites) {
      out_.calls.push_back({m_.line(site.call.name), site.signature->name});
      if (stage_ == Stage::kInfrastructure) continue;
      needs_.kinds.insert(site.signature->kind);
      if (!site.type.empty()) needs_.types.insert(site.type);
      if (!site.operation.empty()) needs_.operations.insert(site.operation);
      needs_.groups |= site.group >= 0;
      const std::string stream = resolved(p_, site.argument(site.signature->stream));
      streams.insert(stream);
      if (stream.find('[') != std::string::npos) needs_.streams = true;
    }
    needs_.streams |= streams.size() > 1;
  }

  // After the last #include that stands before all code and under no condition.
  [[nodiscard]] std::size_t after_includes() const {
    const std::size_t code =
        m_.functions().empty() ? m_.text().size() : m_.code()[m_.functions()[0].head].begin;
    std::size_t at = 0;
    int depth = 0;
    for (std::size_t i = 1; i < m_.directives().size(); ++i) {
      const auto& token = m_.directives()[i];
      if (m_.directives()[i - 1].text != "#") continue;
      if (token.text.starts_with("if")) ++depth;
      if (token.text == "endif") --depth;
      if (token.text != "include" || depth > 0 || token.begin > code) continue;
      const auto end = m_.text().find('\n', token.begin);
      at = end == std::string_view::npos ? m_.text().size() : end + 1;
    }
    return at;
  }

  Status head() {
    auto given = directive::from_source(m_.text(), p_.origin);
    if (!given) return fail(given.error());
    directive::Directive d = given->value_or(directive::Directive{});
    if (stage_ == Stage::kCollectives) {
      d.backend = d.backend == directive::Backend::kGin ? directive::Backend::kHybrid
                                                        : directive::Backend::kLsa;
      d.issuer = directive::Issuer::kCta;
      d.sync = directive::Sync::kGlobal;
      d.placement = d.placement == directive::Placement::kStreamOverlap
                        ? directive::Placement::kStreamOverlap
                        : directive::Placement::kSequential;
      d.why =
          "Lowered from host collectives: each is a kernel of loads and stores to the peers' "
          "windows between two "
          "barriers of all ranks.";
    } else {
      d.why = "Windows and a device communicator are set up; the host collectives stay.";
    }
    const std::string line = "// sculler:directive " + dump_json(directive::to_json(d));
    for (const auto& token : source::tokenize(m_.text(), true)) {
      if (token.kind != source::TokenKind::kComment ||
          !trim(token.text).starts_with("sculler:directive"))
        continue;
      edits_.push_back({token.begin, token.end, line});
      return {};
    }
    edits_.insert(edits_.begin(), {0, 0, line + "\n"});
    return {};
  }

  // Blocks: kernels, what communicates, and what the lowering has added to do so.
  Result<Lowered> mark(const LoweredText& added) {
    const std::string& text = out_.text;
    const auto line_of = [&](std::size_t at) {
      return 1 +
             static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
    };
    std::vector<source::Lines> ranges;
    std::size_t frozen_end = 0, added_end = 0;
    const std::size_t frozen = text.find(added.frozen);
    frozen_end = frozen + added.frozen.size();
    added_end = frozen_end + added.mutable_.size();
    if (!added.mutable_.empty()) ranges.push_back({line_of(frozen_end), line_of(added_end) - 1});
    std::set<std::string> communicates;
    for (const Site& site : p_.sites)
      communicates.insert(m_.functions()[static_cast<std::size_t>(site.call.function)].name);
    for (const auto& lines : function_blocks(TextModel(text), communicates, {frozen, added_end}))
      ranges.push_back(lines);
    const auto merged = merge_blocks(std::move(ranges));
    auto marked = source::mark_blocks(text, merged, p_.origin);
    if (!marked) return fail(marked.error());
    out_.text = std::move(*marked);
    out_.n_blocks = static_cast<int>(merged.size());
    return std::move(out_);
  }

  Program& p_;
  const TextModel& m_;
  Stage stage_;
  std::vector<Edit> edits_;
  TextNeeds needs_;
  Lowered out_;
};

}  // namespace

Result<Lowered> lower(std::string_view text, std::string_view origin, Stage stage) {
  if (auto blocks = source::find_blocks(text, origin); !blocks) return fail(blocks.error());
  // Blocks of the program are marked anew.
  const std::string plain = source::without_marks(text);
  Program program(plain, origin);
  return Lowering(program, stage).run();
}

}  // namespace sculler::analyze
