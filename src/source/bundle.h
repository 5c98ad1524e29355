// A candidate of several files as one text: what the store keeps and a seed may be. The first file
// is the translation unit and needs no heading; every further one begins at a line
//   // sculler:file NAME
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace sculler::source {

struct File {
  std::string name;  // "candidate.cu"
  std::string text;
  friend bool operator==(const File&, const File&) = default;
};

inline constexpr std::size_t kMaxFiles = 16;

// A plain name of a C++ or CUDA file: letters, digits, '_', '-', one of the known endings, no
// folder.
[[nodiscard]] bool is_file_name(std::string_view name);

// kBadSource with "origin:line" for a name that is no file name or occurs twice, and for more than
// kMaxFiles. A text without headings is one file of the name `first`.
[[nodiscard]] Result<std::vector<File>> split_bundle(std::string_view text, std::string_view first,
                                                     std::string_view origin);
// The inverse: split_bundle(join_bundle(files), files[0].name) gives the files again, where no
// file's text holds a heading (kBadSource) and all but the last end with a newline (added where it
// is missing).
[[nodiscard]] Result<std::string> join_bundle(const std::vector<File>& files);

// The bundle that `path` holds, where a file may stand elsewhere: under a line
//   // sculler:file NAME from FOLDER
// follows what FOLDER/NAME holds, FOLDER relative to that of `path`. So several seeds share a file,
// and each candidate still has it as its own. Answers of models are never read this way. kBadSource
// with "path:line" for a folder that is not relative, and where there is no such file.
[[nodiscard]] Result<std::string> read_bundle(Files& files, const std::string& path);

}  // namespace sculler::source
