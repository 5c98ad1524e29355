#include "eval/launcher.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "support/temp_folder.h"

namespace sculler::eval {
namespace {
namespace fs = std::filesystem;

// Pids of processes whose command line or first environment holds `word`. Ranks in a sandbox are
// found by the mark that the tests put into their environment, since other evaluators may run on
// this machine.
std::vector<int> processes_with(const std::string& word) {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    std::stringstream text;
    for (const char* file : {"cmdline", "environ"}) {
      std::ifstream in(entry.path() / file);
      if (in.peek() != EOF) text << in.rdbuf();
    }
    if (text.str().find(word) != std::string::npos) found.push_back(pid);
  }
  return found;
}

bool gone_within(const std::string& word, int ms) {
  for (int waited = 0; waited <= ms; waited += 20) {
    if (processes_with(word).empty()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return processes_with(word).empty();
}

// A group of stand-ins at the strictest level that this machine gives, and at `no-userns`.
class LauncherTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ::chmod(folder_.c_str(), 0755);
    fs::create_directories(folder_ / "bin");
    fs::create_directories(folder_ / "scratch");
    for (const char* program : {"sculler-vm", "sculler-verify", "sculler-rank"}) {
      fs::copy(STAND_IN, folder_ / "bin" / program);
    }
    installation_.programs = folder_ / "bin";
    if (GetParam()) {
      sandbox_ = Sandbox::detect(real_processes(), Containment::kFull, "");
      if (sandbox_.level() != Containment::kFull)
        GTEST_SKIP() << "no sandbox here: " << sandbox_.why();
    }
    launcher_ = std::make_unique<LocalLauncher>(real_processes(), sandbox_, installation_,
                                                folder_ / "scratch");
  }
  GroupSpec spec(const std::string& trusted, const std::string& ranks,
                 Target target = Target::kEmu) const {
    GroupSpec s;
    s.target = target;
    s.n_ranks = 2;
    s.label = "test";
    s.job_json = trusted;
    s.rank_json = ranks;
    s.env = rank_environment({{"NCCL_TEST_MARK", folder_.string()}}, false);
    return s;
  }

  test::TempFolder temporary_{"launcher_test"};
  const fs::path folder_ = temporary_.path();
  Installation installation_;
  Sandbox sandbox_{Containment::kNoUserns, "test", "", ::geteuid() == 0};
  std::unique_ptr<LocalLauncher> launcher_;
};

TEST_P(LauncherTest, BothSidesHaveTheirSockets) {
  auto out = run_group(*launcher_, spec("fds\nanswer done\n", "fds\n"), 5000, 1000);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(out->line, "SCULLER_CONTROL_FDS 10 socket");
  for (const char* said :
       {"SCULLER_CONTROL_FDS 11 socket", "SCULLER_VM_FDS 12 socket", "SCULLER_VM_FDS 13 socket"}) {
    EXPECT_NE(out->output.find(said), std::string::npos) << out->output;
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "scratch"));
}

TEST_P(LauncherTest, TheEnvironmentIsTheListAndNothingElse) {
  ::setenv("SCULLER_TEST_SECRET", "key", 1);
  auto out = run_group(*launcher_, spec("answer {}\n", "env\n"), 5000, 1000);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->output.find("SCULLER_TEST_SECRET"), std::string::npos);
  EXPECT_NE(out->output.find("NCCL_NVLS_ENABLE=0"), std::string::npos);
  EXPECT_NE(out->output.find("TORCH_SYMM_MEM_DISABLE_MULTICAST=1"), std::string::npos);
  EXPECT_NE(out->output.find("NVSHMEM_DISABLE_NVLS=1"), std::string::npos);
  std::istringstream lines(out->output);
  for (std::string line; std::getline(lines, line);) {
    const auto name = line.substr(0, line.find('='));
    const bool known = name == "PATH" || name == "HOME" || name == "TMPDIR" || name == "LANG" ||
                       name == "PWD" || name.starts_with("NCCL_") || name.starts_with("CUDA_") ||
                       name.starts_with("SCULLER_") || name.starts_with("TORCH_") ||
                       name.starts_with("NVSHMEM_");
    EXPECT_TRUE(known) << line;
  }
}

