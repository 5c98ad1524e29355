#include "eval/sandbox.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>

namespace sculler::eval {
namespace {

std::map<std::string, std::string> map_of(const Environment& env) {
  std::map<std::string, std::string> map;
  for (const auto& [name, value] : env) {
    EXPECT_TRUE(map.emplace(name, value).second) << name << " is there twice";
  }
  return map;
}

TEST(RankEnvironment, MulticastIsOffUnlessTheProfileAllowsIt) {
  const Environment wants{{"NCCL_NVLS_ENABLE", "2"},
                          {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "0"},
                          {"NVSHMEM_DISABLE_NVLS", "0"},
                          {"NCCL_DEBUG", "WARN"}};
  const auto off = map_of(rank_environment(wants, false));
  EXPECT_EQ(off.at("NCCL_NVLS_ENABLE"), "0");
  EXPECT_EQ(off.at("TORCH_SYMM_MEM_DISABLE_MULTICAST"), "1");
  EXPECT_EQ(off.at("NVSHMEM_DISABLE_NVLS"), "1");
  EXPECT_EQ(off.at("CUDA_MODULE_LOADING"), "EAGER");
  EXPECT_EQ(off.at("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_EQ(off.at("NCCL_DEBUG"), "WARN");
  const auto on = map_of(rank_environment(wants, true));
  EXPECT_EQ(on.at("NCCL_NVLS_ENABLE"), "2");
}

TEST(RankEnvironment, NothingIsInheritedAndTheLoaderIsOutOfReach) {
  ::setenv("SCULLER_TEST_SECRET", "key", 1);
  const auto env = map_of(rank_environment({{"LD_PRELOAD", "/x.so"},
                                            {"LD_LIBRARY_PATH", "/x"},
                                            {"SCULLER_CONTROL_FDS", "0"},
                                            {"GLIBC_TUNABLES", "x"}},
                                           false));
  for (const auto& [name, value] : env) {
    EXPECT_FALSE(name.starts_with("LD_")) << name;
    EXPECT_FALSE(name.starts_with("SCULLER_")) << name;
    EXPECT_FALSE(name.starts_with("GLIBC_")) << name;
  }
}

TEST(Sandbox, LevelsHaveNamesAndNoneIsOnlyForTheAsking) {
  const auto none = Sandbox::detect(real_processes(), true);
  EXPECT_EQ(containment_name(none.level()), "none");
  EXPECT_FALSE(none.why().empty());
  FakeProcesses broken([](const SpawnOptions&) -> Result<FakeProcesses::Outcome> {
    FakeProcesses::Outcome outcome;
    outcome.status.code = 1;
    outcome.err = "bwrap: No permissions to create new namespace\n";
    return outcome;
  });
  const auto weak = Sandbox::detect(broken, false);
  EXPECT_EQ(containment_name(weak.level()), "no-userns");
  EXPECT_FALSE(weak.why().empty());
}

TEST(Sandbox, FullSharesNoNamespaceAndBindsReadOnly) {
  const Sandbox box(Containment::kFull, "", "/usr/bin/bwrap", false);
  Confined c;
  c.argv = {"/sculler/bin/sculler-rank"};
  c.binds = {{.source = "/data/a.so"}};
  const auto options = box.wrap(c);
  const auto has = [&](const char* word) {
    return std::find(options.argv.begin(), options.argv.end(), word) != options.argv.end();
  };
  for (const char* word :
       {"--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-user", "--die-with-parent"}) {
    EXPECT_TRUE(has(word)) << word;
  }
  EXPECT_FALSE(has("--share-net"));
  EXPECT_FALSE(has("--bind"));
  for (std::size_t i = 0; i + 1 < options.argv.size(); ++i) {  // of /usr, libraries only
    EXPECT_FALSE(options.argv[i] == "--ro-bind" && options.argv[i + 1] == "/usr");
  }
  EXPECT_TRUE(options.die_with_parent);
}

}  // namespace
}  // namespace sculler::eval
