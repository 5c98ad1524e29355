// sculler bench kernels: figures of rows, and the command with a stubbed evaluator.
#include <gtest/gtest.h>

#include <set>

#include "base/strings.h"
#include "cli/kernels/suite.h"
#include "cli/scripted.h"
#include "search/kept.h"
#include "store/calls.h"

namespace sculler::cli {
namespace {

using kernels::Row;

Row row(const std::string& kernel, double us, double ratio, double library, double peak) {
  Row r;
  r.kernel = kernel;
  r.target = "cpu";
  r.size = "cpu";
  r.key = std::string(64, 'a');
  r.status = "PASSED";
  r.best = "packed";
  r.from = "seed";
  r.baseline = "plain";
  r.us = us;
  r.against["plain"] = {ratio, 0.9 * ratio, 1.1 * ratio, ratio > 1.02 ? "FASTER" : "AMBIGUOUS"};
  if (library > 0) {
    r.vendor = "blas";
    r.against["blas"] = {library, library, library, library < 0.98 ? "SLOWER" : "FASTER"};
  }
  r.percent_peak = peak;
  return r;
}

std::vector<Row> some_rows() {
  std::vector<Row> rows{row("matmul", 30000, 4, 0.9, 80), row("silu", 5000, 1.3, 0, 90),
                        row("mamba", 9000, 2.5, 0, 5), row("bmm", 8000, 1.01, 1.1, 60)};
  rows[2].latency_bound = true;
  rows[0].costs = {{"planner", "small", 3, 3000, 300, 0.25}, {"executor", "large", 5, 100, 50, 1}};
  rows[1].costs = {{"executor", "large", 1, 10, 5, 0.5}};
  Row wrong;
  wrong.kernel = "lora";
  wrong.status = "INCORRECT";
  wrong.best = "fused";
  wrong.message = "3 of 9 elements of Y are wrong";
  Row skipped;
  skipped.kernel = "adamw";
  skipped.skipped = "adamw does not run on cuda";
  rows.push_back(wrong);
  rows.push_back(skipped);
  return rows;
}

TEST(Kernels, TheTableIsWhatItIs) {
  EXPECT_EQ("\n" + kernels::table(some_rows()), R"(
kernel                     baseline       best  program                   x base             x lib             % of peak nominal
matmul                    120.00 ms   30.00 ms  packed                      4.00 FASTER       0.90 SLOWER        20 > 80       -
silu                        6500 µs    5000 µs  packed                      1.30 FASTER          -               69 > 90       -
mamba                      22.50 ms    9000 µs  packed                      2.50 FASTER          -                 2 > 5       -  bound by latency
bmm                         8080 µs    8000 µs  packed                      1.01 AMBIGUOUS    1.10 FASTER        59 > 60       -
lora                     fused                    INCORRECT: 3 of 9 elements of Y are wrong
adamw                    skipped: adamw does not run on cuda

6 kernels: 4 right, 1 skipped, 1 not right
Fast@1 80 %, Fast@1.2 60 %, Fast@1.5 40 %, Fast@2 40 % (of the kernels not skipped, over the baseline)
geomean 1.904x the baseline, 0.995x the library where there is one
geomean of the measured peak: 43 > 76 %, 1 bound by latency left out
cost: executor by large: 6 calls, 110 + 55 tokens, $1.50
cost: planner by small: 3 calls, 3000 + 300 tokens, $0.25
AccelOpt, on other hardware (Trainium 1, Trainium 2): 49 > 61 %, 45 > 59 % of peak; figures of unlike machines do not compare
)");
}

TEST(Kernels, RowsComeBackAsTheyWere) {
  for (const Row& r : some_rows()) {
    const std::string line = kernels::row_json(r);
    const auto again = kernels::parse_row(line, "kernels.jsonl");
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(kernels::row_json(*again), line);
  }
  EXPECT_FALSE(kernels::parse_row("{}", "kernels.jsonl"));
  EXPECT_FALSE(kernels::parse_row("nonsense", "kernels.jsonl"));
}

TEST(Kernels, NothingRightGivesNoMeans) {
  const auto rows = some_rows();
  const auto s = kernels::summarize({rows[4], rows[5]});
  EXPECT_EQ(s.right, 0);
  EXPECT_FALSE(s.geomean);
  EXPECT_EQ(s.fast.at("1"), 0);
  EXPECT_TRUE(kernels::summarize({rows[5]}).fast.empty());
}

TEST(Kernels, ThePictureHasABarAFigure) {
  const auto svg = kernels::picture(some_rows());
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  std::size_t bars = 0;
  for (std::size_t at = svg.find("<rect x"); at != std::string::npos;
       at = svg.find("<rect x", at + 1))
    ++bars;
  EXPECT_EQ(bars, 4 * 2 + 2U);  // baseline and best of four, the library's of two
  EXPECT_EQ(svg.find("adamw"), std::string::npos);
  EXPECT_NE(svg.find(">80</text>"), std::string::npos);
}

class KernelsCliTest : public ::testing::Test {
 protected:
  // Counts jobs; the program is three times as fast as every baseline, at 75 % of peak.
  int run(std::vector<std::string> more, const std::string& status = "PASSED") {
    std::vector<std::string> arguments{"bench",          "kernels", "--out",
                                       folder_ + "/out", "--runs",  folder_ + "/runs"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_captured(clock_, arguments, out_, err_, [&](const std::string&) {
      return std::make_unique<search::FakeEvaluator>(
          [&](const std::string& id, const std::string& line) {
            jobs_.push_back(nlohmann::json::parse(line));
            nlohmann::json v{{"version", 1}, {"job", id}, {"status", status}, {"stage", "bench"}};
            if (status != "PASSED") {
              v["message"] = "wrong";
              return dump_json(v);
            }
            v["latency_us"] = {{"median", 1000},
                               {"low", 990},
                               {"high", 1010},
                               {"kind", "measured"},
                               {"size", "small"}};
            for (const char* name : {"plain", "blas"}) {
              v["ratio"][name] = {{"median", 3}, {"low", 2.9}, {"high", 3.1}};
              v["comparison"][name] = "FASTER";
            }
            v["percent_peak"] = 75;
            return dump_json(v);
          });
    });
  }

  // A run of silu whose model found a program, at 2.5 times the baseline's speed.
  void make_run(const std::string& target) {
    const std::string folder = folder_ + "/runs/2026-11-30-silu-1";
    ASSERT_TRUE(real_files().mkdirs(folder));
    auto store = store::Store::open(folder + "/store.sqlite", clock_);
    ASSERT_TRUE(store) << store.error().text();
    ASSERT_TRUE((*store)->set_fact("task", "silu"));
    ASSERT_TRUE((*store)->set_fact("target", target));
    store::Program program;
    program.name = "found";
    program.origin = "model";
    program.defines = "STEP=8";
    program.source_sha256 = std::string(64, 'b');
    const auto id = (*store)->add_program(
        program,
        "// sculler:tune STEP in {4,8}\n#ifndef STEP\n#define STEP 4\n#endif\nint found;\n");
    ASSERT_TRUE(id) << id.error().text();
    ASSERT_TRUE((*store)->add_attempt({std::string(64, 'c'), *id, target, "cpu", "run", 1, false}));
    store::Evaluation e;
    e.job = std::string(64, 'c');
    e.program = *id;
    e.status = "PASSED";
    e.ratio = 2.5;
    e.verdict = "{}";
    ASSERT_TRUE((*store)->add_evaluation(e));
    auto calls = store::Calls::open(folder + "/store.sqlite", clock_);
    ASSERT_TRUE(calls);
    store::LlmCall call;
    call.role = "executor";
    call.model = "large";
    call.question = "000001-executor";
    call.prompt_tokens = 100;
    call.answer_tokens = 20;
    call.usd = 0.5;
    call.outcome = "ok";
    ASSERT_TRUE((*calls)->add(call));
  }

  FakeClock clock_;
  test::TempFolder temporary_{"sculler_kernels"};
  const std::string folder_ = temporary_.path();
  std::vector<nlohmann::json> jobs_;
  std::string out_, err_;
};

TEST_F(KernelsCliTest, EveryKernelOfTheTargetIsMeasuredOnce) {
  ASSERT_EQ(run({"--size", "small"}), 0) << err_ << out_;
  std::set<std::string> tasks;
  for (const auto& job : jobs_) {
    EXPECT_EQ(job["size"], "small");
    EXPECT_EQ(job["stages"], (std::vector<std::string>{"compile", "run", "bench"}));
    EXPECT_FALSE(job.contains("compare"));  // with all baselines
    tasks.insert(job["task"].get<std::string>());
  }
  EXPECT_EQ(tasks.size(), jobs_.size());
  EXPECT_GE(jobs_.size(), 14U);
  EXPECT_NE(out_.find(std::to_string(jobs_.size()) + " right"), std::string::npos) << out_;
  EXPECT_NE(out_.find("geomean 3.000x the baseline"), std::string::npos) << out_;
  for (const char* file : {"kernels.jsonl", "kernels.txt", "kernels.svg"})
    EXPECT_TRUE(real_files().exists(folder_ + "/out/" + file)) << file;
  // The second life measures nothing, and says the same.
  const auto before = jobs_.size();
  const std::string table = out_;
  ASSERT_EQ(run({"--size", "small"}), 0);
  EXPECT_EQ(jobs_.size(), before);
  EXPECT_EQ(out_, table);
  EXPECT_NE(err_.find("silu: measured before"), std::string::npos) << err_;
  ASSERT_EQ(run({"--size", "small", "--kernels", "silu", "--again"}), 0);
  EXPECT_EQ(jobs_.size(), before + 1);
}

TEST_F(KernelsCliTest, TheBestOfARunIsMeasuredWithItsTunablesAndItsCost) {
  make_run("cpu");
  ASSERT_EQ(run({"--kernels", "silu", "--json"}), 0) << err_ << out_;
  ASSERT_EQ(jobs_.size(), 1U);
  EXPECT_EQ(jobs_[0]["candidate"]["defines"]["STEP"], "8");
  EXPECT_NE(jobs_[0]["candidate"]["files"][0]["text"].get<std::string>().find("int found;"),
            std::string::npos);
  const auto row = kernels::parse_row(trim(out_), "out");
  ASSERT_TRUE(row) << row.error().text() << out_;
  EXPECT_EQ(row->from, "2026-11-30-silu-1");
  EXPECT_EQ(row->best, "found STEP=8");
  ASSERT_EQ(row->costs.size(), 1U);
  EXPECT_EQ(row->costs[0].role, "executor");
  EXPECT_EQ(row->costs[0].usd, 0.5);
}

TEST_F(KernelsCliTest, ARunOfAnotherTargetIsNotTaken) {
  make_run("external");
  ASSERT_EQ(run({"--kernels", "silu", "--json"}), 0) << err_ << out_;
  const auto row = kernels::parse_row(trim(out_), "out");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->from, "seed");
}

TEST_F(KernelsCliTest, WhatCannotBeMeasuredIsSkippedWithAReason) {
  // row_softmax is a task of the emulator and of GPUs, matmul has no size of that name.
  ASSERT_EQ(run({"--kernels", "silu,row_softmax"}), 0) << err_ << out_;
  EXPECT_NE(out_.find("row_softmax does not run on cpu"), std::string::npos) << out_;
  EXPECT_NE(run({"--kernels", "matmul", "--size", "cpu-small"}), 0);
  EXPECT_NE(out_.find("skipped: "), std::string::npos) << out_;
  EXPECT_NE(err_.find("every kernel was skipped"), std::string::npos) << err_;
  EXPECT_NE(run({"--kernels", "sliu"}), 0);
  EXPECT_NE(err_.find("did you mean silu?"), std::string::npos) << err_;
  EXPECT_NE(run({"--target", "emu"}), 0);
}

TEST_F(KernelsCliTest, AWrongProgramFailsTheCommandAndCountsAsNotFast) {
  EXPECT_NE(run({"--kernels", "silu"}, "INCORRECT"), 0);
  EXPECT_NE(out_.find("INCORRECT: wrong"), std::string::npos) << out_;
  EXPECT_NE(out_.find("Fast@1 0 %"), std::string::npos) << out_;
  // INTERNAL says nothing about the program: it is asked again.
  EXPECT_NE(run({"--kernels", "silu", "--again"}, "INTERNAL"), 0);
  const auto before = jobs_.size();
  EXPECT_EQ(run({"--kernels", "silu", "--seed", "2"}), 0) << out_ << err_;
  EXPECT_EQ(jobs_.size(), before + 1);
}

}  // namespace
}  // namespace sculler::cli