TEST_P(LauncherTest, DeadlineKillsBothSidesAndWhatTheyForked) {
  const auto start = std::chrono::steady_clock::now();
  auto out = run_group(*launcher_, spec("sleep\n", "fork\nspin\n"), 300, 1000);
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(gone_within(folder_.string(), 2000));
}

TEST_P(LauncherTest, AForkThatOutlivesItsRankIsKilledToo) {
  auto out = run_group(*launcher_, spec("answer {\"status\":\"PASSED\"}\n", "fork\n"), 5000, 1000);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->line, "{\"status\":\"PASSED\"}");
  EXPECT_TRUE(gone_within(folder_.string(), 2000));
}

TEST_P(LauncherTest, ATrustedProcessThatDiesIsSaid) {
  auto out = run_group(*launcher_, spec("crash\n", "sleep\n"), 5000, 1000);
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->trusted_ended);
  EXPECT_EQ(out->trusted.signal, SIGABRT) << out->trusted.text();
  EXPECT_TRUE(out->line.empty());
}

TEST_P(LauncherTest, AnEndlessLineIsCutOff) {
  auto group = launcher_->start(spec("echo\n", "sleep\n"));
  ASSERT_TRUE(group);
  auto first = (*group)->ask("go 3", 3000);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(*first, "go 3");
  auto second = (*group)->ask("go 4", 3000);
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, "go 4");
  const auto out = (*group)->finish(1000);
  EXPECT_EQ(out.trusted.code, 0);  // its input was closed
}

INSTANTIATE_TEST_SUITE_P(Levels, LauncherTest, testing::Values(true, false),
                         [](const auto& i) { return i.param ? "full" : "no_userns"; });

TEST(LauncherFull, ARankSeesLittleOfTheMachine) {
  const auto sandbox = Sandbox::detect(real_processes(), Containment::kFull, "");
  if (sandbox.level() != Containment::kFull) GTEST_SKIP() << "no sandbox here: " << sandbox.why();
  const test::TempFolder temporary("launcher_test");
  const fs::path folder = temporary.path();
  fs::create_directories(folder / "bin");
  for (const char* program : {"sculler-verify", "sculler-rank"})
    fs::copy(STAND_IN, folder / "bin" / program);
  Installation installation;
  installation.programs = folder / "bin";
  LocalLauncher launcher(real_processes(), sandbox, installation, folder / "scratch");
  GroupSpec s;
  s.target = Target::kCpu;
  s.n_ranks = 1;
  s.label = "test";
  s.job_json = "answer {}\n";
  s.rank_json = "files\n";
  s.env = rank_environment({}, false);
  auto out = run_group(launcher, s, 5000, 1000);
  ASSERT_TRUE(out) << out.error().text();
  for (const char* said : {"/etc/passwd hidden", "/etc/hostname hidden", "/root hidden",
                           "/home hidden", "/usr/bin hidden", "/var/log hidden",
                           "job-folder read-only", "tmp writable", "interfaces 1"}) {
    EXPECT_NE(out->output.find(said), std::string::npos) << said << " in\n" << out->output;
  }
}

TEST(LauncherDeath, NothingIsLeftWhenTheEvaluatorIsKilled) {
  const test::TempFolder temporary("launcher_test");
  const fs::path folder = temporary.path();
  fs::create_directories(folder / "bin");
  for (const char* program : {"sculler-vm", "sculler-rank"})
    fs::copy(STAND_IN, folder / "bin" / program);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto sandbox = Sandbox::detect(real_processes(), Containment::kFull, "");
    Installation installation;
    installation.programs = folder / "bin";
    LocalLauncher launcher(real_processes(), sandbox, installation, folder / "scratch");
    GroupSpec s;
    s.label = "test";
    s.job_json = "sleep\n";
    s.rank_json = "spin\n";
    s.env = rank_environment({{"NCCL_TEST_MARK", (folder / "bin").string()}}, false);
    (void)run_group(launcher, s, 60000, 1000);
    ::_exit(0);
  }
  for (int i = 0; i < 500 && processes_with((folder / "bin").string()).size() < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GE(processes_with((folder / "bin").string()).size(), 3U);  // trusted, sandbox, rank
  // bubblewrap's inner process asks for its parent's death only after it has been started.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(gone_within((folder / "bin").string(), 3000));
}

}  // namespace
}  // namespace sculler::eval
