// The emu target through the real evaluator: baselines and seeds of gemm_allgather, unmodified.
#include <algorithm>
#include <cstdlib>

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
  static json job(const std::string& path, const std::vector<std::string>& stages,
                  const json& extra = json::object()) {
    const fs::path file = source_path("tasks/workloads/gemm_allgather/" + path);
    json with = extra;
    if (path.starts_with("baselines/")) with["baseline_of"] = file.stem().string();
    return job_line(kTask, "candidate.cu", read_text(file), "emu", stages, with);
  }
};

TEST_P(EvalEmu, Passes) {
  // The slow ones, scalar and unaligned by design, at a size of their own.
  const bool odd = GetParam().find("odd_rows") != std::string::npos;
  const bool cutlass = GetParam().find("cutlass") != std::string::npos;
  const bool headers = !eval::find_toolchain().cutlass_include.empty();
  if (cutlass && headers && std::getenv("SCULLER_TEST_CUTLASS") == nullptr)
    GTEST_SKIP() << "takes minutes to compile: set SCULLER_TEST_CUTLASS";
  const std::string profile = source_path("profiles/h200x2.toml");
  const auto v = evaluate_one(
      job(GetParam(), {"lint", "compile", "emulate", "bench"},
          odd ? json{{"size", "odd"}} : json{{"profile", profile}, {"predict_size", "default"}}),
      cutlass ? 900'000 : 240'000);
  if (cutlass && !headers) {
    EXPECT_EQ(status_of(v), "UNSUPPORTED") << v.dump(2);
    EXPECT_FALSE(v["message"].get<std::string>().empty());
    return;
  }
  ASSERT_EQ(status_of(v), "PASSED") << v.dump(2);
  EXPECT_FALSE(v["sync_hash"].get<std::string>().empty());
  if (odd) return;
  EXPECT_EQ(v["latency_us"]["kind"], "predicted");
  EXPECT_EQ(v["latency_us"]["size"], "default");
  EXPECT_GT(v["percent_sol"].get<double>(), 0);
  EXPECT_LT(v["percent_sol"].get<double>(), 100);
}

std::vector<std::string> sources() {
  std::vector<std::string> list;
  for (const char* part : {"baselines", "seeds"}) {
    for (const auto& entry :
         fs::directory_iterator(source_path("tasks/workloads/gemm_allgather/") + part)) {
      if (entry.path().extension() == ".cu")
        list.push_back(std::string(part) + "/" + entry.path().filename().string());
    }
  }
  std::sort(list.begin(), list.end());
  return list;
}

using EvalEmuMore = EvalEmu;

TEST_F(EvalEmuMore, SeedPassesStressOfOtherSchedulesFamiliesAndSizes) {
  const auto v =
      evaluate_one(job("seeds/tile_store.cu", {"lint", "compile", "emulate", "stress", "confirm"}));
  EXPECT_EQ(status_of(v), "PASSED") << v.dump(2);
  EXPECT_EQ(v["stage"], "confirm");
}

TEST_F(EvalEmuMore, TheSameSeedGivesTheSameRunAndAnotherSeedAnother) {
  const auto first = evaluate_one(job("seeds/tile_store.cu", {"emulate"}));
  const auto again = evaluate_one(job("seeds/tile_store.cu", {"emulate"}));
  const auto other = evaluate_one(job("seeds/tile_store.cu", {"emulate"}, {{"seed", 99}}));
  EXPECT_EQ(first["sync_hash"], again["sync_hash"]);
  EXPECT_EQ(first["schedule"], again["schedule"]);
  EXPECT_NE(first["schedule"], other["schedule"]);
}

TEST_F(EvalEmuMore, AJobOfFourRanks) {
  const auto v = evaluate_one(job("seeds/tile_store.cu", {"compile", "emulate"}, {{"n_ranks", 4}}));
  EXPECT_EQ(status_of(v), "PASSED") << v.dump(2);
}

TEST_F(EvalEmuMore, AMissingBarrierIsARace) {
  auto with = job("seeds/tile_store.cu", {"compile", "emulate", "stress"});
  std::string text = with["candidate"]["files"][0]["text"];
  // Every wait of the candidate on its peers is gone.
  std::string broken;
  std::istringstream lines(text);
  int removed = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("sync(ncclCoop") != std::string::npos ||
        line.find(".sync(") != std::string::npos) {
      ++removed;
      broken += "\n";
      continue;
    }
    broken += line + "\n";
  }
  if (removed == 0) GTEST_SKIP() << "tile_store.cu has no barrier call in a line of its own";
  with["candidate"]["files"][0]["text"] = broken;
  const auto v = evaluate_one(with);
  EXPECT_TRUE(status_of(v) == "RACE" || status_of(v) == "UNINITIALISED") << v.dump(2);
  EXPECT_FALSE(v["where"].get<std::string>().empty()) << v.dump(2);
}

