// The emu target through the real evaluator: baselines and seeds of gemm_allgather, unmodified.
#include "e2e/evaluate.h"

#include "eval/toolchain.h"

namespace sculler::e2e {
namespace {

const char* const kTask = "workloads/gemm_allgather";

class EvalEmu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (eval::find_toolchain().cuda_home.empty()) GTEST_SKIP() << "no nvcc here";
  }
  static json job(const std::string& path, const std::vector<std::string>& stages, const json& extra = json::object()) {
    const fs::path file = source_path("tasks/workloads/gemm_allgather/" + path);
    json with = extra;
    if (path.starts_with("baselines/")) with["baseline_of"] = file.stem().string();
    return job_line(kTask, "candidate.cu", read_text(file), "emu", stages, with);
  }
};

TEST_P(EvalEmu, PassesWithPrediction) {
  const auto v = evaluate_one(job(GetParam(), {"lint", "compile", "emulate"}));
  if (GetParam().find("cutlass") != std::string::npos) {
    EXPECT_EQ(status_of(v), "UNSUPPORTED") << v.dump(2);
    EXPECT_FALSE(v["message"].get<std::string>().empty());
    return;
  }
  EXPECT_EQ(status_of(v), "PASSED") << v.dump(2);
}

std::vector<std::string> sources() {
  std::vector<std::string> list;
  for (const char* part : {"baselines", "seeds"}) {
    for (const auto& entry : fs::directory_iterator(source_path("tasks/workloads/gemm_allgather/") + part)) {
      if (entry.path().extension() == ".cu") list.push_back(std::string(part) + "/" + entry.path().filename().string());
    }
  }
  std::sort(list.begin(), list.end());
  return list;
}

INSTANTIATE_TEST_SUITE_P(Sources, EvalEmu, testing::ValuesIn(sources()), [](const auto& i) {
  std::string name = fs::path(i.param).stem();
  return name;
});

}  // namespace
}  // namespace sculler::e2e
