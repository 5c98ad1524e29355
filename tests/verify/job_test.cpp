#include "verify/job.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "verify/fake_ranks.h"

namespace sculler::verify {
namespace {

// The example of docs/internals.md.
constexpr const char* kExample =
    R"({"version":1,"job":"x","target":"emu","mode":"check","task":"gemm_allgather","n_ranks":2,
"problem":{"dims":[512,256,512],"names":["S","K","N"]},
"buffers":[{"name":"A","role":"input","dtype":"bf16","elements":65536,"bytes":131072,"content":"per_rank","family":"normal"},
{"name":"B","role":"input","dtype":"bf16","elements":131072,"bytes":262144,"content":"replicated","family":"normal"},
{"name":"C","role":"output","dtype":"bf16","elements":262144,"bytes":524288,"row_elements":512,"content":"replicated"}],
"n_sets":8,"seed":1234,"iterations":[{"set":3,"warm_up":true},{"set":5}],"tolerance":{"relative_l2":4.1e-3,"max_abs":0.25},
"reference":"reference.so","expected":"verify_backend.so","expected_cache":"DIR",
"deadlines_ms":{"start":20000,"setup":20000,"iteration":20000},
"emu":{"schedule":{"kind":"random","seed":7}},"cuda":{"libraries":["a"],"devices":[0,1],"flush_l2":true}})";

std::string with(std::string_view from, std::string_view to) {
  std::string text = kExample;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Job, ExampleParsesAndPrints) {
  auto job = parse_job(kExample);
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->target, Target::kEmu);
  EXPECT_TRUE(job->workload);
  EXPECT_EQ(job->problem.n_dims, 3u);
  EXPECT_EQ(job->buffers[2].row_elements, 512u);
  EXPECT_EQ(job->buffers[0].row_elements, 65536u);
  EXPECT_TRUE(job->buffers[1].replicated);
  EXPECT_TRUE(job->iterations[0].warm_up);
  EXPECT_EQ(job->iterations[1].content, -1);
  EXPECT_TRUE(job->flush_l2);
  EXPECT_NE(job->emu_json.find("\"random\""), std::string::npos);
  auto again = parse_job(print_job(*job));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(print_job(*again), print_job(*job));
}

TEST(Job, MistakesNameTheirKey) {
  const auto key_of = [](const std::string& text) {
    auto job = parse_job(text);
    return job ? std::string("accepted") : job.error().key;
  };
  EXPECT_EQ(key_of(with("\"emu\",\"mode\"", "\"vax\",\"mode\"")), "target");
  EXPECT_EQ(key_of(with("\"n_ranks\":2", "\"n_ranks\":2000")), "n_ranks");
  EXPECT_EQ(key_of(with("\"bytes\":131072", "\"bytes\":131073")), "buffers[0].bytes");
  EXPECT_EQ(key_of(with("\"row_elements\":512", "\"row_elements\":500")),
            "buffers[2].row_elements");
  EXPECT_EQ(key_of(with("\"dtype\":\"bf16\"", "\"dtype\":\"bf17\"")), "buffers[0].dtype");
  EXPECT_EQ(key_of(with("{\"set\":5}", "{\"set\":8}")), "iterations[1].set");
  EXPECT_EQ(key_of(with("[{\"set\":3,\"warm_up\":true},{\"set\":5}]", "[]")), "iterations");
  EXPECT_EQ(key_of(with("\"max_abs\":0.25", "\"max_abs\":-1")), "tolerance.max_abs");
  EXPECT_EQ(key_of(with("\"relative_l2\":4.1e-3", "\"relative_l2\":1.5")), "tolerance.relative_l2");
  EXPECT_EQ(key_of(with("\"role\":\"output\"", "\"role\":\"input\"")), "buffers");
}

TEST(Outcome, UsableLatenciesLeaveDisagreementOut) {
  std::vector<IterationResult> its(9);
  for (std::size_t i = 0; i < 9; ++i) {
    its[i].latency_ns = 100 + i;
    its[i].clocks_agree = i % 2 == 0;
  }
  its[0].warm_up = true;
  EXPECT_EQ(usable_latencies(its), (std::vector<double>{102, 104, 106, 108}));
  for (std::size_t i = 3; i < 9; ++i) its[i].clocks_agree = false;
  EXPECT_EQ(usable_latencies(its).size(), 8u);
}

TEST(Outcome, RoundTripsWithInfinity) {
  Outcome out;
  out.status = status::kIncorrect;
  out.message = "a \"quoted\"\nline";
  out.rank = 1;
  out.errors.relative_l2 = std::numeric_limits<double>::infinity();
  out.errors.max_abs = std::nan("");
  out.errors.first_bad = 17;
  out.iterations.push_back(
      {3, 5, true, 552'000, 801'000, 600'000, false, 0, {{0, 552'000, 550'000}}});
  out.findings.push_back({"race", "text", "ring.cu", "ring.cu", 84, 61, 1});
  out.counters_json = R"({"barriers":3})";
  const std::string line = print_outcome(out);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  auto back = parse_outcome(line);
  ASSERT_TRUE(back);
  EXPECT_EQ(print_outcome(*back), line);
  EXPECT_TRUE(std::isinf(back->errors.relative_l2));
  EXPECT_TRUE(std::isnan(back->errors.max_abs));
  EXPECT_EQ(back->iterations[0].ranks[0].event_ns, 550'000u);
  EXPECT_FALSE(parse_outcome("[]"));
  EXPECT_FALSE(parse_outcome("{}"));
}

}  // namespace
}  // namespace sculler::verify
