// Toy programs whose time stands in their text, a model that rewrites them, an evaluator that
// reads them.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/library.h"
#include "base/json.h"
#include "base/sha256.h"
#include "llm/provider.h"
#include "search/evaluator.h"
#include "search/evolve/evolve.h"

namespace sculler::search {

inline std::string toy(const std::string& backend, int value) {
  return fmt::format(
      "// sculler:directive {{\"backend\":\"{}\",\"issuer\":\"cta\"}}\n#include <x>\n"
      "// EVOLVE-BLOCK-START\nint value = {};\n// EVOLVE-BLOCK-END\nint sculler_run();\n"
      "// EVOLVE-BLOCK-START\nint other = {};\n// EVOLVE-BLOCK-END\n",
      backend, value, value);
}

inline std::vector<std::shared_ptr<const Source>> toy_seeds() {
  return {*make_source("toy_a", "toy_a.cu", toy("lsa", 400)),
          *make_source("toy_b", "toy_b.cu", toy("none", 450)),
          *make_source("toy_c", "toy_c.cu", toy("lsa", 70))};
}

// The number after `word` in a text, -1 without one.
inline int number_after(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + word.size());
}

// value is the time; multiples of 7 are races.
inline std::string toy_verdict(const std::string& id, const std::string& line) {
  const auto job = *parse_json(line, "job");
  const auto text = job["candidate"]["files"][0]["text"].get<std::string>();
  const int value = number_after(text, "int value = "), other = number_after(text, "int other = ");
  nlohmann::json v{{"version", 1}, {"job", id}, {"stage", "emulate"}, {"status", "PASSED"}};
  if (value % 7 == 0) {
    v["status"] = "RACE";
    v["where"] = "candidate.cu:4";
    v["rank"] = 1;
    v["message"] = "rank 1 reads what rank 0 writes";
    v["findings"] = {{{"kind", "race"},
                      {"text", "no barrier orders them"},
                      {"file", "candidate.cu"},
                      {"line", 4}}};
    return dump_json(v);
  }
  const double us = value < 0 ? 1000 : 500 + value + 0.001 * other;
  v["latency_us"] = {
      {"median", us}, {"low", us}, {"high", us}, {"kind", "predicted"}, {"size", "default"}};
  v["percent_sol"] = 20000 / us;
  return dump_json(v);
}

inline Candidate toy_baseline() {
  auto candidate = usual(*make_source("nccl", "nccl.cu", "// the baseline\n"), "baseline");
  candidate.baseline = true;
  return candidate;
}

inline std::string directive_for(int64_t index) {
  const std::vector<const char*> some = {
      R"({"backend":"lsa","issuer":"cta","placement":"tile_fused","sync":"tile","granularity":65536,"why":"early"})",
      R"({"backend":"lsa","issuer":"warp","placement":"split_phase","sync":"peer","granularity":0,"why":"simple"})",
      R"({"backend":"none","issuer":"copy_engine","placement":"stream_overlap","sync":"peer","granularity":8388608,"why":"engines"})"};
  return some[static_cast<std::size_t>(index) % some.size()];
}

// A small step down from the program in the prompt, by search and replace.
inline llm::Answer toy_answer(const llm::Request& request) {
  llm::Answer out;
  out.model = "toy-model";
  out.prompt_tokens = 100;
  out.answer_tokens = 10;
  out.usd = 0.001;
  if (request.role == "directive") {
    out.text = directive_for(request.index);
    return out;
  }
  if (request.role == "meta") {
    out.text = fmt::format("What holds: {} ideas.\nWhat to try: smaller values.", request.index);
    return out;
  }
  if (request.role == "judge") {
    out.text = "rank 1 does not wait";
    return out;
  }
  const auto& user = request.messages[1].text;
  const auto program = user.substr(user.find("## The program"));
  const int value = number_after(program, "int value = ");
  const int step = 1 + static_cast<int>(request.index * 7919 % 11);
  out.text = fmt::format(
      "A smaller value.\n<<<<<<< SEARCH\nint value = {0};\n=======\nint value = {1};\nint by_{2};\n"
      ">>>>>>> REPLACE\n",
      value, value - step, request.index);
  return out;
}

inline std::vector<std::string> role_names() {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < agent::kRoles; ++i)
    out.emplace_back(agent::role_name(static_cast<agent::Role>(i)));
  return out;
}

inline std::shared_ptr<const agent::Library> toy_library() {
  MemoryFiles files;
  if (!files.mkdirs("/home/prompts") || !files.mkdirs("/home/knowledge")) std::abort();
  for (const auto& role : role_names()) {
    auto text = real_files().read(std::string(SCULLER_SOURCE_DIR) + "/prompts/" + role + ".md");
    if (!text || !files.write_atomic("/home/prompts/" + role + ".md", *text)) std::abort();
  }
  for (const char* topic :
       {"candidate-abi", "directive", "emulator", "fusion-guide", "nccl-device-api", "hardware"}) {
    if (!files.write_atomic(std::string("/home/knowledge/") + topic + ".md",
                            std::string("(all about ") + topic + ")\n"))
      std::abort();
  }
  return *agent::Library::load(files, {"/home"});
}

inline Brief toy_brief() {
  Brief out;
  out.library = toy_library();
  for (const char* name : {"task_name", "task_summary", "task_readme", "task_header", "target",
                           "hardware", "candidate_header"})
    out.constants.texts[name] = {std::string("(") + name + ")", {}, 0};
  out.topology.n_ranks = out.topology.ranks_per_node = 2;
  return out;
}

}  // namespace sculler::search
