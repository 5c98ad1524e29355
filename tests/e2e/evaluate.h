// Drives the real sculler-eval of this build.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/sha256.h"

namespace sculler::e2e {

namespace fs = std::filesystem;
using nlohmann::json;

inline std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::string source_path(const std::string& relative) {
  return std::string(SCULLER_SOURCE_DIR) + "/" + relative;
}

// A job line with the source as candidate; `extra` overrides.
inline json job_line(const std::string& task, const std::string& name, const std::string& text,
                     const std::string& target, const std::vector<std::string>& stages,
                     const json& extra = json::object()) {
  json job{
      {"version", 1},
      {"task", source_path("tasks/" + task)},
      {"target", target},
      {"profile", ""},
      {"n_ranks", 2},
      {"candidate", {{"files", {{{"name", name}, {"text", text}}}}, {"defines", json::object()}}},
      {"size", "emu"},
      {"seed", 1},
      {"stages", stages}};
  job.update(extra);
  job["job"] = sha256_hex(job.dump());
  return job;
}

inline std::vector<std::pair<std::string, std::string>> environment() {
  auto env = env_subset({"PATH", "HOME", "TMPDIR", "SCULLER_CUDA_HOME", "SCULLER_CUTLASS_HOME",
                         "SCULLER_PREFIX", "XDG_DATA_HOME"});
  // Tests take turns among themselves, and do not wait for what else this machine measures.
  env.emplace_back("SCULLER_LOCK_FOLDER", SCULLER_BINARY_DIR);
  return env;
}

// sculler as a user runs it.
inline SpawnOptions sculler_command(const std::vector<std::string>& arguments) {
  SpawnOptions options;
  options.argv = {std::string(SCULLER_BINARY_DIR) + "/bin/sculler"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.env = environment();
  return options;
}

struct Answer {
  std::vector<json> verdicts;  // in order of arrival
  std::string raw, errors;
  std::string ended;  // how the evaluator did
  int code = -1;
};

// Compiled artifacts are kept between tests of one build; verdicts only where `spool` is given.
inline Answer evaluate(const std::vector<json>& jobs, const std::string& spool = {},
                       int64_t timeout_ms = 240'000, std::string containment = {}) {
  if (containment.empty()) containment = env_value("SCULLER_TEST_CONTAINMENT");
  SpawnOptions options;
  options.argv = {std::string(SCULLER_BINARY_DIR) + "/bin/sculler-eval", "--cache",
                  std::string(SCULLER_BINARY_DIR) + "/e2e-cache"};
  if (!spool.empty()) options.argv.insert(options.argv.end(), {"--spool", spool});
  if (!containment.empty()) options.argv.insert(options.argv.end(), {"--containment", containment});
  options.env = environment();
  std::string input;
  for (const auto& job : jobs) input += job.dump() + "\n";
  Answer answer;
  auto result = run_command(real_processes(), options, input, timeout_ms);
  if (!result) {
    ADD_FAILURE() << result.error().text();
    return answer;
  }
  answer.code = result->status.code;
  answer.ended = result->status.text();
  answer.raw = result->out;
  answer.errors = result->err;
  std::istringstream lines(result->out);
  for (std::string line; std::getline(lines, line);) answer.verdicts.push_back(json::parse(line));
  return answer;
}

inline json evaluate_one(const json& job, int64_t timeout_ms = 240'000) {
  auto answer = evaluate({job}, {}, timeout_ms);
  EXPECT_EQ(answer.verdicts.size(), 1U) << answer.raw << answer.errors << answer.ended;
  return answer.verdicts.empty() ? json::object() : answer.verdicts[0];
}

inline std::string status_of(const json& verdict) { return verdict.value("status", "none"); }

}  // namespace sculler::e2e
