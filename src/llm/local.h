// Where the embedded model and its server are.
#pragma once

#include <string>

#include "base/error.h"
#include "base/files.h"
#include "llm/settings.h"

namespace sculler::llm {

// Fills `model.server` and `model.path` where they are empty: the server of SCULLER_LLAMA_SERVER,
// CACHE/llm/llama-server, or llama-server of PATH; the model of SCULLER_LLAMA_MODEL, or the first
// *.gguf in CACHE/llm. kNotFound names what is missing and what brings it.
[[nodiscard]] Status find_local(Files& files, const std::string& cache, Model& model);

}  // namespace sculler::llm
