#include "source/tunables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "source/hash_lines.h"
#include "source/token.h"

namespace sculler::source {
namespace {

constexpr std::string_view kMark = "sculler:tune";
constexpr std::size_t kMaxTunables = 32, kMaxValues = 64, kMaxValueLength = 64;

Error bad(std::string_view origin, int line, std::string key, std::string message,
          std::string cure) {
  return {ErrorCode::kBadSource, std::move(message), fmt::format("{}:{}", origin, line),
          std::move(key), std::move(cure)};
}

bool identifier(std::string_view word) {
  if (word.empty() || word.size() > 64 || (word[0] >= '0' && word[0] <= '9')) return false;
  return std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// What may stand in -DNAME=value: a number or a name. Nothing that a compiler's driver or the
// preprocessor could take apart.
bool plain_value(std::string_view value) {
  if (value.empty() || value.size() > kMaxValueLength) return false;
  if (value[0] == '-') value.remove_prefix(1);
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
}

// The tokens `# ifndef NAME # define NAME VALUE` that follow at `at`; the value as text, or empty.
bool guarded_define(const std::vector<Token>& tokens, std::size_t at, const std::string& name,
                    std::string& value) {
  const auto is = [&](std::size_t i, std::string_view text) {
    return i < tokens.size() && tokens[i].text == text;
  };
  if (!is(at, "#") || !is(at + 1, "ifndef") || !is(at + 2, name)) return false;
  if (!is(at + 3, "#") || !is(at + 4, "define") || !is(at + 5, name)) return false;
  const int line = at + 5 < tokens.size() ? tokens[at + 5].line : 0;
  for (std::size_t i = at + 6; i < tokens.size() && tokens[i].line == line; ++i)
    value += tokens[i].text;
  return true;
}

// The line "NAME = VALUE" that begins behind the newline at `at`.
bool assigned(std::string_view text, std::size_t at, const std::string& name, std::string& value) {
  if (at >= text.size()) return false;
  const auto end = std::min(text.find('\n', at + 1), text.size());
  auto line = text.substr(at + 1, end - at - 1);
  line = trim(line.substr(0, line.find('#')));
  if (!line.starts_with(name)) return false;
  line = trim(line.substr(name.size()));
  if (!line.starts_with("=")) return false;
  value = std::string(trim(line.substr(1)));
  return plain_value(value);
}

}  // namespace

Result<std::vector<Tunable>> find_tunables(std::string_view text, std::string_view origin) {
  if (text.size() > kMaxSourceBytes)
    return fail(bad(origin, 1, {}, "the source is too large", "shorten it"));
  std::vector<Tunable> out;
  struct Mark {
    std::string_view body;  // behind the word
    int line = 0;
    std::size_t next = 0;            // of the code that follows
    const HashLine* hash = nullptr;  // of a language whose comments begin with '#'
  };
  std::vector<Mark> marks;
  const auto hashes = hash_lines(text, kMark);
  for (const auto& hash : hashes)
    marks.push_back({trim(hash.body.substr(kMark.size())), hash.line, hash.end, &hash});
  const auto tokens = hashes.empty() ? tokenize(text, true) : std::vector<Token>();
  std::vector<Token> code;  // tokens that are no comments
  for (const auto& token : tokens) {
    if (token.kind != TokenKind::kComment) code.push_back(token);
    else if (const auto comment = trim(token.text); comment.starts_with(kMark))
      marks.push_back({trim(comment.substr(kMark.size())), token.line, code.size()});
  }
  for (const auto& [body, line, next, hash] : marks) {
    constexpr const char* kForm = "write // sculler:tune NAME in {1,2,4}";
    const auto in = body.find(" in ");
    const auto open = body.find('{'), close = body.rfind('}');
    if (in == std::string_view::npos || open == std::string_view::npos ||
        close == std::string_view::npos || close < open ||
        !trim(body.substr(in + 4, open - std::min(open, in + 4))).empty() ||
        !trim(body.substr(close + 1)).empty()) {
      return fail(
          bad(origin, line, {},
              fmt::format("\"{}\" is no declaration of a tunable", printable(shorten(body, 80))),
              kForm));
    }
    Tunable tunable;
    tunable.line = line;
    tunable.name = std::string(trim(body.substr(0, in)));
    if (!identifier(tunable.name))
      return fail(bad(origin, line, {},
                      fmt::format("\"{}\" is no name", printable(shorten(tunable.name, 40))),
                      kForm));
    for (const auto word : split(body.substr(open + 1, close - open - 1), ',')) {
      const std::string value(trim(word));
      if (!plain_value(value)) {
        return fail(
            bad(origin, line, tunable.name,
                fmt::format("\"{}\" is no value of a tunable", printable(shorten(value, 40))),
                "use numbers or names"));
      }
      if (std::find(tunable.values.begin(), tunable.values.end(), value) != tunable.values.end()) {
        return fail(
            bad(origin, line, tunable.name, fmt::format("{} occurs twice", value), "remove one"));
      }
      tunable.values.push_back(value);
    }
    if (tunable.values.size() > kMaxValues) {
      return fail(
          bad(origin, line, tunable.name,
              fmt::format("{} values, at most {} are taken", tunable.values.size(), kMaxValues),
              "list fewer"));
    }
    for (const auto& other : out) {
      if (other.name == tunable.name)
        return fail(bad(origin, line, tunable.name,
                        fmt::format("is declared at line {} already", other.line), "remove one"));
    }
    std::string usual;
    if (hash != nullptr ? !assigned(text, next, tunable.name, usual)
                        : !guarded_define(code, next, tunable.name, usual)) {
      return fail(bad(origin, line, tunable.name, "is not followed by its default",
                      hash != nullptr
                          ? fmt::format("write {} = VALUE on the line below it", tunable.name)
                          : fmt::format("write #ifndef {0}, #define {0} VALUE and #endif below it",
                                        tunable.name)));
    }
    const auto at = std::find(tunable.values.begin(), tunable.values.end(), usual);
    tunable.from_define = at != tunable.values.end();
    if (tunable.from_define) {
      tunable.usual = static_cast<std::size_t>(at - tunable.values.begin());
    } else if (const auto wanted = parse_double(usual)) {
      double best = INFINITY;
      for (std::size_t i = 0; i < tunable.values.size(); ++i) {
        const auto value = parse_double(tunable.values[i]);
        if (value && std::abs(*value - *wanted) < best) {
          best = std::abs(*value - *wanted);
          tunable.usual = i;
        }
      }
    }
    out.push_back(std::move(tunable));
    if (out.size() > kMaxTunables)
      return fail(bad(origin, line, {}, fmt::format("more than {} tunables", kMaxTunables),
                      "declare fewer"));
  }
  return out;
}

uint64_t space_size(const std::vector<Tunable>& tunables) {
  uint64_t size = 1;
  for (const auto& tunable : tunables) {
    if (__builtin_mul_overflow(size, uint64_t{tunable.values.size()}, &size) ||
        size > (uint64_t{1} << 62))
      return uint64_t{1} << 62;
  }
  return size;
}

Defines point(const std::vector<Tunable>& tunables, const std::vector<std::size_t>& choice) {
  Defines out;
  for (std::size_t i = 0; i < tunables.size(); ++i)
    out.emplace_back(tunables[i].name, tunables[i].values.at(choice.at(i)));
  return out;
}

std::vector<std::size_t> usual_choice(const std::vector<Tunable>& tunables) {
  std::vector<std::size_t> out;
  for (const auto& tunable : tunables) out.push_back(tunable.usual);
  return out;
}

std::string print(const Defines& defines) {
  std::string out;
  for (const auto& [name, value] : defines) {
    if (!out.empty()) out += ' ';
    out += name + "=" + value;
  }
  return out;
}

Status check_defines(const std::vector<Tunable>& tunables, const Defines& defines,
                     std::string_view origin) {
  std::vector<std::string> names;
  for (const auto& tunable : tunables) names.push_back(tunable.name);
  for (const auto& [name, value] : defines) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      const auto like = nearest(name, names);
      return fail(Error{ErrorCode::kUsage, "is no tunable of this source", std::string(origin),
                        name,
                        like            ? fmt::format("did you mean {}?", *like)
                        : names.empty() ? std::string("it declares none")
                                        : fmt::format("it declares {}", join(names, ", "))});
    }
    const auto& tunable = tunables[static_cast<std::size_t>(at - names.begin())];
    if (std::find(tunable.values.begin(), tunable.values.end(), value) == tunable.values.end()) {
      return fail(Error{ErrorCode::kUsage,
                        fmt::format("{} is not one of its values", printable(value)),
                        fmt::format("{}:{}", origin, tunable.line), name,
                        fmt::format("choose from {{{}}}", join(tunable.values, ","))});
    }
  }
  return {};
}

std::vector<std::string> requirements(std::string_view text) {
  std::vector<std::string> out;
  for (const auto line : split(text.substr(0, 16384), '\n')) {
    auto body = trim(line);
    if (!body.starts_with("//")) continue;
    body = trim(body.substr(2));
    if (!body.starts_with("sculler:requires")) continue;
    for (const auto word : split(body.substr(16), ' ')) {
      if (!trim(word).empty()) out.emplace_back(trim(word));
    }
  }
  return out;
}

}  // namespace sculler::source
