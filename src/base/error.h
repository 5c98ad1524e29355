// Errors that are expected: a file that does not parse, a compiler that fails, a child that times
// out. Broken invariants throw std::logic_error; everything a user or a model can cause is an
// Error.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace sculler {

// Also the exit code of the CLI (docs/exit-codes.md): stable numbers.
enum class ErrorCode {
  kInternal = 1,
  kUsage = 2,     // bad command line
  kBadInput = 3,  // a file the user wrote is wrong: names file, line and key
  kUnknownTask = 4,
  kBadDirective = 5,  // the topology or the API forbids it
  kBadSource = 6,     // no evolve blocks, damaged frozen text
  kNoCompiler = 7,
  kNoDevice = 8,  // fewer GPUs than ranks
  kVersion = 9,   // NCCL, run folder, ABI of another version
  kDiskFull = 10,
  kIo = 11,
  kTimeout = 12,
  kChildFailed = 13,
  kUnsupported = 14,
  kProtocol = 15,  // a message that breaks the protocol
  kNotFound = 16,
  kNothingPassed = 17,  // the run ended and no candidate passed
  kModel = 18,          // a language model cannot be asked, or gave nothing of use
  kModelBudget = 19,    // the run's bound of USD or tokens
};

// What a person is told: what happened, where, and what to do. `cure` is one imperative sentence.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string file{};  // "path" or "path:line[:column]"
  std::string key{};   // the setting concerned, dotted: "sizes.emu.S"
  std::string cure{};

  // "file: key: message (cure)" on one line, parts that are empty left out.
  [[nodiscard]] std::string text() const;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}
[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message,
                                                std::string cure = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), {}, {}, std::move(cure)});
}

}  // namespace sculler
