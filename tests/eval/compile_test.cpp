#include "eval/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace sculler::eval {
namespace {
namespace fs = std::filesystem;

class CompileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (toolchain_.gxx.empty()) GTEST_SKIP() << "no g++ here";
    ASSERT_TRUE(cache_().open());
  }
  ArtifactCache& cache_() {
    if (!held_) held_ = std::make_unique<ArtifactCache>(folder_ / "cache", uint64_t{1} << 30);
    return *held_;
  }
  CompileOutcome compile(const std::string& text, CompileRequest r = {}) {
    r.language = r.files.empty() ? CompileRequest::Language::kCpp : r.language;
    r.files = {{"candidate.cpp", text}};
    ToolCompiler compiler(real_processes(), sandbox_, toolchain_, cache_());
    return compiler.compile(r);
  }
  test::TempFolder temporary_{"compile_test"};
  const fs::path folder_ = temporary_.path();
  Toolchain toolchain_ = find_toolchain();
  Sandbox sandbox_ = Sandbox::detect(real_processes(), Containment::kFull, "");
  std::unique_ptr<ArtifactCache> held_;
};

TEST_F(CompileTest, SecondTimeFromTheCacheAndAnyChangeCounts) {
  const auto first = compile("extern \"C\" int f() { return 1; }");
  ASSERT_TRUE(first.ok) << first.message;
  EXPECT_FALSE(first.cached);
  EXPECT_TRUE(fs::exists(first.artifact));
  EXPECT_EQ(first.sha256.size(), 64U);
  const auto second = compile("extern \"C\" int f() { return 1; }");
  EXPECT_TRUE(second.cached);
  EXPECT_EQ(second.sha256, first.sha256);
  const auto other = compile("extern \"C\" int f() { return 2; }");
  EXPECT_FALSE(other.cached);
  EXPECT_NE(other.artifact, first.artifact);
  CompileRequest defined;
  defined.defines = {{"X", "1"}};
  EXPECT_FALSE(compile("extern \"C\" int f() { return 1; }", defined).cached);
}

TEST_F(CompileTest, AHeaderThatChangesCompilesAgain) {
  fs::create_directories(folder_ / "inc");
  std::ofstream(folder_ / "inc/h.h") << "#define V 1\n";
  CompileRequest r;
  r.include_folders = {folder_ / "inc"};
  const std::string text = "#include \"h.h\"\nextern \"C\" int f() { return V; }";
  const auto first = compile(text, r);
  ASSERT_TRUE(first.ok) << first.message;
  EXPECT_TRUE(compile(text, r).cached);
  std::ofstream(folder_ / "inc/h.h") << "#define V 22\n";
  const auto second = compile(text, r);
  EXPECT_FALSE(second.cached);
  EXPECT_NE(second.sha256, first.sha256);
}

TEST_F(CompileTest, FirstErrorWithItsPlace) {
  const auto bad = compile("int a;\nint b = nothing;\n");
  EXPECT_FALSE(bad.ok);
  EXPECT_EQ(bad.status, "COMPILE_ERROR");
  EXPECT_EQ(bad.where, "candidate.cpp:2");
  EXPECT_NE(bad.message.find("nothing"), std::string::npos);
}

TEST_F(CompileTest, ASourceCannotReadTheMachine) {
  if (sandbox_.level() != Containment::kFull) GTEST_SKIP() << "no sandbox here: " << sandbox_.why();
  std::ofstream(folder_ / "secret.h") << "int secret = 42;\n";
  for (const std::string& path : {std::string("/etc/passwd"), std::string("/proc/1/environ"),
                                  (folder_ / "secret.h").string()}) {
    if (path.starts_with("/proc")) continue;  // its own /proc: nothing of the machine in it
    const auto bad = compile("#include \"" + path + "\"\n");
    EXPECT_EQ(bad.status, "COMPILE_ERROR");
    EXPECT_NE(bad.message.find("No such file"), std::string::npos) << bad.message;
  }
}

TEST_F(CompileTest, ACompilerThatTakesTooLongIsStopped) {
  CompileRequest r;
  r.timeout_ms = 400;
  std::string text =
      "template <int N> int g(int x) { return x * N + g<N - 1>(x); }\ntemplate <> int g<0>(int x) "
      "{ return x; }\n";
  for (int i = 0; i < 20'000; ++i)
    text +=
        "int f" + std::to_string(i) + "(int x) { return g<40>(x + " + std::to_string(i) + "); }\n";
  const auto slow = compile(text, r);
  EXPECT_FALSE(slow.ok);
  EXPECT_EQ(slow.status, "TIMEOUT") << slow.message;
}

TEST_F(CompileTest, AMissingCompilerSaysHowToGetOne) {
  Toolchain none = toolchain_;
  none.cuda_home.clear();
  ToolCompiler compiler(real_processes(), sandbox_, none, cache_());
  CompileRequest r;
  r.files = {{"candidate.cu", ""}};
  auto out = compiler.compile(r);
  EXPECT_EQ(out.status, "INTERNAL");
  EXPECT_NE(out.advice.find("SCULLER_CUDA_HOME"), std::string::npos);
  none = toolchain_;
  none.cutlass_include.clear();
  ToolCompiler other(real_processes(), sandbox_, none, cache_());
  r.needs_cutlass = true;
  if (none.cuda_home.empty()) GTEST_SKIP() << "no nvcc here";
  out = other.compile(r);
  EXPECT_EQ(out.status, "UNSUPPORTED");
  EXPECT_NE(out.advice.find("quickstart"), std::string::npos);
}

TEST_F(CompileTest, CudaGivesPtxInAFatBinary) {
  if (toolchain_.cuda_home.empty()) GTEST_SKIP() << "no nvcc here";
  CompileRequest r;
  r.files = {
      {"candidate.cu",
       "__global__ void k(int* p) { *p = 1; }\nextern \"C\" void f(int* p) { k<<<1, 1>>>(p); }\n"}};
  ToolCompiler compiler(real_processes(), sandbox_, toolchain_, cache_());
  const auto out = compiler.compile(r);
  ASSERT_TRUE(out.ok) << out.message;
  std::ifstream in(out.artifact, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(bytes.find(".target sm_90a"), std::string::npos);  // not compressed
}

}  // namespace
}  // namespace sculler::eval
