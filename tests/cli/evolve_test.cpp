// optimize --strategy evolve, lower --model, resume and report with a scripted model and a stubbed
// evaluator.
#include "cli/evolve.h"

#include <gtest/gtest.h>

#include "cli/scripted.h"

namespace sculler::cli {
namespace {

constexpr const char* kRules = R"([[rule]]
role = "directive"
text = '{"backend":"lsa","issuer":"warp","placement":"split_phase","sync":"peer","granularity":0,"why":"scripted"}'

[[rule]]
role = "mutator"
text = '''A program of its own.
```cuda candidate.cu
// EVOLVE-BLOCK-START
int program_{index};
extern "C" int sculler_setup();
extern "C" int sculler_run();
extern "C" int sculler_teardown();
// EVOLVE-BLOCK-END
```
'''

[[rule]]
text = "What holds: little."
)";

class EvolveCliTest : public ScriptedCliTest {
 protected:
  EvolveCliTest()
      : ScriptedCliTest(kRules, {"optimize", "gemm_allgather", "--strategy", "evolve"}) {}
};

TEST_F(EvolveCliTest, WithoutAModelItSaysWhatToWrite) {
  EXPECT_EQ(run(optimize({})), 2);
  EXPECT_NE(err_.find("strategy evolve asks a language model, and none is configured (write "
                      "[[model]] with name = "),
            std::string::npos)
      << err_;
  EXPECT_FALSE(real_files().exists(folder_ + "/runs"));
  EXPECT_EQ(run(optimize({"--set", "llm.model=files:x", "--set", "evolve.backends=lsb"})), 3);
  EXPECT_NE(err_.find("evolve.backends: \"lsb\" is no backend (did you mean lsa?)"),
            std::string::npos)
      << err_;
  EXPECT_EQ(run(optimize({"--preset", "cucu"})), 2);
}

TEST_F(EvolveCliTest, SearchesReportsAndResumes) {
  const std::string model = "llm.model=script:" + folder_ + "/rules.toml";
  ASSERT_EQ(run(optimize({"--candidates", "14", "--set", model, "--set", "evolve.scope=file",
                          "--set", "evolve.calls=2", "--set", "evolve.novelty=2", "--set",
                          "evolve.migrate_every=4"})),
            0)
      << err_ << out_;
  EXPECT_TRUE(said("proposed by")) << out_;
  EXPECT_TRUE(said("lsa warp split_phase peer"));
  EXPECT_TRUE(said("g1 i0 script")) << out_;
  EXPECT_TRUE(said("14 of 14 evaluated"));
  const std::string run_folder = folder_ + "/runs/2026-11-18-gemm_allgather-1";
  EXPECT_NE(real_files().read(run_folder + "/run.toml")->find("scope = \"file\""),
            std::string::npos);

  ASSERT_EQ(run({"report", run_folder}), 0) << err_;
  EXPECT_TRUE(said("proposals: ")) << out_;
  EXPECT_TRUE(said("model script")) << out_;
  ASSERT_EQ(run({"report", run_folder, "--prompts", "--role", "mutator", "--question", "000001"}),
            0);
  EXPECT_TRUE(said("##### 000001-mutator")) << out_;
  EXPECT_TRUE(said("gemm_allgather: names for dimensions and buffers"));  // the task's header
  EXPECT_TRUE(said("ncclLsaBarrierSession"));
  EXPECT_TRUE(said("int program_1;"));
  EXPECT_FALSE(said("##### 000002"));

  ASSERT_EQ(run({"resume", run_folder, "--set", "budget.candidates=17"}), 0) << err_;
  EXPECT_TRUE(said("17 of 17 evaluated")) << out_;
  EXPECT_TRUE(said("verdicts were there already"));
}

TEST_F(EvolveCliTest, ARunFileWinsOverThePresetAndTheCommandLineOverBoth) {
  ASSERT_TRUE(real_files().write_atomic(folder_ + "/run.toml",
                                        "version = 1\n[llm]\nmodel = \"script:" + folder_ +
                                            "/rules.toml\"\nmax_usd = 3\n[evolve]\nislands = 3\n"
                                            "scope = \"file\"\ngenerations = 9\n"));
  ASSERT_EQ(
      run({"optimize", "gemm_allgather", "--preset", "cuco", "--run-file", folder_ + "/run.toml",
           "--runs", folder_ + "/runs", "--candidates", "8", "--set", "evolve.generations=2"}),
      0)
      << err_ << out_;
  Settings settings;
  auto read =
      read_settings(real_files(), folder_ + "/runs/2026-11-18-gemm_allgather-1/run.toml", settings);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings.strategy, "evolve");
  EXPECT_EQ(settings.evolve.fix, 0) << "of the preset";
  EXPECT_EQ(settings.evolve.islands, 3);
  EXPECT_EQ(settings.llm.max_usd, 3);
  EXPECT_EQ(settings.evolve.generations, 2);
}

