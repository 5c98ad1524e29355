#include "source/lint.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/files.h"

namespace sculler::source {
namespace {

const std::string kFrame =
    "#include <cuda_runtime.h>\n"
    "// EVOLVE-BLOCK-START\n"
    "BODY\n"
    "// EVOLVE-BLOCK-END\n"
    "extern \"C\" int sculler_setup() { return 0; }\n"
    "extern \"C\" int sculler_run() { return 0; }\n"
    "extern \"C\" int sculler_teardown() { return 0; }\n";

std::string with(std::string_view body) {
  std::string text = kFrame;
  return text.replace(text.find("BODY"), 4, body);
}

std::string rules(const std::string& text, const LintOptions& options = {}) {
  std::string out;
  for (const auto& finding : lint(text, options)) {
    if (!out.empty()) out += ' ';
    out += std::to_string(finding.line) + ":" + finding.rule;
    EXPECT_FALSE(finding.message.empty());
    EXPECT_FALSE(finding.cure.empty()) << finding.rule;
  }
  return out;
}

directive::Directive lsa() {
  directive::Directive d;
  d.backend = directive::Backend::kLsa;
  return d;
}

TEST(Lint, CleanTextPasses) {
  EXPECT_EQ(rules(with("__global__ void k(float* x) { x[threadIdx.x] = 1; }")), "");
  EXPECT_EQ(rules(with("// dlopen(\"x\") in a comment\nconst char* s = \"fork()\";")), "");
}

TEST(Lint, BannedCalls) {
  for (const char* call : {"dlopen(0, 1)", "fork()", "execve(a, b, c)", "socket(1, 2, 3)",
                           "system(\"x\")", "ptrace(0)", "::fork()", "std::system(\"x\")",
                           "dlo\\\npen(0, 1)", "return getenv(\"X\")"}) {
    EXPECT_EQ(rules(with(std::string("int f() { ") + call + "; }")), "3:banned-call") << call;
  }
  EXPECT_EQ(rules(with("auto f = &dlopen;")), "3:banned-call");
  EXPECT_EQ(rules(with("int f() { return stream.connect(1) + ns::exit(2); }")), "");
  EXPECT_EQ(rules(with("int system = 3; struct S { int fork; };")), "");
  EXPECT_EQ(rules(with("#include <dlfcn.h>")), "3:banned-header");
  EXPECT_EQ(rules(with("#include \"../secret.h\"")), "3:banned-header");
  EXPECT_EQ(rules(with("auto f = open_file(\"/proc/self/mem\");")), "3:path");
}

TEST(Lint, MulticastOnlyWhereTheProfileAllowsIt) {
  const std::string assembly =
      with("asm volatile(\"multi\" \"mem.red.add.f32 [%0], %1;\" :: \"l\"(p), \"f\"(x));");
  const std::string call = with("auto p = ncclGetLsaMultimemPointer(w, 0, comm);");
  EXPECT_EQ(rules(assembly), "3:multicast");
  EXPECT_EQ(rules(call), "3:multicast");
  EXPECT_EQ(
      rules(with("void k() { ncclLsaBarrierSession<C> b(c, comm, ncclTeamTagLsa(), i, true); }")),
      "3:multicast");
  EXPECT_EQ(rules(with("cuMulticastCreate(&h, &p);")), "3:multicast");
  LintOptions allowed;
  allowed.multicast = true;
  EXPECT_EQ(rules(assembly, allowed), "");
  EXPECT_EQ(rules(call, allowed), "");
}

TEST(Lint, DirectiveHoldsTheCode) {
  const auto d = lsa();
  LintOptions options;
  options.directive = &d;
  EXPECT_EQ(rules(with("void f(B* b) { store(b->peer[1]); }"), options), "");
  EXPECT_EQ(rules(with("void f() { ncclAllGather(a, b, n, t, c, s); b->peer[0]; }"), options),
            "3:host-collective");
  EXPECT_EQ(rules(with("void f() {}"), options), "0:device-api");
  EXPECT_EQ(rules(with("void f(ncclDevComm c) { ncclGin gin(c, 0); }"), options), "0:backend");
  EXPECT_EQ(rules("// sculler:directive {\"backend\":\"lsaa\"}\n" + with("int x;")), "1:directive");
  options.directive = nullptr;
  EXPECT_EQ(rules("// sculler:directive {\"backend\":\"lsa\"}\n" + with("int x;"), options),
            "0:device-api");
}

TEST(Lint, MarkersFrozenTextAndEntryPoints) {
  const std::string parent = with("int x;");
  LintOptions options;
  options.parent = parent;
  EXPECT_EQ(rules(with("int y;"), options), "");
  std::string touched = with("int y;");
  touched.replace(touched.find("return 0"), 8, "return 1");
  EXPECT_EQ(rules(touched, options), "5:frozen-text");
  EXPECT_EQ(rules("int x;"), "0:evolve-block 0:entry-point 0:entry-point 0:entry-point");
  LintOptions baseline;
  baseline.baseline = true;
  std::string plain = parent;
  plain.erase(plain.find("// EVOLVE-BLOCK-START\n"), 22)
      .erase(plain.find("// EVOLVE-BLOCK-END\n"), 20);
  EXPECT_EQ(rules(plain, baseline), "");
  EXPECT_EQ(rules(plain), "0:evolve-block");
}

TEST(Lint, BarrierIndexBelowItsCount) {
  const std::string setup = "void s(R& reqs) { reqs.lsaBarrierCount = 4; }\n";
  const auto bar = [&](const char* index) {
    return with(setup +
                "__device__ void k() { ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), comm, "
                "ncclTeamTagLsa(), " +
                index + "}; }");
  };
  EXPECT_EQ(rules(bar("3")), "");
  EXPECT_EQ(rules(bar("4")), "4:barrier-index");
  EXPECT_EQ(rules(bar("blockIdx.x")), "");
  EXPECT_EQ(
      rules(with("#define INDEX 9\n" + setup +
                 "__device__ void k() { ncclLsaBarrierSession<C> bar(c, comm, team, INDEX); }")),
      "5:barrier-index");
  LintOptions options;
  options.defines = {{"SLOT", "5"}};
  const std::string tuned =
      "// sculler:tune SLOT in {1,5}\n#ifndef SLOT\n#define SLOT 1\n#endif\n" + bar("SLOT");
  EXPECT_EQ(rules(tuned, options), "8:barrier-index");
  options.defines = {{"SLOT", "1"}};
  EXPECT_EQ(rules(tuned, options), "");
  EXPECT_EQ(
      rules(with(
          "void s(R& r) { r.ginSignalCount = 1; }\n__device__ void k() { ncclGin_SignalInc{1}; }")),
      "4:barrier-index");
}

TEST(Lint, FindingsAreBoundedAndPrinted) {
  std::string many;
  for (int i = 0; i < 500; ++i) many += "fork();\n";
  EXPECT_EQ(lint(with("void f() {" + many + "}"), {}).size(), 100u);
  EXPECT_EQ(print({3, "banned-call", "fork starts a process", "remove it"}, "c.cu"),
            "c.cu:3: banned-call: fork starts a process (remove it)");
}

// Every program that the project ships must pass its own lint.
TEST(Lint, ShippedProgramsPass) {
  int programs = 0;
  for (const char* group : {"/tasks/workloads", "/tasks/kernels"}) {
    auto tasks = real_files().list(std::string(SCULLER_SOURCE_DIR) + group);
    if (!tasks) continue;
    for (const auto& task : *tasks) {
      for (const char* kind : {"baselines", "seeds"}) {
        const std::string folder =
            std::string(SCULLER_SOURCE_DIR) + group + "/" + task + "/" + kind;
        auto names = real_files().list(folder);
        if (!names) continue;
        for (const auto& name : *names) {
          if (!name.ends_with(".cu") && !name.ends_with(".cpp")) continue;
          LintOptions options;
          options.baseline = std::string_view(kind) == "baselines";
          options.device_code = name.ends_with(".cu");
          auto text = real_files().read(folder + "/" + name);
          ASSERT_TRUE(text);
          for (const auto& finding : lint(*text, options))
            ADD_FAILURE() << print(finding, task + "/" + kind + "/" + name);
          ++programs;
        }
      }
    }
  }
  EXPECT_GE(programs, 5);
}

RC_GTEST_PROP(Lint, AnyTextIsJudged, (const std::string& text)) { (void)lint(with(text), {}); }

}  // namespace
}  // namespace sculler::source
