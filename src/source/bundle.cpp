#include "source/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/strings.h"
#include "source/bad_source.h"

namespace sculler::source {
namespace {

constexpr std::string_view kHeading = "// sculler:file";
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 20;

// The name of a heading's line, or nothing where the line is none.
bool heading(std::string_view line, std::string_view& name) {
  if (!line.starts_with(kHeading)) return false;
  line.remove_prefix(kHeading.size());
  if (!line.empty() && line[0] != ' ' && line[0] != '\t' && line[0] != '\r') return false;
  name = trim(line);
  return true;
}

}  // namespace

bool is_file_name(std::string_view name) {
  constexpr std::array<std::string_view, 7> kEndings = {".cu", ".cuh", ".cpp", ".cc",
                                                        ".h",  ".hpp", ".inc"};
  if (name.empty() || name.size() > 64 || name[0] == '-') return false;
  const auto dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos) return false;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dot), plain) &&
         std::find(kEndings.begin(), kEndings.end(), name.substr(dot)) != kEndings.end();
}

Result<std::vector<File>> split_bundle(std::string_view text, std::string_view first,
                                       std::string_view origin) {
  std::vector<File> out{{std::string(first), {}}};
  std::size_t begin = 0;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    std::string_view name;
    if (heading(text.substr(at, end - at), name)) {
      if (!is_file_name(name)) {
        return fail(bad_source(
            origin, number, fmt::format("\"{}\" is no file name", printable(shorten(name, 40))),
            "use a plain name that ends in .cu, .cuh, .cpp, .cc, .h, .hpp or .inc"));
      }
      for (const auto& file : out) {
        if (file.name == name)
          return fail(bad_source(origin, number, fmt::format("{} occurs twice", name),
                                 "give each file a name"));
      }
      if (out.size() >= kMaxFiles)
        return fail(
            bad_source(origin, number, fmt::format("more than {} files", kMaxFiles), "use fewer"));
      out.back().text = text.substr(begin, at - begin);
      out.push_back({std::string(name), {}});
      begin = std::min(end + 1, text.size());
    }
    at = end + 1;
  }
  out.back().text = text.substr(std::min(begin, text.size()));
  return out;
}

Result<std::string> join_bundle(const std::vector<File>& files) {
  if (files.empty() || files.size() > kMaxFiles)
    return fail(bad_source("candidate", 0, fmt::format("{} files", files.size()),
                           fmt::format("1 to {} are possible", kMaxFiles)));
  std::string out;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& file = files[i];
    int number = 0;
    for (const auto line : split(file.text, '\n')) {
      ++number;
      std::string_view name;
      if (heading(line, name))
        return fail(bad_source(file.name, number, "holds the heading of another file",
                               "leave out lines that begin with // sculler:file"));
    }
    if (i > 0) {
      if (!out.empty() && out.back() != '\n') out += '\n';
      out += fmt::format("{} {}\n", kHeading, file.name);
    }
    out += file.text;
  }
  return out;
}

Result<std::string> read_bundle(Files& files, const std::string& path) {
  auto text = files.read(path, kMaxFileBytes);
  if (!text) return fail(text.error());
  std::string out;
  int number = 0;
  for (const auto line : split(*text, '\n')) {
    ++number;
    std::string_view name;
    const auto from = heading(line, name) ? name.find(" from ") : std::string_view::npos;
    if (from == std::string_view::npos) {
      out.append(line).append("\n");
      continue;
    }
    const auto folder = trim(name.substr(from + 6));
    name = trim(name.substr(0, from));
    if (!is_file_name(name) || folder.empty() || folder[0] == '/')
      return fail(bad_source(path, number, "names no file of a folder beside it",
                             "write // sculler:file NAME.h from ../FOLDER"));
    const std::string other =
        std::filesystem::path(join_path(join_path(parent_path(path), folder), name))
            .lexically_normal()
            .string();
    auto shared = files.read(other, kMaxFileBytes);
    if (!shared) return fail(bad_source(path, number, shared.error().text(), {}));
    out.append(kHeading).append(" ").append(name).append("\n").append(*shared);
    if (!out.ends_with('\n')) out += '\n';
  }
  // The text's own last line ends as it did.
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace sculler::source