TEST_F(EvolveCliTest, ThePresetIsThePapers) {
  Settings settings;
  ASSERT_TRUE(apply_preset(settings, "cuco"));
  EXPECT_EQ(settings.strategy, "evolve");
  const auto evolve = evolve_settings(settings);
  ASSERT_TRUE(evolve);
  EXPECT_EQ(evolve->islands, 2);
  EXPECT_EQ(evolve->archive, 60);
  EXPECT_EQ(evolve->migrate_every, 8);
  EXPECT_EQ(evolve->migrate_share, 0.15);
  EXPECT_EQ(evolve->lambda, 8);
  EXPECT_EQ(evolve->fix, 0);
  EXPECT_EQ(evolve->explore, 0.4);
  EXPECT_EQ(evolve->explore_mix.full, 0.7);
  EXPECT_EQ(evolve->exploit_mix.diff, 0.25);
  EXPECT_EQ(evolve->exploit_temperatures, (std::vector<double>{0, 0.2, 0.5}));
  EXPECT_EQ(evolve->novelty, 0.995);
  EXPECT_EQ(evolve->recommendations, 5);
  EXPECT_EQ(settings.llm.max_usd, 10);
  expect_reads_back(settings);
}

// A program that the built-in lowering refuses, and what a model makes of it.
std::string lowered_program(const std::string& run) {
  return "#define REDUCE(x) ncclAllReduce(x)\nextern \"C\" int sculler_setup() { return "
         "ncclDevCommCreate(); }\nextern \"C\" int sculler_run() {\n  " +
         run +
         "\n  return 0;\n}\n"
         "extern \"C\" int sculler_teardown() { return 0; }\n";
}

TEST_F(EvolveCliTest, ALoweringByAModelIsARunThatGoesOn) {
  const std::string host = folder_ + "/host.cu", rules = folder_ + "/rules.toml";
  ASSERT_TRUE(real_files().write_atomic(host, lowered_program("REDUCE(x);")));
  ASSERT_TRUE(real_files().write_atomic(rules, "[[rule]]\ntext = 'I cannot do that.'\n"));
  const std::vector<std::string> lower = {"lower",  host,
                                          "--task", "all_reduce",
                                          "--runs", folder_ + "/runs",
                                          "--set",  "llm.model=script:" + rules,
                                          "--set",  "lower.iterations_a=2"};
  EXPECT_EQ(run({"lower", host, "--model", "script:" + rules}), 2);
  EXPECT_NE(err_.find("no task says how"), std::string::npos) << err_;
  EXPECT_EQ(run({"lower", host}), 14);
  EXPECT_EQ(run(optimize({"--set", "strategy=lower"})), 2);
  EXPECT_EQ(run(lower), 17);
  EXPECT_NE(err_.find("stage A did not pass in 2 iterations; the last: the answer could not be"),
            std::string::npos)
      << err_;
  EXPECT_TRUE(said("A 1  the answer could not be used")) << out_;
  const std::string folder = folder_ + "/runs/" + real_files().list(folder_ + "/runs")->front();
  EXPECT_TRUE(real_files().exists(folder + "/report.md"));
  EXPECT_EQ(run({"report", folder, "--prompts", "--role", "transformer"}), 0);
  EXPECT_TRUE(said("##### answer of 000001-transformer\nI cannot do that.")) << out_;
  // Another model: one program does for both stages.
  ASSERT_TRUE(real_files().write_atomic(
      rules, "[[rule]]\nrole = 'transformer'\ntext = '''\n```cuda candidate.cu\n" +
                 lowered_program("kernel<<<1, 1>>>();").substr(35) +
                 "```\n'''\n[[rule]]\ntext = "
                 "'{\"blocks\":[{\"first\":4,\"last\":4,\"reason\":\"launch\"}]}'\n"));
  EXPECT_EQ(run({"resume", folder, "--set", "lower.iterations_a=3", "--json"}), 0) << err_;
  const auto report = *parse_json(out_, "report");
  EXPECT_EQ(report.value("stage", ""), "B");
  EXPECT_EQ(report.value("marked_by", ""), "annotator");
  EXPECT_EQ(report["steps"].size(), 4u);
  EXPECT_EQ(*real_files().read(folder + "/lowered.cu"), report.value("text", ""));
  EXPECT_EQ(run({"report", folder}), 0);
  EXPECT_TRUE(said("lowering; models were asked because host.cu:1")) << out_;
  EXPECT_TRUE(said("marks 1  PASSED")) << out_;
}

}  // namespace
}  // namespace sculler::cli
