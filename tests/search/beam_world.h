// Toy kernels whose time stands in their text, models that answer by the index of the question, and
// an evaluator that reads the texts.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "llm/provider.h"
#include "search/beam/beam.h"
#include "search/evolve_world.h"

namespace sculler::search::beam {

// `value` is the time in us; 0: it is wrong, -1: it does not end. `by` tells equal times apart.
inline std::string kernel_text(int value, int64_t by) {
  return fmt::format(
      "#include <x>\n// EVOLVE-BLOCK-START\nint value = {};\nint by = {};\n// EVOLVE-BLOCK-END\n"
      "int sculler_run();\n",
      value, by);
}

inline std::shared_ptr<const Source> kernel_seed(int value, int64_t by = -1) {
  return *make_source("seed", "candidate.cpp", kernel_text(value, by));
}

inline constexpr uint64_t kTimedAgain = 7919;  // added to a job's seed for each time

// What a program takes when it is timed for the n-th time after the first: (value, n) → us.
using Drift = std::map<std::pair<int, int64_t>, double>;

inline std::string kernel_verdict(const std::string& id, const std::string& line,
                                  const Drift& drift = {}) {
  const auto job = *parse_json(line, "job");
  const auto text = job["candidate"]["files"][0]["text"].get<std::string>();
  const bool baseline = text.find("the baseline") != std::string::npos;
  const int value = baseline ? 1000 : number_after(text, "int value = ");
  nlohmann::json v{{"version", 1}, {"job", id}, {"stage", "bench"}, {"status", "PASSED"}};
  if (value == 0 || value == -1) {
    v["status"] = value == 0 ? "INCORRECT" : "TIMEOUT";
    v["stage"] = "run";
    v["message"] = value == 0 ? "Y[3] is 1, not 2" : "it did not end";
    return dump_json(v);
  }
  double us = value;
  const auto again = static_cast<int64_t>(job["seed"].get<uint64_t>() / kTimedAgain);
  if (const auto at = drift.find({value, again}); at != drift.end()) us = at->second;
  v["facts"] = {{"spills", 0}};
  v["notes"] = {"vectorised"};
  v["latency_us"] = {
      {"median", us}, {"low", us}, {"high", us}, {"kind", "measured"}, {"size", "default"}};
  return dump_json(v);
}

// The same where no time drifts.
inline std::string first_verdict(const std::string& id, const std::string& line) {
  return kernel_verdict(id, line);
}

inline std::string plan_answer(const std::string& step, const std::vector<int>& uses = {}) {
  return dump_json({{"bottleneck", "memory"},
                    {"evidence", {"status: PASSED at stage bench"}},
                    {"plan", step},
                    {"uses", uses}});
}

inline std::string block_answer(int value, int64_t by) {
  return fmt::format(
      "Another value.\n```cpp candidate.cpp\n// EVOLVE-BLOCK-START\nint value = {};\nint by = {};\n"
      "// EVOLVE-BLOCK-END\n```\n",
      value, by);
}

inline std::string lesson_answer(const llm::Request& request, const std::string& title) {
  const auto& user = request.messages[1].text;
  const auto slow = user.find("## The first program"), fast = user.find("## The second program");
  const auto line = [&](std::size_t from) {
    const auto at = user.find("int value = ", from);
    return user.substr(at, user.find('\n', at) - at);
  };
  return dump_json({{"title", title},
                    {"description", "a smaller value takes less time"},
                    {"original", line(slow)},
                    {"optimized", line(fast)}});
}

inline llm::Answer beam_reply(std::string text) {
  llm::Answer out;
  out.model = "toy-model";
  out.prompt_tokens = 100;
  out.answer_tokens = 10;
  out.usd = 0.001;
  out.text = std::move(text);
  return out;
}

// Executors write the values of the table, by the index of the question; what it does not have is
// wrong.
inline llm::Reply beam_answer(const llm::Request& request, const std::map<int64_t, int>& values) {
  if (request.role == "planner")
    return beam_reply(plan_answer(fmt::format("step {}", request.index)));
  if (request.role == "summarizer")
    return beam_reply(lesson_answer(request, fmt::format("lesson of plan {}", request.index + 1)));
  const auto at = values.find(request.index);
  return beam_reply(block_answer(at == values.end() ? 0 : at->second, request.index));
}

inline Brief beam_brief() {
  Brief out = toy_brief();
  out.device_code = false;
  return out;
}

}  // namespace sculler::search::beam
