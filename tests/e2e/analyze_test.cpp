// sculler analyze on the host-driven baselines, as a user runs it.
#include <gtest/gtest.h>

#include <algorithm>

#include "eval/toolchain.h"
#include "evaluate.h"

namespace sculler::e2e {
namespace {

struct Ran {
  int code = -1;
  std::string out, err;
};

class AnalyzeEnd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (eval::find_toolchain().cuda_home.empty()) GTEST_SKIP() << "no nvcc here";
  }
  static Ran run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--cache", std::string(SCULLER_BINARY_DIR) + "/e2e-cache"});
    const auto result = run_command(real_processes(), sculler_command(arguments), "", 240'000);
    if (!result) {
      ADD_FAILURE() << result.error().text();
      return {};
    }
    return {result->status.code, result->out, result->err};
  }
  static json analyzed(const std::string& task, const std::string& name, int ranks = 2) {
    const auto ran =
        run({"analyze", name, "--json", "--task", task, "--ranks", std::to_string(ranks)});
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    const auto out = json::parse(ran.out, nullptr, false);
    EXPECT_TRUE(out.is_object()) << ran.out;
    return out;
  }
  // Those of rank 0, in order.
  static std::vector<json> operations(const json& a, const std::string& kind) {
    std::vector<json> out;
    for (const auto& op : a["operations"])
      if (op["rank"] == 0 && op["kind"] == kind) out.push_back(op);
    return out;
  }
  static json transfer(const json& a, const json& op) {
    for (const auto& t : a["transfers"])
      if (t["op"] == op["id"]) return t;
    ADD_FAILURE() << "no transfer " << op.dump();
    return json::object();
  }
  static void expect_sound(const json& a) {
    ASSERT_TRUE(a.contains("headroom")) << a.value("untimed", "");
    EXPECT_EQ(a["truncated"], false);
    EXPECT_LE(a["headroom"]["bound_us"], a["headroom"]["now_us"]);
    EXPECT_LE(a["headroom"]["pieces_us"], a["headroom"]["now_us"]);
    EXPECT_FALSE(a["headroom"]["critical_path"].empty());
  }
  // "nccl.cu:LINE" of the first line that holds `text`.
  static std::string place(const std::string& path, const std::string& text) {
    std::istringstream lines(read_text(source_path(path)));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.find(text) != std::string::npos)
        return fs::path(path).filename().string() + ":" + std::to_string(number);
    }
    return "nowhere";
  }
};

TEST_F(AnalyzeEnd, TheGemmsOutputIsWhatTheAllGatherSends) {
  const json a = analyzed("gemm_allgather", "nccl");
  expect_sound(a);
  const auto gemms = operations(a, "gemm"), gathers = operations(a, "collective");
  ASSERT_EQ(gemms.size(), 1u);
  ASSERT_EQ(gathers.size(), 1u);
  const json t = transfer(a, gathers[0]);
  ASSERT_EQ(t["producers"].size(), 1u) << t.dump(1);
  EXPECT_EQ(t["producers"][0]["op"], gemms[0]["id"]);
  EXPECT_TRUE(t["readers"].empty());  // an output
  EXPECT_EQ(gathers[0]["at"],
            place("tasks/workloads/gemm_allgather/baselines/nccl.cu", "ncclAllGather("));
}

TEST_F(AnalyzeEnd, TheRingSendsWhatItAttendsToAndTheNextStepReadsIt) {
  const std::string path = "tasks/workloads/ring_attention/baselines/nccl.cu";
  for (const int ranks : {2, 3}) {
    const json a = analyzed("ring_attention", "nccl", ranks);
    expect_sound(a);
    const auto kernels = operations(a, "kernel"), groups = operations(a, "collective");
    ASSERT_EQ(kernels.size(), static_cast<size_t>(ranks));
    ASSERT_EQ(groups.size(), static_cast<size_t>(ranks) - 1);
    EXPECT_EQ(kernels[0]["at"], place(path, "attend<<<"));
    const json t = transfer(a, groups[0]);
    ASSERT_FALSE(t["readers"].empty()) << t.dump(1);
    EXPECT_EQ(t["readers"][0]["op"], kernels[1]["id"]);
    EXPECT_EQ(t["readers"][0]["at"], place(path, "score = fmaf("));
    // The kernel before it reads the same keys and values: nothing orders them but the stream.
    const auto beside = std::find_if(t["overlaps"].begin(), t["overlaps"].end(),
                                     [&](const json& o) { return o["op"] == kernels[0]["id"]; });
    ASSERT_NE(beside, t["overlaps"].end()) << t.dump(1);
    EXPECT_EQ((*beside)["how"], "beside");
    ASSERT_EQ(groups[0]["calls"].size(), 2u);
    EXPECT_EQ(groups[0]["calls"][0]["name"], "ncclSend");
    EXPECT_EQ(groups[0]["calls"][0]["at"], place(path, "ncclSend("));
    EXPECT_EQ(groups[0]["calls"][0]["peer"], 1);
    EXPECT_EQ(groups[0]["calls"][1]["peer"], ranks - 1);
  }
}

