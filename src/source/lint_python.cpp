#include "source/lint_python.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "source/blocks.h"
#include "source/hash_lines.h"
#include "source/lint_internal.h"

namespace sculler::source {
namespace {

struct Piece {
  enum class Kind : uint8_t { kName, kComment, kString, kOther, kNewline };
  Kind kind = Kind::kOther;
  std::string_view text;
  int line = 0;
  bool formatted = false;  // a string whose braces hold code
  bool closed = true;      // a string that ends
};

struct Banned {
  std::string_view name, why;
};
// Words that a kernel has no use for, as names and as members of modules alike.
constexpr std::array kBanned = {
    Banned{"os", "reaches files and processes"},
    Banned{"sys", "reaches the interpreter"},
    Banned{"subprocess", "starts programs"},
    Banned{"socket", "opens connections"},
    Banned{"ctypes", "reaches other code"},
    Banned{"cffi", "reaches other code"},
    Banned{"importlib", "loads other code"},
    Banned{"builtins", "reaches the interpreter"},
    Banned{"multiprocessing", "starts processes"},
    Banned{"threading", "works outside of the timed region"},
    Banned{"signal", "signals processes"},
    Banned{"shutil", "reaches files"},
    Banned{"pathlib", "reaches files"},
    Banned{"inspect", "reaches the caller's frames"},
    Banned{"gc", "reaches other objects"},
    Banned{"time", "is the harness's"},
    Banned{"eval", "runs text"},
    Banned{"exec", "runs text"},
    Banned{"compile", "runs text"},
    Banned{"open", "opens files"},
    Banned{"globals", "reaches the interpreter"},
    Banned{"locals", "reaches the interpreter"},
    Banned{"vars", "reaches the interpreter"},
    Banned{"getattr", "goes around the names that are checked"},
    Banned{"setattr", "changes other objects"},
    Banned{"delattr", "changes other objects"},
    Banned{"breakpoint", "stops the program"},
    Banned{"input", "reads the harness's channel"},
    Banned{"exit", "ends the adapter"},
    Banned{"quit", "ends the adapter"},
};

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool in_name(char c) { return starts_name(c) || (c >= '0' && c <= '9'); }

// Python's lexical structure as far as names, strings and comments go.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<Piece> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        take(Piece::Kind::kNewline, 1);
        ++line_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
        ++at_;
      } else if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        at_ += 2;  // the line goes on
        ++line_;
      } else if (c == '#') {
        take(Piece::Kind::kComment, std::min(text_.find('\n', at_), text_.size()) - at_);
      } else if (starts_name(c)) {
        name();
      } else if (c == '"' || c == '\'') {
        string(at_, false, false);
      } else if (c >= '0' && c <= '9') {
        std::size_t end = at_;
        while (end < text_.size() && (in_name(text_[end]) || text_[end] == '.')) ++end;
        take(Piece::Kind::kOther, end - at_);
      } else {
        take(Piece::Kind::kOther, 1);
      }
    }
    return std::move(out_);
  }

 private:
  void take(Piece::Kind kind, std::size_t bytes) {
    out_.push_back({kind, text_.substr(at_, bytes), line_});
    at_ += bytes;
  }

  void name() {
    std::size_t end = at_;
    while (end < text_.size() && in_name(text_[end])) ++end;
    const auto word = text_.substr(at_, end - at_);
    const bool quote = end < text_.size() && (text_[end] == '"' || text_[end] == '\'');
    if (quote && word.size() <= 2) {
      const std::string prefix = to_lower(word);
      if (prefix.find_first_not_of("rbfu") == std::string::npos)
        return string(end, prefix.find('r') != std::string::npos,
                      prefix.find('f') != std::string::npos);
    }
    take(Piece::Kind::kName, end - at_);
  }

  // The literal whose quote is at `quote`; it begins, with its prefix, at at_.
  void string(std::size_t quote, bool raw, bool formatted) {
    const char q = text_[quote];
    const bool triple = text_.substr(quote, 3) == std::string(3, q);
    std::size_t end = quote + (triple ? 3 : 1);
    bool closed = false;
    int lines = 0;
    while (end < text_.size()) {
      if (text_[end] == '\\' && end + 1 < text_.size()) {
        // Raw strings keep the backslash; it hides a quote all the same.
        lines += text_[end + 1] == '\n' ? 1 : 0;
        end += 2;
        continue;
      }
      if (text_[end] == '\n') {
        if (!triple) break;
        ++lines;
      }
      if (text_[end] == q && (!triple || text_.substr(end, 3) == std::string(3, q))) {
        end += triple ? 3 : 1;
        closed = true;
        break;
      }
      ++end;
    }
    (void)raw;
    end = std::min(end, text_.size());
    out_.push_back({Piece::Kind::kString, text_.substr(at_, end - at_), line_, formatted, closed});
    at_ = end;
    line_ += lines;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Piece> out_;
};

class PythonLinter {
 public:
  PythonLinter(std::string_view text, const PythonRules& rules) : text_(text), rules_(rules) {}

