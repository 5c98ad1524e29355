#include "cli/settings.h"

#include <gtest/gtest.h>

namespace sculler::cli {
namespace {

std::string error_of(const std::string& text) {
  MemoryFiles files;
  (void)files.write_atomic("/run.toml", text);
  Settings settings;
  auto read = read_settings(files, "/run.toml", settings);
  return read ? "no error" : read.error().text();
}

TEST(Settings, RoundTrip) {
  Settings settings;
  settings.task = "a \"b\"";
  settings.candidates = 7;
  settings.minutes = 1.5;
  MemoryFiles files;
  ASSERT_TRUE(files.write_atomic("/run.toml", print_settings(settings)));
  Settings again;
  auto read = read_settings(files, "/run.toml", again);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(print_settings(again), print_settings(settings));
  EXPECT_EQ(again.minutes, 1.5);
}

TEST(Settings, ErrorsNameLineKeyAndNearest) {
  EXPECT_EQ(
      error_of("version = 1\n[budget]\ncandidats = 3\n"),
      "/run.toml:3: budget.candidats: is not a known setting (did you mean budget.candidates?)");
  EXPECT_EQ(error_of("candidates = 3\n"),
            "/run.toml:1: candidates: is not a known setting (did you mean budget.candidates?)");
  EXPECT_EQ(error_of("target = \"cdua\"\n"),
            "/run.toml:1: target: \"cdua\" is unknown (did you mean cuda?)");
  EXPECT_EQ(error_of("target = 3\n"),
            "/run.toml:1: target: a string is expected (put it in quotes)");
  EXPECT_EQ(error_of("[budget]\ncandidates = \"3\"\n"),
            "/run.toml:2: budget.candidates: a number is expected (remove the quotes)");
  EXPECT_EQ(error_of("[budget]\ncandidates = -1\n"),
            "/run.toml:2: budget.candidates: -1 is outside 0..1000000000");
  EXPECT_EQ(error_of("version = 2\n"),
            "/run.toml:1: version: run file of format 2, this program reads format 1 (use the "
            "newer sculler that made it)");
  EXPECT_TRUE(error_of("[budget]\ncandidates = = 1\n").starts_with("/run.toml:2:"))
      << error_of("[budget]\ncandidates = = 1\n");
}

TEST(Settings, Overrides) {
  Settings settings;
  ASSERT_TRUE(apply_override(settings, "budget.candidates=12"));
  EXPECT_EQ(settings.candidates, 12);
  EXPECT_EQ(apply_override(settings, "budget.candidates").error().code, ErrorCode::kUsage);
  ASSERT_TRUE(apply_override(settings, "evolve.islands=4"));
  EXPECT_EQ(settings.evolve.islands, 4);
  EXPECT_EQ(apply_override(settings, "evolve.isles=4").error().code, ErrorCode::kUsage);
  EXPECT_EQ(apply_override(settings, "seed=1.5").error().text(),
            "--set: seed: \"1.5\" is no whole number");
}

}  // namespace
}  // namespace sculler::cli

#include "cli/calibrate.h"

namespace sculler::cli {
namespace {

TEST(Calibrate, RatesReplaceOnlyTheMeasured) {
  const auto rates =
      parse_rates("# a note 3\nhbm_gbs 4000\nlink_gbs nan\ncopy_gbs -3\ncopy_gbs 371.5\n");
  EXPECT_EQ(rates,
            (std::vector<std::pair<std::string, double>>{{"hbm_gbs", 4000}, {"copy_gbs", 371.5}}));
  const std::string profile =
      "[nominal]\nhbm_gbs = 4800\n[measured]\nhbm_gbs = 1\ncopy_gbs = 2  # to a peer\n";
  EXPECT_EQ(
      *with_rates(profile, rates, "p"),
      "[nominal]\nhbm_gbs = 4800\n[measured]\nhbm_gbs = 4000\ncopy_gbs = 371.5  # to a peer\n");
  EXPECT_EQ(with_rates(profile, {{"none_gbs", 1}}, "p").error().code, ErrorCode::kBadInput);
}

// Every key that the measuring program prints is in the profile that it is for.
TEST(Calibrate, ShippedProfileTakesAllRates) {
  const auto profile = real_files().read(SCULLER_SOURCE_DIR "/profiles/h200x2.toml");
  ASSERT_TRUE(profile);
  std::vector<std::pair<std::string, double>> rates;
  for (const char* key :
       {"local_copy_gbs", "hbm_gbs", "gemm_tflops", "copy_gbs", "store_gbs", "load_gbs"})
    rates.emplace_back(key, 1.0);
  EXPECT_TRUE(with_rates(*profile, rates, "h200x2.toml"));
}

}  // namespace
}  // namespace sculler::cli
