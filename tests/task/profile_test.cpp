#include "task/profile.h"

#include <gtest/gtest.h>

namespace sculler::task {
namespace {

constexpr const char* kText = R"(version = 1
name = "toy"
arch = "sm_90a"
devices = 2
[nominal]
bf16_tflops = 1000
hbm_gbs = 4000.0
link_gbs = 400
[env]
NCCL_NVLS_ENABLE = "0"
[allow]
multicast = false
gin = true
[limits]
sms = 132
)";

Result<Profile> load(std::string_view text) {
  MemoryFiles files;
  (void)files.mkdirs("/p");
  (void)files.write_atomic("/p/toy.toml", text);
  return load_profile(files, "/p/toy.toml");
}

TEST(Profile, LoadsRatesEnvAndPermissions) {
  auto profile = load(kText);
  ASSERT_TRUE(profile) << profile.error().text();
  EXPECT_EQ(profile->name, "toy");
  EXPECT_EQ(profile->n_devices, 2);
  EXPECT_EQ(profile->number("limits.sms"), 132);
  EXPECT_EQ(profile->number("limits.none"), std::nullopt);
  ASSERT_EQ(profile->env.size(), 1u);
  EXPECT_EQ(profile->env[0].first, "NCCL_NVLS_ENABLE");
  EXPECT_FALSE(profile->multicast);
  EXPECT_TRUE(profile->gin);
}

TEST(Profile, SpeedOfLightIsTheSlowestPart) {
  auto profile = load(kText);
  auto sol = speed_of_light(*profile, {2e11, 4e8, 1e8}, "bf16");
  ASSERT_TRUE(sol);
  EXPECT_DOUBLE_EQ(sol->flops_us, 200);
  EXPECT_DOUBLE_EQ(sol->hbm_us, 100);
  EXPECT_DOUBLE_EQ(sol->link_us, 250);
  EXPECT_DOUBLE_EQ(sol->us, 250);
  EXPECT_EQ(sol->bound, "link");
  EXPECT_EQ(speed_of_light(*profile, {1, 1, 1}, "f16").error().key, "nominal.f16_tflops");
  Work vector{1, 1, 1};
  vector.flops_vec = 1e9;
  EXPECT_EQ(speed_of_light(*profile, vector, "bf16").error().key, "nominal.f32_tflops");
  profile->numbers["nominal.f32_tflops"] = 50;
  EXPECT_EQ(speed_of_light(*profile, vector, "bf16")->bound, "vec");
  EXPECT_DOUBLE_EQ(speed_of_light(*profile, vector, "bf16")->us, 20);
}

TEST(Profile, ErrorsNameTheLine) {
  EXPECT_EQ(load("version = 1\nname = \"x\"\n[env]\nA = 1\n").error().text(),
            "/p/toy.toml:4: env.A: a string is expected (put it in quotes)");
  EXPECT_EQ(load("version = 7\nname = \"x\"\n").error().code, ErrorCode::kVersion);
}

}  // namespace
}  // namespace sculler::task