TEST_F(EvalEmuMore, AWrongElementNamesTheStoreThatLeftIt) {
  auto with = job("seeds/odd_rows.cu", {"compile", "emulate"}, {{"size", "odd"}});
  std::string text = with["candidate"]["files"][0]["text"];
  const std::string store = "column] = value;";
  const auto at = text.find(store);
  ASSERT_NE(at, std::string::npos);
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n');
  text.replace(at, store.size(),
               "column] = row == 3 && column > 5 ? __float2bfloat16(1e4f) : value;");
  with["candidate"]["files"][0]["text"] = text;
  const auto v = evaluate_one(with);
  EXPECT_EQ(status_of(v), "INCORRECT") << v.dump(2);
  EXPECT_EQ(v["where"], "candidate.cu:" + std::to_string(line));
  EXPECT_EQ(v["rank"], 0);
  const std::string message = v["message"];
  EXPECT_NE(message.find("(row 3, column 6) of C on rank 0 was last written by rank 0"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("9984 instead of"), std::string::npos) << message;
}

// "candidate.cu:LINE" of the first line that holds `text`.
std::string place_of(const std::string& source, const std::string& text) {
  std::istringstream lines(source);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find(text) != std::string::npos) return "candidate.cu:" + std::to_string(number);
  }
  return "nowhere";
}

TEST_F(EvalEmuMore, CallsOfTheHostAreNamedWithTheirLines) {
  if (eval::find_toolchain().addr2line.empty()) GTEST_SKIP() << "no addr2line here";
  const auto plain = job("seeds/copy_engine_pipeline.cu", {"compile", "emulate", "stress"});
  const auto planted = [&](const std::string& from, const std::string& to, std::string* text) {
    auto with = plain;
    *text = with["candidate"]["files"][0]["text"];
    const auto at = text->find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text->replace(at, from.size(), to);
    with["candidate"]["files"][0]["text"] = *text;
    return evaluate_one(with);
  };
  std::string text;
  auto v = planted("GA_TRY(cudaStreamWaitEvent(st->side[d], st->computed[i], 0));", "", &text);
  EXPECT_EQ(status_of(v), "RACE") << v.dump(2);
  const std::string copy = place_of(text, "GA_TRY(cudaMemcpyAsync(");
  EXPECT_EQ(v["where"], copy) << v.dump(2);
  // Both sides are calls of the host.
  EXPECT_NE(v["message"].get<std::string>().find("cudaMemcpyAsync (" + copy + ")"),
            std::string::npos)
      << v.dump(2);
  EXPECT_NE(v["message"].get<std::string>().find("cublasGemmEx (" +
                                                 place_of(text, "GA_TRY(cublasGemmEx(") + ")"),
            std::string::npos)
      << v.dump(2);
  ASSERT_FALSE(v["findings"].empty());
  EXPECT_EQ(v["findings"][0]["file"], "candidate.cu");

  v = planted("+ 1 + d)", "+ d)", &text);
  EXPECT_EQ(status_of(v), "INCORRECT") << v.dump(2);
  EXPECT_EQ(v["where"], place_of(text, "GA_TRY(cudaMemcpyAsync(")) << v.dump(2);

  v = planted("buffers.c[peer]) + offset", "buffers.c[peer]) + shape.s * shape.n", &text);
  // Refused when it is called, as on hardware.
  EXPECT_EQ(status_of(v), "LAUNCH_ERROR") << v.dump(2);
  EXPECT_EQ(v["where"], place_of(text, "GA_TRY(cudaMemcpyAsync(")) << v.dump(2);
  EXPECT_NE(v["message"].get<std::string>().find("writes outside of an allocation"),
            std::string::npos)
      << v.dump(2);

  v = planted("GA_TRY(ncclSend", "if (shape.rank != 0) GA_TRY(ncclSend", &text);
  EXPECT_EQ(status_of(v), "DEADLOCK") << v.dump(2);
  EXPECT_EQ(v["where"], place_of(text, "GA_TRY(ncclRecv")) << v.dump(2);
}

TEST_F(EvalEmuMore, ARefusedLaunchIsNamedWithItsLine) {
  if (eval::find_toolchain().addr2line.empty()) GTEST_SKIP() << "no addr2line here";
  auto with = job("seeds/copy_engine_pipeline.cu", {"compile", "emulate"});
  std::string text = with["candidate"]["files"][0]["text"];
  const std::string setup = "extern \"C\" int sculler_setup";
  text.insert(text.find(setup), "static __global__ void wide() {}\n");
  const std::string run = "const float one = 1.0f, zero = 0.0f;";
  ASSERT_NE(text.find(run), std::string::npos);
  text.insert(text.find(run),
              "wide<<<1, 2048, 0, main_stream>>>();\n  GA_TRY(cudaGetLastError());\n  ");
  with["candidate"]["files"][0]["text"] = text;
  const auto v = evaluate_one(with);
  EXPECT_EQ(status_of(v), "LAUNCH_ERROR") << v.dump(2);
  EXPECT_EQ(v["where"], place_of(text, "wide<<<")) << v.dump(2);
}

INSTANTIATE_TEST_SUITE_P(Sources, EvalEmu, testing::ValuesIn(sources()), [](const auto& i) {
  std::string name = fs::path(i.param).stem();
  return name;
});

}  // namespace
}  // namespace sculler::e2e
