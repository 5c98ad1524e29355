// sculler optimize --strategy beam with a scripted model: the real programs from the command line
// to the measurement.
#include "base/strings.h"
#include "e2e/evaluate.h"
#include "support/temp_folder.h"

namespace sculler::e2e {
namespace {

// The first program is wrong and repaired; the others do what the seed does.
constexpr const char* kRules = R"([[rule]]
role = "planner"
text = '{"bottleneck":"the exponential","evidence":["status: PASSED at stage bench"],"plan":"Step {index}.","uses":[]}'

[[rule]]
role = "executor"
to = 0
text = '''A wrong constant.
<<<<<<< SEARCH
  return p * scale;
=======
  return p * scale * splat(1.5f);
>>>>>>> REPLACE
'''

[[rule]]
role = "executor"
text = '''Another name for the same.
<<<<<<< SEARCH
  return p * scale;
=======
  const Floats power_{index} = p;
  p = power_{index};
  return p * scale;
>>>>>>> REPLACE
'''

[[rule]]
role = "fixer"
text = '''The constant was wrong.
<<<<<<< SEARCH
  return p * scale * splat(1.5f);
=======
  // repaired
  return p * scale;
>>>>>>> REPLACE
'''

[[rule]]
text = '{"title":"A name","description":"Names cost nothing.","original":"return p * scale;","optimized":"return p * scale;"}'
)";

class BeamRun : public testing::Test {
 protected:
  int run(const std::vector<std::string>& arguments) {
    auto result = run_command(real_processes(), sculler_command(arguments), {}, 240'000);
    EXPECT_TRUE(result) << (result ? "" : result.error().text());
    if (!result) return -1;
    out_ = result->out;
    err_ = result->err;
    return result->status.code;
  }
  [[nodiscard]] bool said(const std::string& text) const {
    return out_.find(text) != std::string::npos;
  }

  test::TempFolder folder_{"e2e_beam"};
  std::string out_, err_;
};

TEST_F(BeamRun, MeasuresRepairsTimesAgainAndRemembers) {
  std::ofstream(folder_.path("rules.toml")) << kRules;
  ASSERT_EQ(run({"optimize",     source_path("tasks/kernels/silu"),
                 "--target",     "cpu",
                 "--size",       "cpu-small",
                 "--strategy",   "beam",
                 "--candidates", "5",
                 "--runs",       folder_.path("runs"),
                 "--cache",      std::string(SCULLER_BINARY_DIR) + "/e2e-cache",
                 "--set",        "llm.model=script:" + folder_.path("rules.toml"),
                 "--set",        "beam.plans=2",
                 "--set",        "beam.kernels=1",
                 "--set",        "beam.width=1",
                 "--set",        "eval.confirm=1",
                 "--set",        "beam.t_pos=1",
                 "--set",        "budget.stop_at_percent_sol=0",
                 "--set",        "beam.memory=" + folder_.path("memory.sqlite")}),
            0)
      << out_ << err_;
  EXPECT_TRUE(said("INCORRECT")) << out_;  // kernel 0
  EXPECT_TRUE(said("kernel-0-fix-1")) << out_;
  EXPECT_TRUE(said("round 2: ")) << out_;
  EXPECT_TRUE(said(" again ")) << out_;  // timed again before the second round
  EXPECT_TRUE(said("5 of 5 evaluated, 4 passed")) << out_;
  EXPECT_TRUE(said("confirmed on fresh seeds")) << out_;
  std::string run_folder;
  for (const auto& entry : fs::directory_iterator(folder_.path("runs")))
    run_folder = entry.path().string();
  ASSERT_EQ(run({"report", run_folder}), 0) << err_;
  EXPECT_TRUE(said("beam: 2 rounds, 3 plans, of which 3 could be used, 4 programs")) << out_;
  ASSERT_EQ(run({"resume", run_folder}), 0) << out_ << err_;
  EXPECT_TRUE(said("verdicts were there already")) << out_;
  EXPECT_TRUE(said("5 of 5 evaluated, 4 passed")) << out_;
}

}  // namespace
}  // namespace sculler::e2e
