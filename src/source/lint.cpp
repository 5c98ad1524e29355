#include "source/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/strings.h"
#include "source/blocks.h"
#include "source/lint_internal.h"

namespace sculler::source {
namespace {

using Words = std::set<std::string_view>;

const Words kHostCollectives = {"ncclAllGather", "ncclAllReduce", "ncclReduceScatter",
                                "ncclBroadcast", "ncclBcast",     "ncclReduce",
                                "ncclSend",      "ncclRecv",      "ncclAlltoAll",
                                "ncclGather",    "ncclScatter"};

struct Banned {
  std::string_view name, why;
};
// Functions that a kernel program has no use for. NCCL and CUDA use some themselves; that is theirs
// to do.
constexpr std::array kBanned = {
    Banned{"dlopen", "loads other code"},
    Banned{"dlmopen", "loads other code"},
    Banned{"dlsym", "reaches other code"},
    Banned{"dlvsym", "reaches other code"},
    Banned{"fork", "starts a process"},
    Banned{"vfork", "starts a process"},
    Banned{"clone3", "starts a process"},
    Banned{"posix_spawn", "starts a process"},
    Banned{"posix_spawnp", "starts a process"},
    Banned{"execl", "starts a program"},
    Banned{"execlp", "starts a program"},
    Banned{"execle", "starts a program"},
    Banned{"execv", "starts a program"},
    Banned{"execvp", "starts a program"},
    Banned{"execve", "starts a program"},
    Banned{"execveat", "starts a program"},
    Banned{"fexecve", "starts a program"},
    Banned{"popen", "starts a program"},
    Banned{"system", "starts a program"},
    Banned{"socket", "opens a connection"},
    Banned{"socketpair", "opens a connection"},
    Banned{"connect", "opens a connection"},
    Banned{"sendmsg", "sends messages"},
    Banned{"recvmsg", "receives messages"},
    Banned{"ptrace", "reaches other processes"},
    Banned{"process_vm_readv", "reaches other processes"},
    Banned{"process_vm_writev", "reaches other processes"},
    Banned{"pidfd_getfd", "reaches other processes"},
    Banned{"kill", "signals processes"},
    Banned{"tgkill", "signals processes"},
    Banned{"syscall", "goes around the library"},
    Banned{"mprotect", "changes code"},
    Banned{"setenv", "changes the environment"},
    Banned{"putenv", "changes the environment"},
    Banned{"unsetenv", "changes the environment"},
    Banned{"getenv", "reads the environment"},
    Banned{"secure_getenv", "reads the environment"},
    Banned{"shm_open", "shares memory outside of the buffers"},
    Banned{"_exit", "ends the rank"},
    Banned{"quick_exit", "ends the rank"},
    Banned{"exit", "ends the rank"},
    Banned{"abort", "ends the rank"},
};

class Linter {
 public:
  Linter(std::string_view text, const LintOptions& options)
      : text_(text), options_(options), code_(tokenize(text)) {}

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
    lint_blocks(text_, options_.origin, options_.baseline, options_.parent, report_);
    lint_tunables(text_, options_.origin, options_.defines, report_);
    find_directive();
    if (options_.unit) entry_points();
    calls();
    strings();
    if (options_.device_code && has_directive_) directive_rules();
    lint_barriers(code_, options_, report_);
    auto findings = report_.take();
    std::stable_sort(findings.begin(), findings.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return findings;
  }

 private:
  [[nodiscard]] const Token* at(std::size_t i) const {
    return i < code_.size() ? &code_[i] : nullptr;
  }
  [[nodiscard]] bool is(std::size_t i, std::string_view text) const {
    return i < code_.size() && code_[i].text == text;
  }
  // An identifier that is called and is no member and no name of another namespace.
  [[nodiscard]] bool free_call(std::size_t i) const {
    if (code_[i].kind != TokenKind::kIdentifier) return false;
    if (i > 0) {
      const std::string& before = code_[i - 1].text;
      if (before == "." || before == "->") return false;
      if (before == "::" && i > 1 && code_[i - 2].kind == TokenKind::kIdentifier &&
          code_[i - 2].text != "std" && code_[i - 2].line == code_[i].line)
        return false;
    }
    return true;
  }

  void find_directive() {
    if (options_.directive != nullptr) {
      directive_ = *options_.directive;
      has_directive_ = true;
      return;
    }
    auto found = directive::from_source(text_, options_.origin);
    if (!found) return report_.add(found.error(), "directive");
    if (!*found) return;
    directive_ = **found;
    has_directive_ = true;
  }

  void entry_points() {
    for (const std::string_view name : {"sculler_setup", "sculler_run", "sculler_teardown"}) {
      const bool found = std::any_of(code_.begin(), code_.end(), [&](const Token& t) {
        return t.kind == TokenKind::kIdentifier && t.text == name;
      });
      if (!found) {
        report_.add(
            0, "entry-point", fmt::format("{} is missing", name),
            fmt::format("define extern \"C\" int {}(…) as sculler/candidate.h declares it", name));
      }
    }
  }

