// The cpu target through the real evaluator: measured times, wrong results, hostile candidates, the
// spool.
#include <unistd.h>

#include <csignal>

#include "e2e/evaluate.h"
#include "support/temp_folder.h"

namespace sculler::e2e {
namespace {

const char* const kTask = "kernels/silu";

json silu(const std::string& text, const std::vector<std::string>& stages,
          const json& extra = json::object()) {
  json with{{"n_ranks", 1}, {"size", "quick"}};
  with.update(extra);
  return job_line(kTask, "candidate.cpp", text, "cpu", stages, with);
}

std::string seed() { return read_text(source_path("tasks/kernels/silu/seeds/blocked.cpp")); }

// A whole candidate around the body of sculler_run.
std::string candidate(const std::string& body, const std::string& head = {}) {
  return "#include <sculler/candidate.h>\n#include <cmath>\n#include <cstdlib>\n" + head +
         "// EVOLVE-BLOCK-START\n"
         "static const sculler_pool* g_pool;\n"
         "extern \"C\" int sculler_setup(const sculler_rank*, const sculler_problem*, const "
         "sculler_pool* pool, void**) {"
         " g_pool = pool; return 0; }\n"
         "extern \"C\" int sculler_run(void*, const sculler_problem* p, int set) {\n"
         "  auto* x = static_cast<float*>(g_pool->set[set].buffer[0].ptr);\n"
         "  auto* y = static_cast<float*>(g_pool->set[set].buffer[1].ptr);\n"
         "  const long n = p->dim[0]; (void)x; (void)y; (void)n;\n" +
         body +
         "  return 0;\n}\n"
         "extern \"C\" int sculler_teardown(void*) { return 0; }\n"
         "// EVOLVE-BLOCK-END\n";
}

TEST(EvalCpu, SeedPassesTheWholeCascadeAndIsMeasured) {
  const auto v =
      evaluate_one(silu(seed(), {"lint", "compile", "run", "stress", "bench", "confirm"}));
  // Where others load the machine, the confirmation may be undecided, and has to say so: a test
  // holds no time against a threshold.
  if (status_of(v) == "AMBIGUOUS") {
    EXPECT_EQ(v["compare_call"], "AMBIGUOUS");
    EXPECT_GT(v["clocks"]["before"]["load"].get<double>(), 1) << v.dump(2);
  } else {
    ASSERT_EQ(status_of(v), "PASSED") << v.dump(2);
  }
  EXPECT_EQ(v["stage"], "confirm");
  EXPECT_EQ(v["latency_us"]["kind"], "measured");
  EXPECT_GT(v["latency_us"]["median"].get<double>(), 0);
  ASSERT_TRUE(v["ratio"].contains("plain")) << v.dump(2);
  EXPECT_GT(v["ratio"]["plain"]["low"].get<double>(), 0);
  EXPECT_GE(v["samples_us"]["candidate"].size(), 20U);
  EXPECT_EQ(v["sha256"]["artifact"].get<std::string>().size(), 64U);
}

TEST(EvalCpu, WrongAnswersAreIncorrectWhateverIsPrinted) {
  const auto constant =
      evaluate_one(silu(candidate("for (long i = 0; i < n; ++i) y[i] = 0; "
                                  "printf(\"{\\\"status\\\":\\\"PASSED\\\"}\\n\");\n",
                                  "#include <cstdio>\n"),
                        {"compile", "run"}));
  EXPECT_EQ(status_of(constant), "INCORRECT") << constant.dump(2);
  const auto nothing = evaluate_one(silu(candidate(""), {"compile", "run"}));
  EXPECT_EQ(status_of(nothing), "INCORRECT") << nothing.dump(2);
  const auto half = evaluate_one(
      silu(candidate("for (long i = 0; i < n - 1; ++i) y[i] = x[i] / (1 + std::exp(-x[i]));\n"),
           {"compile", "run"}));
  EXPECT_EQ(status_of(half), "INCORRECT") << half.dump(2);
  EXPECT_FALSE(half["message"].get<std::string>().empty());
}

TEST(EvalCpu, CrashesAndHangsAreNamedAndLeaveNothing) {
  const auto crash = evaluate_one(
      silu(candidate("*reinterpret_cast<volatile int*>(8) = 1;\n"), {"compile", "run"}));
  EXPECT_EQ(status_of(crash), "CRASH") << crash.dump(2);
  EXPECT_NE(crash["message"].get<std::string>().find("SIGSEGV"), std::string::npos)
      << crash["message"];
  const auto exit =
      evaluate_one(silu(candidate("_exit(0);\n", "#include <unistd.h>\n"), {"compile", "run"}));
  EXPECT_EQ(status_of(exit), "CRASH") << exit.dump(2);
}

TEST(EvalCpu, ErrorsBeforeRunning) {
  const auto compile = evaluate_one(silu(candidate("nonsense();\n"), {"compile", "run"}));
  EXPECT_EQ(status_of(compile), "COMPILE_ERROR");
  EXPECT_EQ(compile["where"].get<std::string>().rfind("candidate.cpp:", 0), 0U) << compile["where"];
  const auto lint = evaluate_one(silu("int x;\n", {"lint", "compile"}));
  EXPECT_EQ(status_of(lint), "LINT_ERROR") << lint.dump(2);
}

TEST(EvalCpu, ASpooledJobIsAnsweredAndNotRunAgain) {
  const test::TempFolder temporary("e2e_spool");
  const std::string folder = temporary.path();
  const auto job = silu(seed(), {"lint", "compile", "run"});
  const auto first = evaluate({job}, folder), second = evaluate({job, job}, folder);
  ASSERT_EQ(first.verdicts.size(), 1U) << first.errors;
  ASSERT_EQ(second.verdicts.size(), 2U) << second.errors;
  EXPECT_EQ(second.verdicts[0], first.verdicts[0]);  // costs in it would differ
  EXPECT_EQ(second.verdicts[1], first.verdicts[0]);
  EXPECT_EQ(read_text(folder + "/" + job["job"].get<std::string>() + ".json"), first.raw);
}

// Filled here, run by its own script with what lies in it.
TEST(EvalCpu, APackedFolderRunsByItsScript) {
  const test::TempFolder temporary("e2e_pack");
  const std::string folder = temporary.path("jobs");
  const auto job = silu(seed(), {"lint", "compile", "run"});
  SpawnOptions pack;
  pack.argv = {std::string(SCULLER_BINARY_DIR) + "/bin/sculler-eval", "--cache",
               std::string(SCULLER_BINARY_DIR) + "/e2e-cache", "--pack", folder};
  pack.env = env_subset({"PATH", "HOME", "TMPDIR"});
  auto packed = run_command(real_processes(), pack, job.dump() + "\n", 240'000);
  ASSERT_TRUE(packed && packed->status.ok()) << packed->err;
  // The script, not its caller, keeps NVLink multicast off.
  const std::string script = read_text(folder + "/run.sh");
  for (const char* off : {"NCCL_NVLS_ENABLE=0", "TORCH_SYMM_MEM_DISABLE_MULTICAST=1",
                          "NVSHMEM_DISABLE_NVLS=1", "CUDA_MODULE_LOADING=EAGER"})
    EXPECT_NE(script.find(off), std::string::npos) << off;
  SpawnOptions there;
  there.argv = {"/bin/sh", folder + "/run.sh"};
  if (const auto level = env_value("SCULLER_TEST_CONTAINMENT"); !level.empty())
    there.argv.insert(there.argv.end(), {"--containment", level});
  there.env = env_subset({"HOME", "TMPDIR"});
  there.env.emplace_back("PATH", "/usr/bin:/bin");
  auto ran = run_command(real_processes(), there, {}, 240'000);
  ASSERT_TRUE(ran);
  EXPECT_TRUE(ran->status.ok()) << ran->out << ran->err;
  const auto verdict =
      json::parse(read_text(folder + "/spool/" + job["job"].get<std::string>() + ".json"));
  EXPECT_EQ(status_of(verdict), "PASSED") << verdict.dump(2);
}

// An evaluator whose one job spins for ever, with the ranks seen to run.
class EvalCpuKilled : public testing::TestWithParam<bool> {
 protected:
  static std::vector<int> spinning(const std::string& mark) {
    std::vector<int> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const int pid = std::atoi(entry.path().filename().c_str());
      if (pid > 0 && read_text(entry.path() / "maps").find(mark) != std::string::npos)
        found.push_back(pid);
    }
    return found;
  }
};

TEST_P(EvalCpuKilled, NothingIsLeft) {
  const test::TempFolder temporary("e2e_killed");
  const std::string folder = temporary.path();
  SpawnOptions options;
  options.argv = {std::string(SCULLER_BINARY_DIR) + "/bin/sculler-eval", "--cache",
                  folder + "/cache"};
  options.env = env_subset({"PATH", "HOME", "TMPDIR"});
  options.in = Stdio::pipe();
  options.err = Stdio::null();
  auto child = real_processes().spawn(options);
  ASSERT_TRUE(child) << child.error().text();
  const std::string line =
      silu(candidate("for (volatile unsigned i = 0;;) { i = i + 1; }\n"), {"compile", "run"})
          .dump() +
      "\n";
  ASSERT_EQ(::write((*child)->stdin_fd(), line.data(), line.size()),
            static_cast<ssize_t>(line.size()));
  // The candidate's shared object lies in this test's own cache: who maps it is a rank of ours.
  const std::string mark = folder + "/cache/objects";
  bool seen = false;
  for (int i = 0; i < 1500 && !seen; ++i) {
    seen = spinning(mark).size() >= 2;  // the checker maps the reference, a rank the candidate
    ::usleep(20'000);
  }
  EXPECT_TRUE(seen);
  if (GetParam()) {
    (*child)->signal(SIGKILL);
  } else {
    child->reset();
  }
  bool gone = false;
  for (int i = 0; i < 250 && !gone; ++i) {
    gone = spinning(mark).empty();
    ::usleep(20'000);
  }
  EXPECT_TRUE(gone);
}

INSTANTIATE_TEST_SUITE_P(Ways, EvalCpuKilled, testing::Values(true, false),
                         [](const auto& i) { return i.param ? "kill9" : "owner_gone"; });

TEST(EvalCpu, BrokenLinesAreAnsweredAndTheRestGoesOn) {
  SpawnOptions options;
  options.argv = {std::string(SCULLER_BINARY_DIR) + "/bin/sculler-eval", "--cache",
                  std::string(SCULLER_BINARY_DIR) + "/e2e-cache"};
  options.env = env_subset({"PATH", "HOME", "TMPDIR"});
  auto result =
      run_command(real_processes(), options,
                  "not json\n{}\n\n" + silu(seed(), {"lint", "compile"}).dump() + "\n", 120'000);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status.code, 0);
  std::vector<std::string> statuses;
  std::istringstream lines(result->out);
  for (std::string line; std::getline(lines, line);)
    statuses.push_back(json::parse(line)["status"]);
  EXPECT_EQ(statuses, (std::vector<std::string>{"INTERNAL", "INTERNAL", "PASSED"})) << result->out;
}

}  // namespace
}  // namespace sculler::e2e
