// The commands with a stubbed evaluator and machine: what a person sees, and the exit codes of
// docs/exit-codes.md.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/app.h"
#include "cli/machine.h"
#include "search/job.h"
#include "support/temp_folder.h"

namespace sculler::cli {
namespace {

nlohmann::json machine_json(int gpus) {
  nlohmann::json list = nlohmann::json::array();
  for (int i = 0; i < gpus; ++i)
    list.push_back({{"name", "NVIDIA H200"},
                    {"compute_capability", "9.0"},
                    {"sms", 132},
                    {"bytes", 150754820096}});
  return {{"containment", {{"level", "full"}, {"why", ""}}},
          {"cuda", {{"home", "/cuda"}, {"nvcc", "13.0.88"}}},
          {"nccl", {{"include", "/cuda/include"}, {"version", 22809}}},
          {"cutlass", nlohmann::json::array()},
          {"gxx", "/usr/bin/g++"},
          {"gpus", list},
          {"gpu_problem", ""},
          {"cuda_libraries", nlohmann::json::array()},
          {"emulator_libraries", {"/lib/emu/libcuda.so.1"}},
          {"programs", {{"sculler-rank", true}, {"sculler-vm", true}, {"sculler-verify", true}}},
          {"share", "/share"},
          {"cache", "/"},
          {"cores", 2}};
}

std::string judge(const std::string& id, const std::string& line) {
  const auto job = *parse_json(line, "job");
  const std::string text = dump_json(job["candidate"]);
  nlohmann::json v{{"version", 1},
                   {"job", id},
                   {"status", "PASSED"},
                   {"stage", "emulate"},
                   {"containment", "full"}};
  if (text.find("cutlass_gemm.h") != std::string::npos) {
    v["status"] = "UNSUPPORTED";
    v["message"] = "no wgmma";
    return dump_json(v);
  }
  // Some time that depends on the whole text and values.
  const double us = 500 + static_cast<double>(std::stoul(id.substr(0, 4), nullptr, 16) % 1000);
  v["latency_us"] = {
      {"median", us}, {"low", us}, {"high", us}, {"kind", "predicted"}, {"size", "default"}};
  v["percent_sol"] = 30000 / us;
  return dump_json(v);
}

struct Outcome {
  int code = -1;
  std::string out, err;
};

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ask_ = [] { return Result<std::string>(dump_json(machine_json(0))); };
  }

  Outcome run(const std::vector<std::string>& arguments) {
    Outcome result;
    char *out = nullptr, *err = nullptr;
    std::size_t out_bytes = 0, err_bytes = 0;
    App app{real_files(), clock_, real_processes(), "/nowhere", SCULLER_SOURCE_DIR, ""};
    app.out = open_memstream(&out, &out_bytes);
    app.err = open_memstream(&err, &err_bytes);
    app.ask_doctor = ask_;
    app.make_evaluator = [this](const std::string&) {
      ++evaluators_;
      return std::make_unique<search::FakeEvaluator>(judge);
    };
    result.code = run_app(app, arguments);
    std::fclose(app.out);
    std::fclose(app.err);
    result.out.assign(out, out_bytes);
    result.err.assign(err, err_bytes);
    std::free(out);
    std::free(err);
    return result;
  }
  void set_machine(const std::function<void(nlohmann::json&)>& change, int gpus = 0) {
    auto machine = machine_json(gpus);
    change(machine);
    ask_ = [text = dump_json(machine)] { return Result<std::string>(text); };
  }
  std::string file(const std::string& name, const std::string& text) {
    EXPECT_TRUE(real_files().write_atomic(folder_ + "/" + name, text));
    return folder_ + "/" + name;
  }

  FakeClock clock_;
  test::TempFolder temporary_{"sculler_cli"};
  const std::string folder_ = temporary_.path();
  std::function<Result<std::string>()> ask_;
  int evaluators_ = 0;
};

TEST_F(CliTest, OptimizeShowsTheTableAndWritesBest) {
  const auto r =
      run({"optimize", "gemm_allgather", "--candidates", "9", "--runs", folder_ + "/runs"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("target emu: no GPU here; times are predicted for h200x2 at size default, "
                       "not measured          run "),
            std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("task gemm_allgather, 2 ranks, bf16; verified at size emu (S 512 K 256 N "
                       "512), tolerance 0.0041\n"),
            std::string::npos);
  EXPECT_NE(r.out.find("   –  nccl                            none "), std::string::npos);
  EXPECT_NE(r.out.find("UNSUPPORTED    no wgmma"), std::string::npos);
  EXPECT_NE(r.out.find("9 of 9 evaluated"), std::string::npos);
  EXPECT_NE(r.out.find("confirmed on fresh seeds"), std::string::npos);
  const auto runs = real_files().list(folder_ + "/runs");
  ASSERT_TRUE(runs);
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_EQ(runs->at(0), "2026-11-18-gemm_allgather-1");
  const std::string run_folder = folder_ + "/runs/" + runs->at(0);
  EXPECT_TRUE(real_files().exists(run_folder + "/best/candidate.cu"));
  EXPECT_NE(real_files().read(run_folder + "/run.toml")->find("candidates = 9"), std::string::npos);

  const auto again = run({"resume", run_folder});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("verdicts were there already"), std::string::npos) << again.out;
  const auto more = run({"resume", run_folder, "--set", "budget.candidates=12", "--json"});
  const auto json = parse_json(more.out, "out");
  ASSERT_TRUE(json) << more.out;
  EXPECT_EQ(int_or(*json, "evaluated", 0), 12);
  EXPECT_TRUE(bool_or(json->at("best"), "confirmed", false));

  const auto exported = run({"export", run_folder});
  EXPECT_EQ(exported.code, 0);
  EXPECT_GT(std::count(exported.out.begin(), exported.out.end(), '\n'), 25);
  const auto first = parse_json(exported.out.substr(0, exported.out.find('\n')), "line");
  ASSERT_TRUE(first);
  EXPECT_EQ(string_or(*first, "kind", ""), "program");
}