TEST_F(AnalyzeEnd, TheOtherBaselinesHaveTransfersBothWays) {
  for (const std::string task : {"all_to_all", "all_reduce", "ring_exchange"}) {
    const json a = analyzed(task, "nccl");
    expect_sound(a);
    const auto collectives = operations(a, "collective");
    ASSERT_FALSE(collectives.empty()) << task;
    const json t = transfer(a, collectives[0]);
    EXPECT_GT(t["sent"], 0) << task;
    EXPECT_GT(t["received"], 0) << task;
    EXPECT_TRUE(std::any_of(a["edges"].begin(), a["edges"].end(), [](const json& e) {
      return e["kind"] == "carry";
    })) << task;
  }
}

TEST_F(AnalyzeEnd, CopiesToPeersAndDeviceInitiatedKernelsAreTransfers) {
  const json engine = analyzed("gemm_allgather", "copy_engine");
  expect_sound(engine);
  const auto copies = operations(engine, "copy");
  ASSERT_FALSE(copies.empty());
  EXPECT_FALSE(transfer(engine, copies[0])["producers"].empty());
  const json pushed = analyzed("all_to_all", "lsa_push");
  const auto kernels = operations(pushed, "kernel");
  ASSERT_FALSE(kernels.empty());
  EXPECT_TRUE(std::any_of(pushed["transfers"].begin(), pushed["transfers"].end(),
                          [&](const json& t) { return t["op"] == kernels[0]["id"]; }));
}

TEST_F(AnalyzeEnd, TextAndDrawingForPeople) {
  const auto svg = fs::temp_directory_path() / ("sculler_analyze_" + std::to_string(::getpid()));
  const auto ran = run({"analyze", source_path("tasks/workloads/all_reduce/baselines/nccl.cu"),
                        "--svg", svg.string()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"operations of rank 0", "transfers of rank 0",
                           "ncclAllReduce (nccl.cu:", "headroom\n  now ", "critical path"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  EXPECT_TRUE(read_text(svg).starts_with("<svg "));
  fs::remove(svg);
}

TEST_F(AnalyzeEnd, WrongProgramsAreRefusedWithTheReason) {
  const auto folder = fs::temp_directory_path() / ("sculler_bad_" + std::to_string(::getpid()));
  fs::create_directories(folder / "not" / "in" / "a");
  const auto file = (folder / "not" / "in" / "a" / "bad.cu").string();
  const auto refused = [&](const std::string& text, const std::vector<std::string>& more = {}) {
    std::ofstream(file) << text;
    std::vector<std::string> arguments{"analyze", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const std::string good = read_text(source_path("tasks/workloads/all_reduce/baselines/nccl.cu"));
  auto ran = refused(good);  // lies in no task's folder
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_NE(ran.err.find("--task"), std::string::npos) << ran.err;
  ran = refused("int main() { return banana; }\n", {"--task", "all_reduce"});
  EXPECT_EQ(ran.code, 17) << ran.err;
  EXPECT_NE(ran.err.find("COMPILE_ERROR"), std::string::npos) << ran.err;
  std::string wrong = good;
  const auto at = wrong.find("ncclSum");
  ASSERT_NE(at, std::string::npos);
  wrong.replace(at, 7, "ncclMax");
  ran = refused(wrong, {"--task", "all_reduce"});
  EXPECT_EQ(ran.code, 17) << ran.err;
  EXPECT_NE(ran.err.find("INCORRECT"), std::string::npos) << ran.err;
  ran = refused(good, {"--task", "all_reduce", "--rank", "9"});
  EXPECT_EQ(ran.code, 2) << ran.err;
  fs::remove_all(folder);
  ran = run({"analyze", file});
  EXPECT_EQ(ran.code, 16) << ran.err;
}

}  // namespace
}  // namespace sculler::e2e