  void calls() {
    for (std::size_t i = 0; i < code_.size(); ++i) {
      const Token& token = code_[i];
      if (token.kind != TokenKind::kIdentifier) continue;
      if (!options_.multicast &&
          (token.text.starts_with("cuMulticast") || token.text.starts_with("ncclLsaMultimem") ||
           token.text.starts_with("ncclGetLsaMultimem") || token.text.starts_with("ncclMultimem") ||
           token.text == "ncclGetMultimemPointer")) {
        report_.add(
            token.line, "multicast",
            fmt::format("{}: the hardware profile forbids multicast", shorten(token.text, 60)),
            "store to each peer instead");
        continue;
      }
      const auto banned = std::find_if(kBanned.begin(), kBanned.end(),
                                       [&](const Banned& b) { return b.name == token.text; });
      if (banned == kBanned.end() || !free_call(i)) continue;
      // Taking the address counts as the call does; a declaration or a variable of that name does
      // not.
      const bool called =
          is(i + 1, "(") &&
          !(i > 0 && code_[i - 1].kind == TokenKind::kIdentifier && code_[i - 1].text != "return");
      const bool address = i > 0 && (is(i - 1, "&") || is(i - 1, "=")) && !is(i + 1, "=");
      if (called || address) {
        report_.add(token.line, "banned-call", fmt::format("{} {}", token.text, banned->why),
                    "remove it: a candidate only computes and communicates through its buffers");
      }
    }
    for (std::size_t i = 0; i + 2 < code_.size(); ++i) {
      if (!code_[i].in_directive || !is(i, "include")) continue;
      // <dlfcn.h>: the name may be a string or tokens between < and >.
      std::string name;
      if (code_[i + 1].kind == TokenKind::kString) name = code_[i + 1].text;
      else
        for (std::size_t j = i + 2;
             j < code_.size() && code_[j].line == code_[i].line && !is(j, ">"); ++j)
          name += code_[j].text;
      for (const std::string_view header : {"dlfcn.h", "sys/socket.h", "sys/ptrace.h", "spawn.h",
                                            "sys/syscall.h", "netinet/in.h", "arpa/inet.h"}) {
        if (name == header)
          report_.add(code_[i].line, "banned-header",
                      fmt::format("{} is of no use to a candidate", name), "remove it");
      }
      if (name.find("..") != std::string::npos || name.starts_with("/")) {
        report_.add(
            code_[i].line, "banned-header",
            fmt::format("\"{}\" leaves the candidate's folder", printable(shorten(name, 60))),
            "include by name only");
      }
    }
  }

  // Neighbouring literals are one string, so "multi" "mem" is found too.
  void strings() {
    for (std::size_t i = 0; i < code_.size(); ++i) {
      if (code_[i].kind != TokenKind::kString) continue;
      const int line = code_[i].line;
      std::string whole;
      for (; i < code_.size() && code_[i].kind == TokenKind::kString; ++i) whole += code_[i].text;
      if (!options_.multicast && (whole.find("multimem") != std::string::npos ||
                                  whole.find("cuMulticast") != std::string::npos)) {
        report_.add(line, "multicast",
                    "multimem instructions: the hardware profile forbids multicast",
                    "store to each peer instead");
      }
      for (const std::string_view path : {"/proc/", "/dev/shm", "/sys/"}) {
        if (whole.find(path) != std::string::npos) {
          report_.add(line, "path", fmt::format("a string names {}", path),
                      "remove it: a candidate has no files");
        }
      }
    }
  }

  void directive_rules() {
    bool device_api = false;
    for (std::size_t i = 0; i < code_.size(); ++i) {
      const Token& token = code_[i];
      if (token.kind != TokenKind::kIdentifier) continue;
      const std::string lower = to_lower(std::string_view(token.text).substr(0, 128));
      if (lower.find("peer") != std::string::npos || lower.starts_with("nccllsa") ||
          lower.starts_with("ncclgin") || lower.find("devcomm") != std::string::npos ||
          lower == "ncclgetlsapointer") {
        device_api = true;
      }
      if (directive_.device_initiated() && kHostCollectives.count(token.text) > 0 &&
          is(i + 1, "(")) {
        report_.add(token.line, "host-collective",
                    fmt::format("{} is launched from the host, but the directive says {}",
                                token.text, directive::name(directive_.backend)),
                    "communicate by the device API, or choose backend none");
      }
    }
    if (directive_.device_initiated() && !device_api) {
      report_.add(
          0, "device-api",
          fmt::format("the directive says {}, but the source uses neither peers' addresses nor "
                      "NCCL's device API",
                      directive::name(directive_.backend)),
          "use peer[r] of a buffer or the functions of nccl_device.h, or choose backend none");
    }
    const bool gin = std::any_of(code_.begin(), code_.end(), [](const Token& t) {
      return t.kind == TokenKind::kIdentifier && t.text.starts_with("ncclGin");
    });
    if (gin && directive_.backend != directive::Backend::kGin &&
        directive_.backend != directive::Backend::kHybrid) {
      report_.add(0, "backend",
                  fmt::format("the source uses GIN, but the directive says {}",
                              directive::name(directive_.backend)),
                  "say gin or hybrid");
    }
  }

  std::string_view text_;
  const LintOptions& options_;
  std::vector<Token> code_;
  directive::Directive directive_;
  bool has_directive_ = false;
  Report report_;
};

}  // namespace

std::vector<Finding> lint(std::string_view text, const LintOptions& options) {
  return Linter(text, options).run();
}

std::vector<HostCall> host_collectives(std::string_view text) {
  std::vector<HostCall> out;
  for (const Token& token : tokenize(text)) {
    if (token.kind == TokenKind::kIdentifier && kHostCollectives.count(token.text) > 0)
      out.push_back({token.line, token.text});
  }
  return out;
}

bool names_word(std::string_view text, std::string_view word) {
  const auto tokens = tokenize(text);
  return std::any_of(tokens.begin(), tokens.end(), [&](const Token& token) {
    return token.kind == TokenKind::kIdentifier && token.text == word;
  });
}

std::string print(const Finding& finding, std::string_view origin) {
  std::string out(origin);
  if (finding.line > 0) out += fmt::format(":{}", finding.line);
  out += fmt::format(": {}: {}", finding.rule, finding.message);
  if (!finding.cure.empty()) out += fmt::format(" ({})", finding.cure);
  return out;
}

}  // namespace sculler::source
