// The task.toml of gemm_allgather in memory, with placeholders for the files that it names.
#pragma once

#include <string>

#include "base/files.h"
#include "base/toml.h"

namespace sculler::task {

inline std::string gemm_text() {
  return *real_files().read(SCULLER_SOURCE_DIR "/tasks/workloads/gemm_allgather/task.toml");
}

inline void put_gemm(MemoryFiles& files, const std::string& text) {
  const std::string folder = "/home/tasks/workloads/gemm_allgather";
  (void)files.mkdirs(folder + "/baselines");
  (void)files.mkdirs(folder + "/seeds");
  (void)files.write_atomic(folder + "/task.toml", text);
  const auto tree = parse_toml(gemm_text(), "task.toml");
  for (const auto& [key, value] : tree->find("files")->table) {
    if (value.kind == TomlNode::Kind::kString)
      (void)files.write_atomic(folder + "/" + value.string, "x");
    for (const auto& item : value.array) (void)files.write_atomic(folder + "/" + item.string, "x");
  }
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  if (at == std::string::npos)
    throw std::logic_error("the text to replace is not there: " + std::string(from));
  return text.replace(at, from.size(), to);
}

}  // namespace sculler::task
