// Programs that nvcc makes, unchanged, on the drop-in libraries: what they compute, what is found,
// how they end.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

struct Result {
  int exit = -1;
  std::string text;  // stdout and stderr
};

Result run(const std::string& command) {
  Result result;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    result.text.append(buffer, n);
  const int status = ::pclose(pipe);
  result.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

const std::string kBuild = SCULLER_BINARY_DIR;
const std::string kPrograms = SCULLER_SOURCE_DIR "/tests/emu/dropin/programs/";

// The program's path; empty with a reason where it cannot be made.
std::string compiled(const std::string& name, const std::string& libraries, std::string& why) {
  if (std::string(SCULLER_NVCC).empty()) {
    why = "no nvcc on this machine";
    return {};
  }
  const std::string source = kPrograms + name + ".cu";
  const std::string program = kBuild + "/tests/emu/dropin/" + name;
  std::error_code error;
  std::filesystem::create_directories(kBuild + "/tests/emu/dropin", error);
  if (std::filesystem::exists(program) &&
      std::filesystem::last_write_time(program) > std::filesystem::last_write_time(source)) {
    return program;
  }
  const Result made = run(
      std::string(SCULLER_NVCC) +
      " -std=c++17 -cudart shared -lineinfo -gencode arch=compute_90a,code=compute_90a "
      "--no-compress "
      "-Xcompiler -fPIC,-fno-gnu-unique -Xlinker --allow-shlib-undefined -I" SCULLER_NCCL_INCLUDE
      " -L" +
      kBuild + "/lib/emu " + source + " " + libraries + " -o " + program);
  EXPECT_EQ(made.exit, 0) << made.text;
  return made.exit == 0 ? program : std::string();
}

Result emulate(int ranks, const std::string& program, const std::string& arguments,
               const std::string& options = "") {
  return run(kBuild + "/bin/sculler-vm --run " + std::to_string(ranks) +
             " --timeout 120 --error-exitcode 77 " + options + " -- " + program + " " + arguments);
}

class Runtime : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    program_ = compiled("runtime", "", why);
    if (program_.empty()) GTEST_SKIP() << why;
  }
  std::string program_;
};

