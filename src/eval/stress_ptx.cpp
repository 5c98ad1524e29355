#include "eval/stress_ptx.h"

#include <array>
#include <cctype>
#include <optional>

namespace sculler::eval {
namespace {

constexpr std::string_view kVariable = "sculler_stress_ns";

// Every rank but the slow one reads 0 and jumps over the sleep. A scope of its own: no name of the
// candidate's is touched.
constexpr std::string_view kSleep = R"({
.reg .pred %sculler_p;
.reg .b32 %sculler_ns, %sculler_shift;
ld.global.u32 %sculler_ns, [sculler_stress_ns];
setp.ne.u32 %sculler_p, %sculler_ns, 0;
mov.u32 %sculler_shift, %clock;
bfe.u32 %sculler_shift, %sculler_shift, 5, 3;
shr.u32 %sculler_ns, %sculler_ns, %sculler_shift;
@%sculler_p nanosleep.u32 %sculler_ns;
}
)";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// An opcode with its suffixes: "ld.acquire.sys.global.u32".
bool is_sync_point(std::string_view op) {
  constexpr std::array<std::string_view, 10> kStarts{
      "bar.",          "barrier.", "membar.", "fence.acq_rel",   "fence.sc",
      "fence.acquire", "atom.",    "red.",    "mbarrier.arrive", "mbarrier.complete_tx"};
  for (const auto start : kStarts) {
    if (op.starts_with(start)) return true;
  }
  if (op.starts_with("mbarrier.try_wait") || op.starts_with("mbarrier.test_wait")) return true;
  const bool memory = op.starts_with("ld.") || op.starts_with("st.") || op.starts_with("multimem.");
  return memory &&
         (contains(op, ".acquire") || contains(op, ".release") || contains(op, ".volatile") ||
          contains(op, ".relaxed.gpu") || contains(op, ".relaxed.sys"));
}

// Reads statement by statement inside of function bodies; comments and strings are passed over.
class Rewriter {
 public:
  explicit Rewriter(std::string_view text) : text_(text) {}

  StressedPtx run() {
    while (at_ < text_.size()) {
      if (skip_blank()) continue;
      const char c = text_[at_];
      if (c == '{') {
        // A function's body opens where no body is open and no initialiser is being read.
        if (depth_ == 0) body_ = !initialiser_;
        ++depth_;
        ++at_;
      } else if (c == '}') {
        if (depth_ > 0) --depth_;
        if (depth_ == 0) initialiser_ = false;
        ++at_;
      } else if (c == ';') {
        initialiser_ = false;
        ++at_;
      } else {
        statement();
      }
    }
    out_.text += text_.substr(copied_);
    return std::move(out_);
  }

 private:
  bool skip_blank() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      const auto end = rest.find('\n');
      at_ = end == std::string_view::npos ? text_.size() : at_ + end;
      return true;
    }
    if (rest.starts_with("/*")) {
      const auto end = rest.find("*/", 2);
      at_ = end == std::string_view::npos ? text_.size() : at_ + end + 2;
      return true;
    }
    if (std::isspace(static_cast<unsigned char>(text_[at_])) == 0) return false;
    ++at_;
    return true;
  }

  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
           c == '.';
  }

  // From a statement's first character to its ';', or to the '{' of a body, or past a label's ':'.
  void statement() {
    const std::size_t begin = at_;
    std::size_t opcode = begin;
    if (text_[opcode] == '@') {
      ++opcode;
      while (opcode < text_.size() && (is_name(text_[opcode]) || text_[opcode] == '!')) ++opcode;
      while (opcode < text_.size() && std::isspace(static_cast<unsigned char>(text_[opcode])) != 0)
        ++opcode;
    }
    std::size_t end = opcode;
    while (end < text_.size() && (is_name(text_[end]) || text_[end] == ':')) {
      if (text_[end] == ':' && text_.substr(end, 2) != "::") {  // a label
        at_ = end + 1;
        return;
      }
      end += text_[end] == ':' ? 2 : 1;
    }
    if (depth_ > 0 && body_ && is_sync_point(text_.substr(opcode, end - opcode))) {
      out_.text += text_.substr(copied_, begin - copied_);
      out_.text += kSleep;
      copied_ = begin;
      ++out_.points;
    }
    // Operands: vectors have braces, strings may have anything. Directives of the module end at
    // their body's brace, initialisers begin after '='.
    const bool directive = text_[begin] == '.';
    for (at_ = end; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        const auto close = text_.find('"', at_ + 1);
        at_ = close == std::string_view::npos ? text_.size() - 1 : close;
        continue;
      }
      if (c == '=' && depth_ == 0) initialiser_ = true;
      if (c == ';') return;
      if (c == '\n' && directive && is_line_directive(text_.substr(begin, end - begin))) return;
      if (c == '{' && depth_ == 0) return;
      if (c == '}' && operand_braces_ == 0 && depth_ > 0) return;
      if (c == '{') ++operand_braces_;
      if (c == '}' && operand_braces_ > 0) --operand_braces_;
    }
  }

  // Those that end with their line instead of a semicolon.
  static bool is_line_directive(std::string_view name) {
    for (const std::string_view known :
         {".version", ".target", ".address_size", ".loc", ".file", ".pragma", ".section"}) {
      if (name == known) return true;
    }
    return false;
  }

  std::string_view text_;
  StressedPtx out_;
  std::size_t at_ = 0, copied_ = 0;
  int depth_ = 0, operand_braces_ = 0;
  bool body_ = false, initialiser_ = false;
};

// The variable's definition, which must stand before what reads it.
std::optional<std::pair<std::size_t, std::size_t>> definition(std::string_view ptx) {
  for (std::size_t at = ptx.find(kVariable); at != std::string_view::npos;
       at = ptx.find(kVariable, at + 1)) {
    const auto line = ptx.rfind('\n', at) + 1;  // npos + 1 is 0
    const auto end = ptx.find(';', at);
    if (end == std::string_view::npos) return std::nullopt;
    if (contains(ptx.substr(line, at - line), ".global")) return std::pair{line, end + 1};
  }
  return std::nullopt;
}

}  // namespace

StressedPtx stress_ptx(std::string_view ptx) {
  const auto where = definition(ptx);
  if (!where) return {std::string(ptx), 0};
  const std::string text(ptx.substr(where->first, where->second - where->first));
  std::string moved(ptx.substr(0, where->first));
  moved += ptx.substr(where->second);
  const auto size = moved.find(".address_size");
  const auto after = size == std::string::npos ? size : moved.find('\n', size);
  if (after == std::string::npos) return {std::string(ptx), 0};
  moved.insert(after + 1, text + "\n");
  auto out = Rewriter(moved).run();
  if (out.points == 0) out.text = std::string(ptx);
  return out;
}

std::string stressed_source(std::string_view text) {
  std::string out = R"(#include <cuda_runtime.h>
#include <cstdlib>
__device__ unsigned sculler_stress_ns;
#define sculler_setup sculler_setup_of_candidate
#line 1
)";
  out += text;
  out += R"(
#undef sculler_setup
extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  const char* slow = std::getenv("SCULLER_STRESS_RANK");
  const unsigned ns = slow != nullptr && std::atoi(slow) == rank->rank ? 20000u : 0u;
  if (cudaMemcpyToSymbol(sculler_stress_ns, &ns, sizeof ns) != cudaSuccess) return SCULLER_ERROR;
  return sculler_setup_of_candidate(rank, problem, pool, state);
}
)";
  return out;
}

}  // namespace sculler::eval
