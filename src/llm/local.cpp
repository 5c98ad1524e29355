#include "llm/local.h"

#include <fmt/format.h>

#include "base/process.h"

namespace sculler::llm {

Status find_local(Files& files, const std::string& cache, Model& model) {
  const std::string folder = join_path(cache, "llm");
  const auto missing = [&](const char* key, std::string what) {
    return fail(Error{ErrorCode::kNotFound,
                      std::move(what),
                      {},
                      key,
                      "run scripts/local-model once (6 minutes), or set server and path"});
  };
  if (model.server.empty()) model.server = env_value("SCULLER_LLAMA_SERVER");
  if (model.server.empty() && files.exists(join_path(folder, "llama-server")))
    model.server = join_path(folder, "llama-server");
  if (model.server.empty()) model.server = find_program("llama-server");
  if (model.server.empty())
    return missing("server", fmt::format("no llama-server in {} or PATH", folder));
  if (!files.exists(model.server))
    return missing("server", fmt::format("{} is not there", model.server));
  if (model.path.empty()) model.path = env_value("SCULLER_LLAMA_MODEL");
  if (model.path.empty()) {
    auto names = files.list(folder);
    for (const auto& name : names ? *names : std::vector<std::string>()) {
      if (name.ends_with(".gguf")) model.path = join_path(folder, name);
      if (!model.path.empty()) break;
    }
  }
  if (model.path.empty()) return missing("path", fmt::format("no *.gguf in {}", folder));
  if (!files.exists(model.path)) return missing("path", fmt::format("{} is not there", model.path));
  return {};
}

}  // namespace sculler::llm
