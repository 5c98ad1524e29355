// Reading what compilers print.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "eval/compile.h"

namespace sculler::eval {
namespace {

bool digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string tidy(std::string_view text) { return printable(shorten(trim(text), 400)); }

// nvcc's front end: "file(12): error: text", also "catastrophic error".
bool front_end(std::string_view line, FirstError& out) {
  for (const std::string_view mark : {"): error: ", "): catastrophic error: ", "): error "}) {
    const auto close = line.find(mark);
    if (close == std::string_view::npos) continue;
    const auto open = line.rfind('(', close);
    if (open == std::string_view::npos || !digits(line.substr(open + 1, close - open - 1)))
      continue;
    out.where = base_name(line.substr(0, open)) + ":" +
                std::string(line.substr(open + 1, close - open - 1));
    out.message = tidy(line.substr(close + mark.size()));
    return true;
  }
  return false;
}

// g++ and as: "file:12:3: error: text", "file:12: Error: text".
bool gnu(std::string_view line, FirstError& out) {
  for (const std::string_view mark : {": error: ", ": fatal error: ", ": Error: "}) {
    const auto at = line.find(mark);
    if (at == std::string_view::npos) continue;
    std::string_view place = line.substr(0, at);
    out.message = tidy(line.substr(at + mark.size()));
    auto colon = place.rfind(':');
    while (colon != std::string_view::npos && digits(place.substr(colon + 1))) {
      const auto before = place.substr(0, colon);
      const auto previous = before.rfind(':');
      if (previous != std::string_view::npos && digits(before.substr(previous + 1))) {
        place = before;
        colon = previous;
        continue;
      }
      out.where = base_name(before) + ":" + std::string(place.substr(colon + 1));
      break;
    }
    return true;
  }
  return false;
}

bool tool(std::string_view line, FirstError& out) {
  for (const std::string_view mark :
       {"undefined reference to", "multiple definition of", "ptxas error", "ptxas fatal",
        "nvcc fatal", "nvlink error", "; error", "cannot find -l", "Killed", "out of memory"}) {
    if (line.find(mark) == std::string_view::npos) continue;
    out.message = tidy(line);
    return true;
  }
  return false;
}

// The number before `unit` in a line, 0 where there is none.
int64_t number_before(std::string_view line, std::string_view unit) {
  const auto at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  auto begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  return parse_int(line.substr(begin, at - begin)).value_or(0);
}

}  // namespace

FirstError first_error(std::string_view output) {
  FirstError found;
  const auto lines = split(output, '\n');
  for (const auto line : lines) {
    if (front_end(line, found) || gnu(line, found)) return found;
  }
  for (const auto line : lines) {
    if (tool(line, found)) return found;
  }
  for (const auto line : lines) {
    if (!trim(line).empty()) {
      found.message = tidy(line);
      break;
    }
  }
  return found;
}

std::map<std::string, int64_t> ptxas_facts(std::string_view output) {
  std::map<std::string, int64_t> facts;
  const auto raise = [&](const char* name, int64_t value) {
    auto& held = facts[name];
    held = std::max(held, value);
  };
  for (const auto line : split(output, '\n')) {
    if (line.find("bytes spill stores") != std::string_view::npos) {
      raise("spills", number_before(line, " bytes spill stores"));
    }
    if (line.find(" registers") != std::string_view::npos &&
        line.find("Used ") != std::string_view::npos) {
      raise("registers", number_before(line, " registers"));
      raise("shared", number_before(line, " bytes smem"));
    }
  }
  return facts;
}

std::vector<std::string> parse_depfile(std::string_view text) {
  std::vector<std::string> paths;
  std::string word;
  bool target = true;
  const auto flush = [&] {
    if (word.empty()) return;
    if (target && word.back() == ':') {
      target = false;
    } else if (!target) {
      paths.push_back(word);
    } else if (word == ":") {
      target = false;
    }
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      const char next = text[i + 1];
      if (next == '\n') {
        flush();
        ++i;
        continue;
      }
      if (next == ' ' || next == '#') {
        word += next;
        ++i;
        continue;
      }
    }
    if (c == '$' && i + 1 < text.size() && text[i + 1] == '$') {
      word += '$';
      ++i;
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\n') {
      flush();
      if (c == '\n' && !target && !paths.empty()) break;  // -MP's phony rules follow
      continue;
    }
    word += c;
  }
  flush();
  return paths;
}

bool source_requires(std::string_view source, std::string_view name) {
  const std::string_view key = "sculler:requires";
  for (auto at = source.find(key); at != std::string_view::npos;
       at = source.find(key, at + key.size())) {
    const auto begin = source.rfind('\n', at) + 1;  // npos + 1 = 0
    if (!trim(source.substr(begin, at - begin)).starts_with("//")) continue;
    const auto rest = source.substr(at + key.size());
    for (const auto word : split(trim(rest.substr(0, rest.find('\n'))), ' ')) {
      if (trim(word) == name) return true;
    }
  }
  return false;
}

}  // namespace sculler::eval
