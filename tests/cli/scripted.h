// The command line with a scripted model, a machine that is made up and a stubbed evaluator.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cli/app.h"
#include "cli/settings.h"
#include "support/temp_folder.h"

namespace sculler::cli {

inline std::string scripted_machine() {
  return dump_json(
      {{"containment", {{"level", "full"}, {"why", ""}}},
       {"cuda", {{"home", "/cuda"}, {"nvcc", "13.0.88"}}},
       {"nccl", {{"include", "/cuda/include"}, {"version", 22809}}},
       {"cutlass", nlohmann::json::array()},
       {"gxx", "/usr/bin/g++"},
       {"gpus", nlohmann::json::array()},
       {"gpu_problem", ""},
       {"cuda_libraries", nlohmann::json::array()},
       {"emulator_libraries", {"/lib/emu/libcuda.so.1"}},
       {"programs", {{"sculler-rank", true}, {"sculler-vm", true}, {"sculler-verify", true}}},
       {"share", "/share"},
       {"cache", "/"},
       {"cores", 2}});
}

// A time that the job's id decides.
inline std::string scripted_verdict(const std::string& id, const std::string&) {
  const double us = 500 + static_cast<double>(std::stoul(id.substr(0, 4), nullptr, 16) % 1000);
  nlohmann::json v{{"version", 1}, {"job", id}, {"status", "PASSED"}, {"stage", "emulate"}};
  v["latency_us"] = {
      {"median", us}, {"low", us}, {"high", us}, {"kind", "predicted"}, {"size", "default"}};
  return dump_json(v);
}

// A command on a machine of scripted answers; what it printed goes to `out` and `err`.
inline int run_captured(Clock& clock, const std::vector<std::string>& arguments, std::string& out,
                        std::string& err, decltype(App::make_evaluator) make_evaluator) {
  char *out_text = nullptr, *err_text = nullptr;
  std::size_t out_bytes = 0, err_bytes = 0;
  App app{real_files(), clock, real_processes(), "/nowhere", SCULLER_SOURCE_DIR, ""};
  app.out = open_memstream(&out_text, &out_bytes);
  app.err = open_memstream(&err_text, &err_bytes);
  app.ask_doctor = [] { return Result<std::string>(scripted_machine()); };
  app.make_evaluator = std::move(make_evaluator);
  const int code = run_app(app, arguments);
  std::fclose(app.out);
  std::fclose(app.err);
  out.assign(out_text, out_bytes);
  err.assign(err_text, err_bytes);
  std::free(out_text);
  std::free(err_text);
  return code;
}

class ScriptedCliTest : public ::testing::Test {
 protected:
  // `optimize`: the begin of every such call, the folder of its runs aside.
  ScriptedCliTest(const char* rules, std::vector<std::string> optimize)
      : optimize_(std::move(optimize)) {
    EXPECT_TRUE(real_files().write_atomic(folder_ + "/rules.toml", rules));
  }

  int run(const std::vector<std::string>& arguments) {
    return run_captured(clock_, arguments, out_, err_, [](const std::string&) {
      return std::make_unique<search::FakeEvaluator>(scripted_verdict);
    });
  }
  std::vector<std::string> optimize(const std::vector<std::string>& more) const {
    auto all = optimize_;
    all.insert(all.end(), {"--runs", folder_ + "/runs"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // What is printed of settings reads back the same.
  static void expect_reads_back(const Settings& settings) {
    MemoryFiles files;
    ASSERT_TRUE(files.write_atomic("/run.toml", print_settings(settings)));
    Settings back;
    ASSERT_TRUE(read_settings(files, "/run.toml", back));
    EXPECT_EQ(print_settings(back), print_settings(settings));
  }
  bool said(const std::string& text) const { return out_.find(text) != std::string::npos; }

  const std::vector<std::string> optimize_;
  FakeClock clock_;
  test::TempFolder temporary_{"sculler_cli"};
  const std::string folder_ = temporary_.path();
  std::string out_, err_;
};

}  // namespace sculler::cli