TEST_F(CliTest, UnknownNames) {
  auto r = run({"optimize", "gem_allgather"});
  EXPECT_EQ(r.code, 4);
  EXPECT_EQ(r.err, "sculler: unknown task gem_allgather (did you mean gemm_allgather?)\n");
  r = run({"optimise", "x"});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.err, "sculler: unknown command optimise (did you mean optimize?)\n");
  r = run({"optimize", "gemm_allgather", "--set", "budget.candidats=3"});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.err,
            "sculler: --set: budget.candidats: is not a known setting (did you mean "
            "budget.candidates?)\n");
  r = run({"optimize", "gemm_allgather", "--target", "gpu", "--json"});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(string_or(*parse_json(r.out, "out"), "key", ""), "target");
}

TEST_F(CliTest, BrokenToml) {
  const auto path =
      file("run.toml", "version = 1\ntask = \"gemm_allgather\"\n[budget]\ncandidates = [\n");
  auto r = run({"optimize", "--run-file", path});
  EXPECT_EQ(r.code, 3);
  EXPECT_TRUE(r.err.starts_with("sculler: " + path + ":")) << r.err;
}

TEST_F(CliTest, DirectiveThatTheTopologyForbids) {
  set_machine([](auto&) {}, 2);
  auto r = run({"evaluate", "gemm_allgather", "tile_store", "--target", "cuda", "--directive",
                R"({"backend":"gin"})"});
  EXPECT_EQ(r.code, 5);
  EXPECT_EQ(r.err,
            "sculler: --directive: backend: gin needs a GIN plugin or an RDMA NIC, there is none "
            "(use lsa)\n");
  // The emulator has GIN; nodes are another matter.
  r = run({"evaluate", "gemm_allgather", "tile_store", "--target", "emu", "--directive",
           R"({"backend":"gin"})"});
  EXPECT_EQ(r.code, 0) << r.err;
  r = run({"evaluate", "gemm_allgather", "tile_store", "--target", "emu", "--directive",
           R"({"backend":"hybrid"})"});
  EXPECT_EQ(r.code, 5);
  EXPECT_EQ(r.err,
            "sculler: --directive: backend: hybrid spans nodes, all ranks are on one (use lsa)\n");
}

TEST_F(CliTest, SourceWithoutEvolveBlocks) {
  const auto path = file("plain.cu", "int main() {}\n");
  auto r = run({"evaluate", "gemm_allgather", path});
  EXPECT_EQ(r.code, 6);
  EXPECT_EQ(r.err, "sculler: " + path +
                       ": has no evolve blocks, so nothing in it may change (mark what may change "
                       "with // EVOLVE-BLOCK-START and // EVOLVE-BLOCK-END)\n");
}

TEST_F(CliTest, MissingToolsAndDevices) {
  set_machine([](auto& m) { m["cuda"]["home"] = ""; });
  auto r = run({"optimize", "gemm_allgather"});
  EXPECT_EQ(r.code, 7);
  EXPECT_TRUE(
      r.err.starts_with("sculler: nvcc is missing: candidates cannot be compiled (install CUDA 13"))
      << r.err;
  set_machine([](auto&) {}, 1);
  r = run({"optimize", "gemm_allgather", "--target", "cuda"});
  EXPECT_EQ(r.code, 8);
  EXPECT_EQ(r.err, "sculler: 2 GPUs asked, 1 there (use --target emu, or fewer --ranks)\n");
  const auto library = file("libnccl.so.2", "….NCCL version 2.27.3+cuda12.9….");
  set_machine([&](auto& m) { m["cuda_libraries"] = {library}; }, 2);
  r = run({"optimize", "gemm_allgather", "--target", "cuda"});
  EXPECT_EQ(r.code, 9);
  EXPECT_TRUE(r.err.starts_with(
      "sculler: " + library +
      ": this NCCL is 2.27.3, the headers in /cuda/include are 2.28.9 (set SCULLER_NCCL_HOME"))
      << r.err;
}

