// The JSON lines between the evaluator and an adapter (docs/external.md): requests as they are
// written, answers as they are read. An answer is hostile: the candidate runs in the adapter's
// process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "eval/job.h"
#include "task/task.h"

namespace sculler::eval {

inline constexpr int kAdapterProtocol = 1;
inline constexpr std::size_t kAdapterLine = std::size_t{1} << 20;  // longest answer
inline constexpr std::size_t kAdapterOrder = 4096;                 // iterations of one request

enum class Operation : uint8_t {
  kHello,      // who it is and what it can do
  kCompile,    // a program from files
  kLoad,       // inputs of one set
  kVerify,     // one run of a program on a set, outputs into files
  kBenchmark,  // timed runs over sets
  kOutputs,    // what the last run of a program left in a set, into files
  kProfile,    // what takes the time
  kBye,
};
[[nodiscard]] std::string_view operation_name(Operation operation);

struct AdapterAnswer {
  bool ok = false;
  // Where not ok: a status that an adapter may give, and why.
  std::string status, message, advice, where;
  // hello
  std::string name, version, device;
  std::vector<std::string> capabilities;  // words: "benchmark", "profile", "cold"
  std::vector<std::string> does;          // rules that it says it keeps
  // compile, profile
  std::map<std::string, int64_t> facts;
  // benchmark: one an iteration, microseconds, finite and above 0
  std::vector<double> us;
  // profile
  std::string bottleneck, why;
  std::vector<std::string> remarks;

  [[nodiscard]] bool can(std::string_view capability) const;
};

// Reads an answer to request `id`. kProtocol says how it broke the protocol: no JSON, another id, a
// missing or wrong member, a number that is none, `expected` not being the number of times.
// Everything that is kept is bounded and printable.
[[nodiscard]] Result<AdapterAnswer> parse_answer(std::string_view line, Operation operation,
                                                 int64_t id, std::size_t expected = 0);

// Requests, one line each, no newline. Paths are relative to the adapter's working folder.
[[nodiscard]] std::string hello_request(int64_t id, const std::string& task,
                                        std::string_view containment);
[[nodiscard]] std::string compile_request(
    int64_t id, const std::string& program, const std::string& folder,
    const std::vector<std::string>& files,
    const std::vector<std::pair<std::string, std::string>>& defines, const std::string& task);
[[nodiscard]] std::string load_request(int64_t id, int set, const std::string& folder,
                                       const std::vector<std::string>& dim_names,
                                       const task::Problem& problem,
                                       const std::vector<task::Buffer>& buffers);
// verify, outputs; profile where `folder` is empty.
[[nodiscard]] std::string run_request(Operation operation, int64_t id, const std::string& program,
                                      int set, const std::string& folder);
[[nodiscard]] std::string benchmark_request(int64_t id, const std::string& program,
                                            const std::vector<int>& order, bool cold);
[[nodiscard]] std::string bye_request(int64_t id);

}  // namespace sculler::eval
