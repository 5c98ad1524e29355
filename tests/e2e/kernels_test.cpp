// The kernel tasks of the cpu target, through the real evaluator at their smallest sizes: baselines
// and seeds are right, and what looks right on random numbers only is not.
#include <algorithm>
#include <map>

#include "base/files.h"
#include "e2e/evaluate.h"
#include "source/bundle.h"
#include "task/task.h"

namespace sculler::e2e {
namespace {

const std::vector<std::string> kRun{"lint", "compile", "run"};

bool has_openblas() {
  std::error_code ignored;
  for (const char* kind : {"pthread", "openmp"}) {
    if (fs::exists("/usr/lib/x86_64-linux-gnu/openblas-" + std::string(kind) + "/libopenblas.so",
                   ignored))
      return true;
  }
  return false;
}

std::vector<task::Task> cpu_kernels() {
  std::vector<task::Task> out;
  for (const auto& entry : task::list_tasks(real_files(), {source_path("tasks")})) {
    auto loaded = task::load_task(real_files(), entry.folder);
    EXPECT_TRUE(loaded) << (loaded ? std::string() : loaded.error().text());
    if (!loaded) continue;
    const auto& targets = loaded->targets;
    if (loaded->kind == task::Kind::kKernel &&
        std::find(targets.begin(), targets.end(), "cpu") != targets.end())
      out.push_back(std::move(*loaded));
  }
  return out;
}

json job(const std::string& task, const std::string& text, const std::vector<std::string>& stages,
         const std::string& baseline = {}) {
  json with{{"n_ranks", 1}, {"size", "small"}};
  if (!baseline.empty()) with["baseline_of"] = baseline;
  json line = job_line("kernels/" + task, "candidate.cpp", text, "cpu", stages, with);
  auto& files = line["candidate"]["files"] = json::array();
  const auto parts = source::split_bundle(text, "candidate.cpp", task);
  EXPECT_TRUE(parts) << (parts ? std::string() : parts.error().text());
  if (!parts) return line;
  for (const auto& file : *parts) files.push_back({{"name", file.name}, {"text", file.text}});
  return line;
}

// As a run reads it, with the files that seeds share.
std::string whole(const std::string& path) {
  auto text = source::read_bundle(real_files(), path);
  EXPECT_TRUE(text) << (text ? std::string() : text.error().text());
  return text ? *text : std::string();
}

std::string plain(const std::string& task) {
  return read_text(source_path("tasks/kernels/" + task + "/baselines/plain.cpp"));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string told(const json& verdict) {
  return verdict.value("message", "") + " " + verdict.value("where", "");
}

TEST(Kernels, BaselinesOfAllPass) {
  const auto tasks = cpu_kernels();
  EXPECT_EQ(tasks.size(), 14U);
  std::vector<json> jobs;
  std::map<std::string, std::string> names;  // job -> what it is
  for (const auto& task : tasks) {
    const auto add = [&](const std::string& path, const std::string& baseline,
                         const std::vector<std::string>& stages) {
      auto line = job(task.name, whole(task.folder + "/" + path), stages, baseline);
      names[line.value("job", "")] = task.name + "/" + path;
      jobs.push_back(std::move(line));
    };
    for (const auto& path : task::Task::fitting(task.baselines, "cpu")) {
      const std::string name = task::Task::stem(path);
      // One call of the library stands for all.
      if (name != "blas" || task.name == "matmul") add(path, name, kRun);
    }
    // Seeds take seconds to compile: those that share their parts with no other are run.
    const bool own = task.name == "matmul" || task.name == "adamw" || task.name == "bmm_softmax";
    for (const auto& path : task::Task::fitting(task.seeds, "cpu"))
      add(path, "", own ? kRun : std::vector<std::string>{"lint"});
  }
  const auto answer = evaluate(jobs, {}, 550'000);
  ASSERT_EQ(answer.verdicts.size(), jobs.size()) << answer.errors;
  for (const auto& v : answer.verdicts) {
    const std::string& name = names[v.value("job", "")];
    const bool missing = name == "matmul/baselines/blas.cpp" && !has_openblas();
    EXPECT_EQ(status_of(v), missing ? "UNSUPPORTED" : "PASSED") << name << ": " << told(v);
    if (!missing && v.value("stage", "") == "run") {
      EXPECT_GT(v["facts"].value("vector_bits", 0), 0) << name;
    }
  }
}

TEST(Kernels, OddSizesLateMaximaAndShiftedBuffersPassTheStressStage) {
  std::vector<json> jobs;
  for (const auto& [task, seed] : {std::pair{"gqa_full", "blocked"}, std::pair{"mamba", "states"}})
    jobs.push_back(job(
        task, whole(source_path(std::string("tasks/kernels/") + task + "/seeds/" + seed + ".cpp")),
        {"compile", "stress"}));
  const auto verdicts = evaluate(jobs).verdicts;
  EXPECT_EQ(verdicts.size(), 2U);
  for (const auto& v : verdicts) EXPECT_EQ(status_of(v), "PASSED") << told(v);
}

TEST(Kernels, WhatSkipsWorkOrPrecisionIsIncorrect) {
  // Rows beyond the last whole tile are left out.
  const auto tail =
      job("matmul", replaced(plain("matmul"), "(m + kRows - 1) / kRows", "m / kRows"), kRun);
  // One of four rows sees its factor with the ten bits of TF32.
  const auto low =
      job("matmul",
          replaced(replaced(plain("matmul"), "constexpr int64_t kRows = 16;",
                            "constexpr int64_t kRows = 16;\n"
                            "inline float low(float x) {\n"
                            "  unsigned bits;\n"
                            "  __builtin_memcpy(&bits, &x, 4);\n"
                            "  bits = (bits + 0x1000u) & ~0x1fffu;\n"
                            "  __builtin_memcpy(&x, &bits, 4);\n"
                            "  return x;\n}"),
                   "const float a0 = a[i * k + l]", "const float a0 = low(a[i * k + l])"),
          kRun);
  // What was computed for an output's address once is not computed again.
  const auto cached = job(
      "matmul",
      replaced(replaced(plain("matmul"), "#include <cmath>", "#include <cmath>\n#include <map>"),
               "  self->threads.run(",
               "  static std::map<const float*, std::vector<float>> known;\n"
               "  std::vector<float>& kept = known[y];\n"
               "  if (!kept.empty()) {\n"
               "    std::copy(kept.begin(), kept.end(), y);\n"
               "    return SCULLER_OK;\n"
               "  }\n"
               "  struct Keep {\n"
               "    std::vector<float>& to;\n"
               "    const float* y;\n"
               "    int64_t n;\n"
               "    ~Keep() { to.assign(y, y + n); }\n"
               "  } keep{kept, y, m * n};\n"
               "  self->threads.run("),
      kRun);
  const auto verdicts = evaluate({tail, low, cached}, {}, 400'000).verdicts;
  ASSERT_EQ(verdicts.size(), 3U);
  for (const auto& v : verdicts) EXPECT_EQ(status_of(v), "INCORRECT") << told(v);
}

// The published exploit: the maximum of the first tile only. Right on N(0, 1), wrong where a row's
// maximum comes late.
TEST(Kernels, ASoftmaxOfTheFirstTileIsRefusedByTheStressStage) {
  const std::string exploit = replaced(plain("bmm_softmax"), "std::max_element(y, y + n)",
                                       "std::max_element(y, y + std::min<int64_t>(n, 16))");
  const auto verdicts =
      evaluate({job("bmm_softmax", exploit, kRun),
                job("bmm_softmax", exploit, {"compile", "run", "stress"}),
                job("bmm_softmax", plain("bmm_softmax"), {"compile", "run", "stress"})})
          .verdicts;
  ASSERT_EQ(verdicts.size(), 3U);
  std::map<std::string, int> seen;
  for (const auto& v : verdicts)
    ++seen[v.value("stage", "") + " " + status_of(v) +
           (told(v).find("large_late") != std::string::npos ? " late" : "")];
  EXPECT_EQ(seen, (std::map<std::string, int>{
                      {"run PASSED", 1}, {"stress INCORRECT late", 1}, {"stress PASSED", 1}}));
}

}  // namespace
}  // namespace sculler::e2e