TEST_F(CliTest, NodesAreEmulatedAndEven) {
  set_machine([](auto&) {}, 2);
  auto r = run({"optimize", "gemm_allgather", "--target", "cuda", "--nodes", "2"});
  EXPECT_EQ(r.err,
            "sculler: 2 nodes are asked, and the target is cuda: nodes are emulated (use --target "
            "emu, or one node)\n");
  r = run({"evaluate", "ring_exchange", "lsa_step", "--target", "emu", "--nodes", "3"});
  EXPECT_EQ(r.err,
            "sculler: 2 ranks cannot lie on 3 nodes, as many on each (choose --ranks as a multiple "
            "of --nodes)\n");
  r = run({"evaluate", "ring_exchange", "lsa_step", "--target", "emu", "--nodes", "2"});
  EXPECT_NE(r.err.find("lsa reaches 1 ranks of a node, there are 2 on several nodes"),
            std::string::npos)
      << r.err;
}

TEST_F(CliTest, BestTargetOfTheMachine) {
  set_machine([](auto&) {}, 2);
  auto r = run({"optimize", "gemm_allgather", "--candidates", "1", "--runs", folder_});
  EXPECT_TRUE(r.out.starts_with(
      "target cuda: 2 GPUs here; times are measured at size default, hardware profile h200x2"))
      << r.out << r.err;
  set_machine([](auto&) {}, 1);
  r = run({"optimize", "gemm_allgather", "--candidates", "1", "--runs", folder_});
  EXPECT_TRUE(r.out.starts_with("target emu: 1 GPU here, 2 needed; times are predicted")) << r.out;
}

TEST_F(CliTest, RunFolderOfAnotherVersion) {
  ASSERT_EQ(
      run({"optimize", "gemm_allgather", "--candidates", "1", "--runs", folder_ + "/runs"}).code,
      0);
  const std::string run_folder = folder_ + "/runs/2026-11-18-gemm_allgather-1";
  const std::string text = *real_files().read(run_folder + "/run.toml");
  ASSERT_TRUE(real_files().write_atomic(run_folder + "/run.toml",
                                        "version = 3" + text.substr(text.find('\n'))));
  auto r = run({"resume", run_folder});
  EXPECT_EQ(r.code, 9);
  EXPECT_EQ(r.err, "sculler: " + run_folder +
                       "/run.toml:1: version: run file of format 3, this program reads format 1 "
                       "(use the newer sculler that made it)\n");
  EXPECT_EQ(run({"resume", folder_}).code, 16);
}

TEST_F(CliTest, EvaluateNamesWhatAndWhere) {
  auto r = run({"evaluate", "gemm_allgather", "tile_store", "--define", "TILE_M=64"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("tile_store TILE_M=64: PASSED\n")) << r.out;
  EXPECT_NE(r.out.find("predicted at size default"), std::string::npos);
  r = run({"evaluate", "gemm_allgather", "cutlass_store"});
  EXPECT_EQ(r.code, 17);
  EXPECT_NE(r.out.find("UNSUPPORTED\nwhat    no wgmma"), std::string::npos) << r.out;
  r = run({"evaluate", "gemm_allgather", "cutlass_store", "--json"});
  EXPECT_EQ(r.code, 17);
  const auto answer = parse_json(r.out, "stdout");  // one object, the verdict
  ASSERT_TRUE(answer) << r.out;
  EXPECT_EQ(string_or(*answer, "status", ""), "UNSUPPORTED");
  r = run({"evaluate", "gemm_allgather", "tile_stoer"});
  EXPECT_EQ(r.code, 16);
  EXPECT_NE(r.err.find("did you mean tile_store?"), std::string::npos);
  r = run({"evaluate", "gemm_allgather", "tile_store", "--define", "TILE_M=65"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("TILE_M: 65 is not one of its values"), std::string::npos);
}

TEST_F(CliTest, DoctorAndList) {
  set_machine([](auto& m) { m["cuda"]["home"] = ""; });
  auto r = run({"doctor"});
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(
      r.out.find(
          "missing  nvcc            not found; no CUDA program can be compiled → install CUDA 13"),
      std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("ok       sandbox         full"), std::string::npos);
  r = run({"list", "--json"});
  const auto json = parse_json(r.out, "out");
  ASSERT_TRUE(json);
  EXPECT_GE(json->at("tasks").size(), 2u);
  EXPECT_GE(json->at("profiles").size(), 1u);
  EXPECT_EQ(run({"list", "nonsense"}).code, 2);
  EXPECT_EQ(run({"--version"}).out, "sculler 0.1.0\n");
}

// Multicast is off in the evaluator's environment, and nothing but the allow-list gets there.
TEST(EvaluatorEnvironment, IsAnAllowList) {
  setenv("OPENAI_API_KEY", "secret", 1);
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  int switches = 0;
  for (const auto& [name, value] : evaluator_environment()) {
    EXPECT_NE(name, "OPENAI_API_KEY");
    if (name == "NCCL_NVLS_ENABLE") switches += value == "0" ? 1 : 100;
    if (name == "TORCH_SYMM_MEM_DISABLE_MULTICAST" || name == "NVSHMEM_DISABLE_NVLS")
      switches += value == "1" ? 1 : 100;
  }
  EXPECT_EQ(switches, 3);
}

}  // namespace
}  // namespace sculler::cli
