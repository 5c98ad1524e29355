#include "eval/source_lines.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/strings.h"

namespace sculler::eval {
namespace {

constexpr std::string_view kObject = "candidate.so";
constexpr std::string_view kNoLine = "host code";
constexpr std::size_t kMostSites = 256, kMostOffsets = 6, kMostDigits = 8;
constexpr int64_t kTimeoutMs = 10'000;
constexpr uint64_t kOutputLimit = uint64_t{1} << 18;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

struct Mention {
  std::size_t begin = 0, end = 0;
  HostSite site;
};

// The next "candidate.so+0x1a2b+0x2c3d" from `from` on; end 0 where there is none.
Mention next_mention(std::string_view text, std::size_t from) {
  for (auto at = text.find(kObject, from); at != std::string_view::npos;
       at = text.find(kObject, at + 1)) {
    Mention found{at, at + kObject.size(), {}};
    while (found.site.size() < kMostOffsets && text.substr(found.end).starts_with("+0x")) {
      std::size_t end = found.end + 3;
      uint32_t value = 0;
      for (; end < text.size() && end - found.end - 3 < kMostDigits && is_hex(text[end]); ++end) {
        const char c = text[end];
        value = value << 4 | static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      }
      if (end == found.end + 3) break;
      found.site.push_back(value);
      found.end = end;
    }
    if (!found.site.empty()) return found;
  }
  return {};
}

using Lines = std::map<HostSite, std::string>;

void collect(std::string_view text, Lines& lines) {
  for (auto at = next_mention(text, 0); at.end != 0 && lines.size() < kMostSites;
       at = next_mention(text, at.end)) {
    lines.try_emplace(std::move(at.site));
  }
}

std::string replaced(const std::string& text, const Lines& lines) {
  std::string out;
  std::size_t done = 0;
  for (auto at = next_mention(text, 0); at.end != 0; at = next_mention(text, at.end)) {
    const auto line = lines.find(at.site);
    out.append(text, done, at.begin - done);
    out += line == lines.end() || line->second.empty() ? kNoLine : line->second;
    done = at.end;
  }
  return out.append(text, done);
}

// A place of its own: "candidate.cu:88" or nothing.
std::string place(const std::string& text, const Lines& lines) {
  auto out = replaced(text, lines);
  return out == kNoLine ? std::string() : out;
}

struct Place {
  std::string_view file;
  int64_t line = 0;  // 0: none that can be believed
};

// Of "/sculler/work/candidate.cu:88 (discriminator 2)".
Place place_in(std::string_view line) {
  line = line.substr(0, line.find(" ("));
  const auto colon = line.rfind(':');
  if (colon == std::string_view::npos) return {};
  const auto slash = line.rfind('/', colon);
  const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
  const auto number = parse_int(line.substr(colon + 1));
  return {line.substr(begin, colon - begin),
          number && *number >= 1 && *number <= 10'000'000 ? *number : 0};
}

void split_place(nlohmann::json& finding, const char* file, const char* line, const Lines& lines) {
  const std::string text = string_or(finding, file, "");
  if (next_mention(text, 0).end == 0) return;
  const std::string found = place(text, lines);
  const auto colon = found.rfind(':');
  finding[file] = found.substr(0, colon);
  const auto number = colon == std::string::npos
                          ? std::nullopt
                          : parse_int(std::string_view(found).substr(colon + 1));
  finding[line] = number ? *number : 0;
}

}  // namespace

std::vector<std::string> read_lines(std::string_view output,
                                    const std::vector<std::string>& sources,
                                    const std::vector<HostSite>& sites) {
  std::vector<std::vector<std::string_view>> of_offset;
  for (const std::string_view line : split(output, '\n')) {
    if (line.starts_with("0x")) of_offset.emplace_back();
    else if (!of_offset.empty()) of_offset.back().push_back(line);
  }
  std::vector<std::string> out;
  std::size_t next = 0;
  for (const auto& site : sites) {
    std::string found, kernel;
    bool stub = false;
    for (std::size_t i = 0; i < site.size(); ++i, ++next) {
      if (next >= of_offset.size()) break;
      for (const auto line : of_offset[next]) {
        const auto [file, number] = place_in(line);
        // A launch goes through nvcc's stub file and then through a function that has the kernel's
        // own line; the next place is the launch.
        if (file.ends_with(".cudafe1.stub.c")) stub = true;
        if (!found.empty() || number == 0 ||
            std::find(sources.begin(), sources.end(), file) == sources.end()) {
          continue;
        }
        (stub ? kernel : found) = std::string(file) + ":" + std::to_string(number);
        stub = false;
      }
    }
    out.push_back(found.empty() ? kernel : found);
  }
  return out;
}

std::vector<std::string> ToolLines::find(const std::string& artifact,
                                         const std::vector<std::string>& sources,
                                         const std::vector<HostSite>& sites) {
  if (toolchain_.addr2line.empty() || sites.empty()) return std::vector<std::string>(sites.size());
  Confined c;
  c.argv = {toolchain_.addr2line, "-a", "-i", "-e", artifact};
  for (const auto& site : sites) {
    // A return address is behind the call, and may belong to the next line.
    for (const uint32_t offset : site) {
      char text[16];
      std::snprintf(text, sizeof text, "0x%x", offset == 0 ? 0 : offset - 1);
      c.argv.emplace_back(text);
    }
  }
  c.env = {{"PATH", "/usr/bin:/bin"}, {"LANG", "C"}};
  c.cwd_outside = parent_path(artifact);
  c.binds.push_back({.source = parent_path(artifact)});
  c.whole_usr = true;
  c.limits.address_space_bytes = uint64_t{2} << 30;
  c.limits.cpu_seconds = kTimeoutMs / 1000;
  c.limits.open_files = 64;
  const auto result = run_command(processes_, sandbox_.wrap(c), "", kTimeoutMs, kOutputLimit);
  if (!result || !result->status.ok()) return std::vector<std::string>(sites.size());
  return read_lines(result->out, sources, sites);
}

void name_host_calls(RunResult& result, SourceLines* lines, const std::string& artifact,
                     const std::vector<std::string>& sources) {
  Lines known;
  // What comes first is resolved where there are too many.
  for (const auto* text :
       {&result.where, &result.message, &result.advice, &result.findings, &result.trace})
    collect(*text, known);
  for (const auto& note : result.notes) collect(note, known);
  if (known.empty()) return;
  std::vector<HostSite> sites;
  for (const auto& [site, line] : known) sites.push_back(site);
  if (lines != nullptr) {
    const auto found = lines->find(artifact, sources, sites);
    for (std::size_t i = 0; i < sites.size() && i < found.size(); ++i) known[sites[i]] = found[i];
  }
  result.where = place(result.where, known);
  result.message = replaced(result.message, known);
  result.advice = replaced(result.advice, known);
  result.trace = replaced(result.trace, known);
  for (auto& note : result.notes) note = replaced(note, known);
  auto findings = parse_json(result.findings, "findings");
  if (!findings || !findings->is_array()) return;
  for (auto& finding : *findings) {
    if (!finding.is_object()) continue;
    finding["text"] = replaced(string_or(finding, "text", ""), known);
    split_place(finding, "file", "line", known);
    split_place(finding, "other_file", "other_line", known);
  }
  result.findings = dump_json(*findings);
}

}  // namespace sculler::eval
