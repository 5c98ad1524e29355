// The kinds of models.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/process.h"
#include "llm/backend.h"
#include "llm/http.h"
#include "llm/wire.h"

namespace sculler::llm {

// OpenAI-compatible or Anthropic. `headers` with the key in them.
[[nodiscard]] std::unique_ptr<Backend> make_http_backend(
    Protocol protocol, const Model& model, std::vector<std::pair<std::string, std::string>> headers,
    Http& http);

// One question over HTTP, for backends that have an endpoint of their own.
[[nodiscard]] RawReply ask_over_http(Protocol protocol, const Model& model, HttpRequest request,
                                     Http& http, const Question& question, const Stop& stop);

// A folder: NAME.prompt.md is put there, NAME.answer.md awaited.
[[nodiscard]] std::unique_ptr<Backend> make_files_backend(Files& files, Clock& clock,
                                                          std::string folder);

// A program: the prompt on stdin, the answer on stdout.
[[nodiscard]] std::unique_ptr<Backend> make_command_backend(Processes& processes, Clock& clock,
                                                            const Model& model);

// A llama.cpp server of our own on a Unix socket, started with the first question.
[[nodiscard]] std::unique_ptr<Backend> make_local_backend(Processes& processes, Files& files,
                                                          Clock& clock, Http& http,
                                                          const Model& model, std::string log);

// Rules of a file, for tests: answers and faults of every kind.
[[nodiscard]] Result<std::unique_ptr<Backend>> make_script_backend(Files& files, Clock& clock,
                                                                   int64_t seed,
                                                                   const std::string& path);

}  // namespace sculler::llm