  std::vector<Finding> run() {
    if (text_.size() > kMaxSourceBytes) {
      report_.add(0, "size",
                  fmt::format("{} of source, at most {} are taken", bytes_text(text_.size()),
                              bytes_text(kMaxSourceBytes)),
                  "shorten it");
      return report_.take();
    }
    if (text_.find('\0') != std::string_view::npos)
      report_.add(0, "nul", "the text holds a NUL byte", "send plain text");
    for (const Piece& piece : Scanner(text_).run()) {
      if (piece.kind == Piece::Kind::kComment) {
        comments_.push_back(piece);
        continue;
      }
      code_.push_back(piece);
    }
    markers();
    lint_tunables(text_, rules_.origin, rules_.defines, report_);
    strings();
    imports();
    names();
    entry();
    auto findings = report_.take();
    std::stable_sort(findings.begin(), findings.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return findings;
  }

 private:
  [[nodiscard]] bool is(std::size_t i, std::string_view text) const {
    return i < code_.size() && code_[i].text == text && code_[i].kind != Piece::Kind::kString;
  }
  void markers() {
    if (!lint_blocks(text_, rules_.origin, rules_.baseline, rules_.parent, report_)) return;
    // A marker in a string of several lines marks nothing.
    for (const auto& mark : hash_lines(text_, "EVOLVE-BLOCK-")) {
      const bool comment = std::any_of(comments_.begin(), comments_.end(), [&](const Piece& p) {
        return p.text.data() == text_.data() + mark.begin;
      });
      if (!comment)
        report_.add(mark.line, "evolve-block", "the marker stands in a string",
                    "end the string before it");
    }
  }

  void strings() {
    for (const Piece& piece : code_) {
      if (piece.kind != Piece::Kind::kString) continue;
      if (!piece.closed) {
        report_.add(piece.line, "syntax", "a string does not end", "close its quotes");
        continue;
      }
      for (const std::string_view path : {"/proc/", "/dev/", "/sys/", "/tmp/", "__"}) {
        if (piece.text.find(path) != std::string_view::npos)
          report_.add(piece.line, "path", fmt::format("a string names {}", path),
                      "remove it: a candidate has no files and no hidden members");
      }
      if (piece.formatted) formatted(piece);
    }
  }

  // The code in the braces of a formatted string holds names too.
  void formatted(const Piece& piece) {
    for (std::size_t i = 0; i < piece.text.size();) {
      if (!starts_name(piece.text[i])) {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < piece.text.size() && in_name(piece.text[end])) ++end;
      // Words of the text itself are no code: only what is called or has members counts.
      const bool used =
          end < piece.text.size() && (piece.text[end] == '(' || piece.text[end] == '.');
      if (used) banned(piece.text.substr(i, end - i), piece.line);
      i = end;
    }
  }

  // "a.b.c" of the names and dots from `i` on, which moves behind them.
  std::string dotted(std::size_t& i) const {
    std::string out;
    while (i < code_.size() && (code_[i].kind == Piece::Kind::kName || is(i, "."))) {
      if (is(i, "import") || is(i, "as")) break;
      out += code_[i++].text;
    }
    return out;
  }

  void module(const std::string& name, int line) {
    if (std::find(rules_.imports.begin(), rules_.imports.end(), name) != rules_.imports.end())
      return;
    report_.add(line, "import", fmt::format("{} may not be imported", printable(shorten(name, 60))),
                rules_.imports.empty() ? "import nothing"
                                       : fmt::format("use {}", join(rules_.imports, ", ")));
  }

  void imports() {
    for (std::size_t i = 0; i < code_.size(); ++i) {
      const int line = code_[i].line;
      if (is(i, "from")) {
        std::size_t j = i + 1;
        const std::string name = dotted(j);
        if (!is(j, "import")) continue;  // `yield from`, `raise … from`
        module(name, line);
        i = j;
        continue;
      }
      if (!is(i, "import")) continue;
      do {
        ++i;
        module(dotted(i), line);
        if (is(i, "as")) i += 2;
      } while (is(i, ","));
    }
  }

  void banned(std::string_view name, int line) {
    if (name.size() > 4 && name.starts_with("__") && name.ends_with("__") && name != "__name__" &&
        name != "__init__") {
      report_.add(line, "hidden-member",
                  fmt::format("{} reaches the interpreter", printable(shorten(name, 60))),
                  "remove it: a candidate computes from its buffers");
      return;
    }
    const auto at = std::find_if(kBanned.begin(), kBanned.end(),
                                 [&](const Banned& b) { return b.name == name; });
    if (at == kBanned.end()) return;
    report_.add(line, "banned-name", fmt::format("{} {}", name, at->why),
                "remove it: a candidate only computes from its buffers");
  }

  void names() {
    for (std::size_t i = 0; i < code_.size(); ++i) {
      const Piece& piece = code_[i];
      if (piece.kind != Piece::Kind::kName) continue;
      // f(input=x): the name of a parameter.
      const bool keyword =
          is(i + 1, "=") && !is(i + 2, "=") && i > 0 && (is(i - 1, ",") || is(i - 1, "("));
      if (!keyword) banned(piece.text, piece.line);
    }
  }

  void entry() {
    if (rules_.entry.empty()) return;
    for (std::size_t i = 0; i + 1 < code_.size(); ++i) {
      if (is(i, "def") && is(i + 1, rules_.entry)) return;
    }
    report_.add(0, "entry-point", fmt::format("{} is missing", rules_.entry),
                fmt::format("define def {}(…) as the adapter's README says", rules_.entry));
  }

  std::string_view text_;
  const PythonRules& rules_;
  std::vector<Piece> code_, comments_;
  Report report_;
};

}  // namespace

std::vector<Finding> lint_python(std::string_view text, const PythonRules& rules) {
  return PythonLinter(text, rules).run();
}

}  // namespace sculler::source
