// sculler-gnn's commands, without a process: a trace is made and policies run on it.
#include "gnn/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/temp_folder.h"

namespace {

using namespace sculler;

class Gnn : public testing::Test {
 protected:
  struct Ran {
    int code;
    std::string out, err;
  };
  Ran run(const std::vector<std::string>& arguments) {
    char *out = nullptr, *err = nullptr;
    size_t out_size = 0, err_size = 0;
    gnn::App app;
    app.out = open_memstream(&out, &out_size);
    app.err = open_memstream(&err, &err_size);
    Ran ran{gnn::run_app(app, arguments), {}, {}};
    std::fclose(app.out);
    std::fclose(app.err);
    ran.out = out;
    ran.err = err;
    std::free(out);
    std::free(err);
    return ran;
  }
  std::string path(const char* name) { return folder_.path(name); }
  void make_trace(const std::string& to) {
    const auto made = run({"trace", "--graph", "rmat:11", "--out", to, "--batch", "40", "--epochs",
                           "6", "--fanout", "5,10"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_THAT(made.out, testing::HasSubstr("2048 nodes"));
  }

  test::TempFolder folder_{"gnn_app"};
};

TEST_F(Gnn, ReplaysEveryPolicyOnATraceAndOrdersThemAsTheFactsSay) {
  make_trace(path("t"));
  const auto ran = run({"replay", path("t"), "--buffer", "5%,25%", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto report = nlohmann::json::parse(ran.out);
  ASSERT_EQ(report["buffers"].size(), 2U);
  for (const auto& buffer : report["buffers"]) {
    std::map<std::string, uint64_t> fetched;
    for (const auto& row : buffer["policies"]) {
      fetched[row.value("policy", "")] = row.value("fetched", uint64_t{0});
      EXPECT_EQ(row.value("fetched", uint64_t{0}) - row.value("extra", uint64_t{0}) +
                    row.value("hits", uint64_t{0}),
                report.value("ids", uint64_t{0}));
    }
    EXPECT_EQ(fetched.size(), 15U);
    const uint64_t none = fetched["none"];
    EXPECT_EQ(none, report.value("ids", uint64_t{0}));
    for (const auto& [policy, rows] : fetched) {
      EXPECT_GE(rows, fetched["belady"]) << policy;
      // Replacing at every minibatch costs rows; nothing else fetches more than no buffer does.
      if (policy != "rudder:1" && policy != "rudder:2") { EXPECT_LE(rows, none) << policy; }
    }
    EXPECT_LT(fetched["free"], fetched["lru"]);
    EXPECT_LT(fetched["free"], fetched["rudder:1"]);
    EXPECT_LE(fetched["known"], fetched["free"]);
  }
}

TEST_F(Gnn, DecisionsTurnThePolicies) {
  make_trace(path("t"));
  const auto first = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"replay", path("t"), "--json", "--buffer", "25%"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.out;
    return nlohmann::json::parse(ran.out)["buffers"][0]["policies"][0];
  };
  const auto waits = first({"--policies", "rudder"});
  EXPECT_EQ(waits.value("hits", uint64_t{1}), 0U) << "no decision, no row";
  const auto told = first({"--policies", "rudder", "--decide", "fixed:8"});
  EXPECT_GT(told.value("hits", uint64_t{0}), 0U);
  EXPECT_GE(told["decisions"].value("applied", uint64_t{0}), 2U);
  const auto chance = first({"--policies", "free", "--decide", "random:1", "--every", "10"});
  EXPECT_GT(chance["decisions"].value("predictions", uint64_t{0}), 1U);
  EXPECT_EQ(run({"replay", path("t"), "--decide", "oracle"}).code, 2);
}

TEST_F(Gnn, PrintsATable) {
  make_trace(path("t"));
  const auto ran = run({"replay", path("t"), "--policies", "none,free", "--buffer", "100"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, testing::HasSubstr("buffer 100 = 100 rows"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("none +0.0%"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("free +[0-9.]+%"));
}

TEST_F(Gnn, TracesAreTheSameBytesEveryTime) {
  make_trace(path("a"));
  make_trace(path("b"));
  const auto bytes = [](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  EXPECT_EQ(bytes(path("a")), bytes(path("b")));
}

TEST_F(Gnn, SaysWhatIsWrong) {
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"replay"}).code, 2);
  EXPECT_EQ(run({"replay", path("missing")}).code, static_cast<int>(ErrorCode::kNotFound));
  std::ofstream(path("junk")) << "not a trace at all, but long enough to have been one, almost";
  EXPECT_EQ(run({"replay", path("junk")}).code, 3);
  make_trace(path("t"));
  EXPECT_THAT(run({"replay", path("t"), "--policies", "fifo"}).err, testing::HasSubstr("s3fifo"));
  EXPECT_EQ(run({"replay", path("t"), "--buffer", "-5%"}).code, 2);
  EXPECT_EQ(run({"replay", path("t"), "--buffer", "101%"}).code, 2);
  EXPECT_EQ(run({"trace", "--graph", "rmat:0", "--out", path("x")}).code, 2);
  EXPECT_EQ(run({"trace", "--graph", "rmat:4", "--rank", "9", "--out", path("x")}).code, 2);
  EXPECT_EQ(run({"trace", "--graph", "rmat:4", "--out", "/nowhere/x"}).code,
            static_cast<int>(ErrorCode::kIo));
  // A trace whose recording was not closed.
  std::filesystem::resize_file(path("t"), std::filesystem::file_size(path("t")) - 1);
  const auto cut = run({"replay", path("t")});
  EXPECT_EQ(cut.code, 3);
  EXPECT_THAT(cut.err, testing::HasSubstr("cut"));
}

}  // namespace
