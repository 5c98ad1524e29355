#include "eval/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace sculler::eval {
namespace {

TEST(Verdict, HasAdviceForEveryStatusButSuccess) {
  std::ifstream in(SCULLER_SOURCE_DIR "/docs/statuses.md");
  std::stringstream text;
  text << in.rdbuf();
  int seen = 0;
  for (const char* status :
       {"PASSED", "LINT_ERROR", "COMPILE_ERROR", "LAUNCH_ERROR", "UNSUPPORTED", "INCORRECT", "RACE",
        "DEADLOCK", "HANG", "UNINITIALISED", "OUT_OF_BOUNDS", "TIMEOUT", "OOM", "CRASH",
        "IMPLAUSIBLE", "CHEAT", "AMBIGUOUS", "INTERNAL"}) {
    EXPECT_TRUE(is_status(status)) << status;
    EXPECT_NE(text.str().find(status), std::string::npos) << status;
    EXPECT_EQ(default_advice(status).empty(), std::string_view(status) == "PASSED") << status;
    ++seen;
  }
  EXPECT_EQ(seen, 18);
  EXPECT_FALSE(is_status("FINE"));
}

TEST(Verdict, PrintsOneLineWithWhatIsKnown) {
  Verdict v;
  v.job = std::string(64, 'b');
  v.status = "RACE";
  v.message = "two\nlines and \xff bytes";
  v.latency = Latency{{552.1, 549, 555}, "measured", "default"};
  v.ratio["nccl"] = {1.7, 1.6, 1.8};
  v.percent_sol = 70;
  v.relative_l2 = std::nan("");
  const auto line = print_verdict(v);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto object = nlohmann::json::parse(line);
  EXPECT_EQ(object["latency_us"]["kind"], "measured");
  EXPECT_EQ(object["ratio"]["nccl"]["median"], 1.7);
  EXPECT_EQ(object["advice"], default_advice("RACE"));
  EXPECT_FALSE(object.contains("tflops"));
}

}  // namespace
}  // namespace sculler::eval
