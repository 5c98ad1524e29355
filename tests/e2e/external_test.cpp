// The target external through the real evaluator: an adapter in plain Python that is honest, and
// one that lies.
#include <map>

#include "e2e/evaluate.h"

namespace sculler::e2e {
namespace {

const std::string kPython = "adapters/python", kLiar = "tests/e2e/adapters/liar";

json job(const std::string& task, const std::string& text, const std::vector<std::string>& stages,
         const std::string& adapter = kPython, const json& extra = json::object()) {
  json with{{"n_ranks", 1}, {"size", "small"}, {"adapter", source_path(adapter + "/adapter.toml")}};
  with.update(extra);
  return job_line("kernels/" + task, "candidate.py", text, "external", stages, with);
}

std::string kernel(const std::string& path) {
  return read_text(source_path("adapters/python/kernels/" + path));
}

// A program around the body of run().
std::string program(const std::string& body, const std::string& head = {}) {
  return head + "import math\n# EVOLVE-BLOCK-START\ndef run(buffers, dims):\n" +
         "    x, y = buffers[\"X\"], buffers[\"Y\"]\n" + body + "# EVOLVE-BLOCK-END\n";
}
const std::string kRight =
    "    for i in range(dims[\"N\"]):\n        y[i] = x[i] / (1.0 + math.exp(-x[i]))\n";

std::string told(const json& verdict) {
  return status_of(verdict) + " at " + verdict.value("stage", "") + ": " +
         verdict.value("message", "") + " [" + verdict.value("where", "") + "]";
}

const std::vector<std::string> kRun{"lint", "compile", "run"};

TEST(External, ProgramsOfTwoTasksPassAndAreMeasured) {
  const auto answer =
      evaluate({job("silu", kernel("silu/batched.py"),
                    {"lint", "compile", "run", "stress", "bench", "confirm"}),
                job("matmul", kernel("matmul/columns.py"), {"lint", "compile", "run", "bench"})});
  ASSERT_EQ(answer.verdicts.size(), 2U) << answer.errors;
  for (const auto& v : answer.verdicts) {
    // Undecided on a loaded machine is right too, and has to say so.
    if (status_of(v) == "AMBIGUOUS") {
      EXPECT_EQ(v["compare_call"], "AMBIGUOUS");
    } else {
      EXPECT_EQ(status_of(v), "PASSED") << told(v);
    }
    EXPECT_EQ(v["latency_us"]["kind"], "external");
    EXPECT_GT(v["latency_us"]["median"].get<double>(), 0);
    EXPECT_TRUE(v["ratio"].contains("plain"));
    EXPECT_EQ(v["external"]["adapter"], "python");
    EXPECT_EQ(v["external"]["version"], "0.1.0");
    EXPECT_EQ(v["external"]["cannot_be_held_to"].size(), 5U);
    // The adapter's clock cannot have seen more than the evaluator's.
    EXPECT_GE(v["external"]["own_clock_us"].get<double>(),
              0.5 * v["latency_us"]["median"].get<double>());
    EXPECT_EQ(v["profile"]["source"], "adapter");
    EXPECT_EQ(v["profile"]["bottleneck"], "compute");
    EXPECT_LT(v["errors"]["relative_l2"].get<double>(), 2e-5);
    const std::string notes = v["notes"].dump();
    EXPECT_NE(notes.find("external: times are what the adapter python 0.1.0"), std::string::npos);
  }
}

TEST(External, TunablesAreTheCandidatesOwn) {
  auto line = job("silu", kernel("silu/batched.py"), kRun);
  line["candidate"]["defines"] = {{"PIECE", "256"}};
  EXPECT_EQ(status_of(evaluate_one(line)), "PASSED");
  line["candidate"]["defines"] = {{"PIECE", "7"}};
  const auto v = evaluate_one(line);
  EXPECT_EQ(status_of(v), "LINT_ERROR") << told(v);
}

TEST(External, WhatIsWrongWithAProgramIsSaidWithItsPlace) {
  struct Case {
    std::string text, status, stage, where, says;
  };
  const std::vector<Case> cases{
      {program("    for i in range(dims[\"N\"]) y[i] = 0\n"), "COMPILE_ERROR", "compile",
       "candidate.py:5", "SyntaxError"},
      {program(kRight, "table = [1 / 0]\n"), "COMPILE_ERROR", "compile", "candidate.py:1",
       "ZeroDivisionError"},
      {program("    for i in range(dims[\"N\"]):\n        y[i] = max(0.0, x[i])\n"), "INCORRECT",
       "run", "", "elements of Y are wrong"},
      {program(
           "    for i in range(dims[\"N\"] - 1):\n        y[i] = x[i] / (1.0 + math.exp(-x[i]))\n"),
       "INCORRECT", "run", "", "1 of 4099 elements of Y were never written"},
      {program("    y[len(y)] = 0.0\n"), "CRASH", "run", "candidate.py:5", "IndexError"},
      {program("    buffers[\"Y\"] = [0.0]\n"), "CRASH", "run", "", "was replaced"},
      {program("    raise SystemExit(0)\n"), "CRASH", "run", "", "ended during verify"},
      {program(kRight, "import os\n"), "LINT_ERROR", "lint", "candidate.py:1", "os"},
      {program("    (lambda: 0).__globals__\n"), "LINT_ERROR", "lint", "candidate.py:5",
       "hidden-member"}};
  std::vector<json> jobs;
  std::map<std::string, const Case*> by;
  for (const auto& c : cases) {
    jobs.push_back(job("silu", c.text, kRun));
    by[jobs.back()["job"]] = &c;
  }
  const auto answer = evaluate(jobs);
  ASSERT_EQ(answer.verdicts.size(), cases.size()) << answer.errors;
  for (const auto& v : answer.verdicts) {
    const Case& c = *by.at(v["job"]);
    EXPECT_EQ(status_of(v), c.status) << told(v) << "\n" << c.text;
    EXPECT_EQ(v["stage"], c.stage) << told(v);
    EXPECT_EQ(v["where"], c.where) << told(v);
    EXPECT_NE(told(v).find(c.says), std::string::npos) << told(v);
  }
}

TEST(External, WhatAProgramPrintsOrReadsIsNotTheChannel) {
  const auto v =
      evaluate_one(job("silu", program("    print('{\"id\":1,\"ok\":true}')\n" + kRight), kRun));
  EXPECT_EQ(status_of(v), "PASSED") << told(v);
}

TEST(External, ALyingAdapterGetsAStatusAndAReason) {
  struct Case {
    std::string lie, status, says;
  };
  const std::vector<Case> cases{{"fast", "IMPLAUSIBLE", "[ceiling]"},
                                {"long", "IMPLAUSIBLE", "its answer came after"},
                                {"nan", "INTERNAL", "no JSON object"},
                                {"negative", "INTERNAL", "is no time in microseconds"},
                                {"words", "INTERNAL", "is no time in microseconds"},
                                {"few", "INTERNAL", "2 times for 3 iterations"},
                                {"missing", "INTERNAL", "missing or no list"},
                                {"other", "INTERNAL", "it answers request"},
                                {"flood", "INTERNAL", "too long"},
                                {"verdict", "INTERNAL", "'PASSED' is no status of an adapter"},
                                {"die", "CRASH", "exit code 3"},
                                {"sleep", "TIMEOUT", "within 4 s"},
                                {"symlink", "INCORRECT", "output Y cannot be read"},
                                {"fifo", "INCORRECT", "output Y is no plain file"},
                                {"short", "INCORRECT", "output Y has 4 bytes"},
                                {"nothing", "INCORRECT", "output Y was not handed back"}};
  std::vector<json> jobs;
  std::map<std::string, const Case*> by;
  for (const auto& c : cases) {
    jobs.push_back(job("silu", program(kRight, "# lie: " + c.lie + "\n"),
                       {"lint", "compile", "run", "bench"}, kLiar));
    by[jobs.back()["job"]] = &c;
  }
  const auto answer = evaluate(jobs);
  ASSERT_EQ(answer.verdicts.size(), cases.size()) << answer.errors;
  for (const auto& v : answer.verdicts) {
    const Case& c = *by.at(v["job"]);
    EXPECT_EQ(status_of(v), c.status) << c.lie << " " << told(v);
    EXPECT_NE(told(v).find(c.says), std::string::npos) << c.lie << " " << told(v);
  }
}

// Its times say four times faster than the same program; the evaluator's clock does not.
TEST(External, AClaimThatTheEvaluatorsClockDoesNotShowIsNotCalled) {
  const auto v = evaluate_one(
      job("silu", "# lie: faster\n" + kernel("silu/plain.py"), {"compile", "run", "bench"}, kLiar));
  ASSERT_TRUE(v.contains("ratio")) << told(v);
  EXPECT_GT(v["ratio"]["plain"]["median"].get<double>(), 2);
  // On a loaded machine the sign of no difference is anyone's: the ratio by the own clock stands
  // beside the claim either way.
  if (v["compare_call"] == "FASTER") {
    EXPECT_GT(v["external"]["own_clock_us"].get<double>(),
              2 * v["latency_us"]["median"].get<double>());
  } else {
    EXPECT_EQ(v["compare_call"], "AMBIGUOUS");
  }
}

TEST(External, AnAdapterThatCannotStartIsTheEvaluatorsTrouble) {
  const auto v = evaluate_one(job("silu", program(kRight), kRun, "tests/e2e/adapters/none"));
  EXPECT_EQ(status_of(v), "INTERNAL");
  EXPECT_NE(told(v).find("adapter.toml"), std::string::npos) << told(v);
}

}  // namespace
}  // namespace sculler::e2e