class RuntimePart : public Runtime, public ::testing::WithParamInterface<const char*> {};
TEST_P(RuntimePart, IsAsCudaPromises) {
  for (const char* schedule : {"round_robin", "random:3"}) {
    const Result r = emulate(1, program_, GetParam(), std::string("--schedule ") + schedule);
    EXPECT_EQ(r.exit, 0) << r.text;
    EXPECT_NE(r.text.find("good"), std::string::npos) << r.text;
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, RuntimePart,
                         ::testing::Values("basics", "streams", "graphs", "errors", "driver"));

TEST_F(Runtime, KernelsPrint) {
  const Result r = emulate(1, program_, "print");
  EXPECT_EQ(r.exit, 0);
  EXPECT_NE(r.text.find("block 0 thread 1"), std::string::npos) << r.text;
}

struct Finding {
  const char* part;
  const char* status;
  const char* says;  // part of the text
};
class Found : public Runtime, public ::testing::WithParamInterface<Finding> {};
TEST_P(Found, IsNamedAndFails) {
  const Result r = emulate(1, program_, GetParam().part);
  EXPECT_EQ(r.exit, 77) << r.text;
  EXPECT_NE(r.text.find(std::string("========= ") + GetParam().status), std::string::npos)
      << r.text;
  EXPECT_NE(r.text.find(GetParam().says), std::string::npos) << r.text;
}
INSTANTIATE_TEST_SUITE_P(
    Parts, Found,
    ::testing::Values(Finding{"host_read", "CRASH", "host read of device memory at"},
                      Finding{"bounds", "OUT_OF_BOUNDS", "runtime.cu:"},
                      Finding{"deadlock", "DEADLOCK", "runtime.cu:"},
                      Finding{"race", "RACE", "runtime.cu:"},
                      Finding{"uninitialised", "UNINITIALISED", "runtime.cu:"},
                      Finding{"unsupported", "UNSUPPORTED", "cudaHostRegister"},
                      Finding{"array", "UNSUPPORTED", "cudaMallocArray"},
                      Finding{"multicast", "UNSUPPORTED", "cuMulticastCreate"}),
    [](const auto& one) { return std::string(one.param.part); });

TEST_F(Runtime, WithoutAnEmulatorThereIsNoDevice) {
  const Result r =
      run("env -u SCULLER_VM_FD LD_LIBRARY_PATH=" + kBuild + "/lib/emu " + program_ + " basics");
  EXPECT_NE(r.exit, 0);
  EXPECT_NE(r.text.find("no emulator"), std::string::npos) << r.text;
}

class Ranks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::string why;
    if (std::string(SCULLER_NCCL_INCLUDE).empty())
      GTEST_SKIP() << "no NCCL headers on this machine";
    program_ = compiled("ranks", "-lnccl -lcublas", why);
    if (program_.empty()) GTEST_SKIP() << why;
  }
  Result play(const std::string& part, const std::string& options = "") {
    const std::string id = kBuild + "/tests/emu/dropin/id." + std::to_string(::getpid());
    std::filesystem::remove(id);
    const Result r = emulate(GetParam(), program_, part + " " + id, options);
    std::filesystem::remove(id);
    return r;
  }
  std::string program_;
};
TEST_P(Ranks, LsaAllGatherIsRightAndSilent) {
  for (int seed = 1; seed <= 3; ++seed) {
    const Result r = play("lsa", "--schedule random:" + std::to_string(seed));
    EXPECT_EQ(r.exit, 0) << "seed " << seed << ": " << r.text;
  }
}
TEST_P(Ranks, AMissingBarrierIsARace) {
  const Result r = play("no_barrier");
  EXPECT_EQ(r.exit, 77) << r.text;
  EXPECT_NE(r.text.find("========= RACE"), std::string::npos) << r.text;
}
TEST_P(Ranks, LowLatencyAllToAll) {
  const Result r = play("ll");
  EXPECT_EQ(r.exit, 0) << r.text;
}
TEST_P(Ranks, HostCollectives) {
  const Result r = play("collectives");
  EXPECT_EQ(r.exit, 0) << r.text;
}
TEST_P(Ranks, AMissingCollectiveIsADeadlock) {
  const Result r = play("missing");
  EXPECT_EQ(r.exit, 77) << r.text;
  EXPECT_NE(r.text.find("========= DEADLOCK"), std::string::npos) << r.text;
}
TEST_P(Ranks, MatrixProducts) {
  const Result r = play("blas");
  EXPECT_EQ(r.exit, 0) << r.text;
}
INSTANTIATE_TEST_SUITE_P(Sizes, Ranks, ::testing::Values(2, 4));

// Every symbol of the real libraries is exported under its version node.
TEST(Symbols, HaveTheRealVersionNodes) {
  const Result runtime = run("nm -D --defined-only " + kBuild + "/lib/emu/libcudart.so.13");
  if (runtime.exit != 0) GTEST_SKIP() << "no nm on this machine";
  EXPECT_NE(runtime.text.find(" cudaMalloc@@libcudart.so.13"), std::string::npos);
  EXPECT_NE(runtime.text.find(" __cudaRegisterFatBinary@@libcudart.so.13"), std::string::npos);
  EXPECT_NE(runtime.text.find(" cudaMallocArray@@libcudart.so.13"), std::string::npos);
  const Result driver = run("nm -D --defined-only " + kBuild + "/lib/emu/libcuda.so.1");
  EXPECT_NE(driver.text.find(" cuMulticastCreate"), std::string::npos);
  EXPECT_EQ(driver.text.find("cuInit@"), std::string::npos);
}

}  // namespace
