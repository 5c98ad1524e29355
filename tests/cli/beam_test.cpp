// optimize --strategy beam and --preset accelopt, resume and report with a scripted model and a
// stubbed evaluator.
#include "cli/beam.h"

#include <gtest/gtest.h>

#include "cli/scripted.h"

namespace sculler::cli {
namespace {

constexpr const char* kRules = R"([[rule]]
role = "planner"
text = '{"bottleneck":"the exponential","evidence":["status: PASSED at stage emulate"],"plan":"Step {index}.","uses":[]}'

[[rule]]
role = "executor"
text = '''Another step.
<<<<<<< SEARCH
  return p * scale;
=======
  // {index}
  return p * scale;
>>>>>>> REPLACE
'''

[[rule]]
text = '{"title":"A comment","description":"It does nothing.","original":"return p * scale;","optimized":"return p * scale;"}'
)";

class BeamCliTest : public ScriptedCliTest {
 protected:
  BeamCliTest() : ScriptedCliTest(kRules, {"optimize", "silu", "--target", "cpu"}) {}
};

TEST_F(BeamCliTest, SearchesReportsAndResumes) {
  const std::string model = "llm.model=script:" + folder_ + "/rules.toml";
  ASSERT_EQ(run(optimize({"--strategy", "beam", "--candidates", "7", "--set", model, "--set",
                          "beam.plans=2", "--set", "beam.kernels=2", "--set", "beam.width=2",
                          "--set", "beam.memory=" + folder_ + "/memory.sqlite"})),
            0)
      << err_ << out_;
  EXPECT_TRUE(said("round 1: ")) << out_;
  EXPECT_TRUE(said("round 2: ")) << out_;
  EXPECT_TRUE(said("r1 p1 script")) << out_;
  EXPECT_TRUE(said("7 of 7 evaluated")) << out_;
  EXPECT_TRUE(real_files().exists(folder_ + "/memory.sqlite"));
  const std::string run_folder = folder_ + "/runs/2026-11-18-silu-1";
  ASSERT_EQ(run({"report", run_folder}), 0) << err_;
  EXPECT_TRUE(said("beam: 2 rounds, 3 plans, of which 3 could be used, 6 programs")) << out_;
  ASSERT_EQ(run({"report", run_folder, "--prompts", "--role", "planner", "--question", "000001"}),
            0);
  EXPECT_TRUE(said("##### 000001-planner")) << out_;
  EXPECT_TRUE(said("Exactly one step")) << out_;
  EXPECT_TRUE(said("Step 1.")) << out_;

  ASSERT_EQ(run({"resume", run_folder, "--set", "budget.candidates=9"}), 0) << err_;
  EXPECT_TRUE(said("9 of 9 evaluated")) << out_;
  EXPECT_TRUE(said("verdicts were there already")) << out_;
}

TEST_F(BeamCliTest, ThePresetRunsTheTunerWhereNoModelIsConfigured) {
  ASSERT_EQ(run(optimize({"--preset", "accelopt", "--candidates", "3"})), 0) << err_ << out_;
  EXPECT_TRUE(said("note: no model is configured, so the tuner searches")) << out_;
  EXPECT_TRUE(said("3 of 3 evaluated")) << out_;
  EXPECT_EQ(run(optimize({"--strategy", "beam"})), 2);
  EXPECT_NE(err_.find("strategy beam asks a language model"), std::string::npos) << err_;
}

TEST_F(BeamCliTest, ThePresetIsThePapers) {
  Settings settings;
  ASSERT_TRUE(apply_preset(settings, "accelopt"));
  EXPECT_EQ(settings.llm.max_usd, 10);
  EXPECT_EQ(settings.strategy, "beam");
  EXPECT_EQ(settings.candidates, 0);
  const auto beam = beam_settings(settings);
  ASSERT_TRUE(beam);
  EXPECT_EQ(beam->width, 6);
  EXPECT_EQ(beam->plans, 12);
  EXPECT_EQ(beam->kernels, 2);
  EXPECT_EQ(beam->rounds, 16);
  EXPECT_EQ(beam->t_pos, 1.04);
  EXPECT_EQ(beam->t_neg, 1.15);
  EXPECT_EQ(beam->topk, 8);
  EXPECT_EQ(beam->expn, 16);
  EXPECT_FALSE(beam->faithful);
  EXPECT_TRUE(beam->memory);
  expect_reads_back(settings);
}

TEST_F(BeamCliTest, TheMemoryIsOnOffOrAFile) {
  Settings settings;
  ASSERT_TRUE(apply_override(settings, "beam.memory=off"));
  EXPECT_FALSE(beam_settings(settings)->memory);
  ASSERT_TRUE(apply_override(settings, "beam.memory=/m/memory.sqlite"));
  EXPECT_TRUE(beam_settings(settings)->memory);
  EXPECT_EQ(beam_settings(settings)->shared, "/m/memory.sqlite");
  ASSERT_TRUE(apply_override(settings, "beam.memory="));
  const auto none = beam_settings(settings);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text().find("beam.memory: is empty"), std::string::npos);
  ASSERT_TRUE(apply_override(settings, "beam.memory=on"));
  ASSERT_TRUE(apply_override(settings, "beam.faithful=yes"));
  EXPECT_TRUE(beam_settings(settings)->faithful);
  EXPECT_FALSE(apply_override(settings, "beam.faithful=maybe"));
}

}  // namespace
}  // namespace sculler::cli
