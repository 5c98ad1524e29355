// sculler-gnn with real MPI and libtorch: graph, partition, train, compare; a rank is killed and
// the training resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "base/process.h"
#include "base/strings.h"
#include "support/temp_folder.h"

namespace {

using namespace sculler;
using testing::HasSubstr;

const std::string kProgram = std::string(SCULLER_BINARY_DIR) + "/bin/sculler-gnn";

class GnnTrain : public testing::Test {
 protected:
  void SetUp() override {
    if (find_program("mpirun").empty()) GTEST_SKIP() << "no mpirun here: install openmpi-bin";
    ok({"graph", "--graph", "blocks:900", "--dim", "12", "--signal", "1.2", "--out", path("g")});
  }
  static SpawnOptions spawn(uint32_t ranks, std::vector<std::string> arguments) {
    SpawnOptions out;
    if (ranks > 0) out.argv = {"mpirun", "--oversubscribe", "-n", std::to_string(ranks)};
    out.argv.push_back(kProgram);
    out.argv.insert(out.argv.end(), arguments.begin(), arguments.end());
    out.env = env_subset({"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"});
    out.env.insert(out.env.end(), {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                   {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                   {"ASAN_OPTIONS", "detect_leaks=0"}});
    return out;
  }
  static CommandResult run(uint32_t ranks, std::vector<std::string> arguments) {
    auto ran = run_command(real_processes(), spawn(ranks, std::move(arguments)), "", 100'000);
    EXPECT_TRUE(ran) << ran.error().text();
    return ran ? *ran : CommandResult{};
  }
  static std::string ok(const std::vector<std::string>& arguments, uint32_t ranks = 0) {
    const auto ran = run(ranks, arguments);
    EXPECT_TRUE(ran.status.ok()) << ran.status.text() << "\n" << ran.out << ran.err;
    return ran.out;
  }
  std::string cut(uint32_t parts) {
    const std::string to = path(("p" + std::to_string(parts)).c_str());
    ok({"partition", path("g"), "--parts", std::to_string(parts), "--out", to, "--method",
        "greedy"});
    return to;
  }
  static std::vector<std::string> train(const std::string& parts,
                                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> out{"train", parts,      "--json", "--batch", "50",  "--fanout",
                                 "4,5",   "--hidden", "16",     "--lr",    "0.02"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  // The losses of each epoch, by number.
  static std::map<int, std::string> losses(const std::string& out) {
    std::map<int, std::string> found;
    for (const auto line : split(out, '\n')) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event.value("event", "") == "epoch")
        found[event.value("epoch", -1)] = event.value("losses", "");
    }
    return found;
  }
  static nlohmann::json event(const std::string& out, const std::string& kind) {
    nlohmann::json found;
    for (const auto line : split(out, '\n')) {
      const auto one = nlohmann::json::parse(line, nullptr, false);
      if (one.is_object() && one.value("event", "") == kind) found = one;
    }
    return found;
  }
  // The pid of one of mpirun's ranks; 0: none.
  static int a_rank(const Child& mpirun) {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const auto pid = parse_int(entry.path().filename().string());
      if (pid && parent_of(static_cast<int>(*pid)) == mpirun.pid())
        found = std::max(found, static_cast<int>(*pid));
    }
    return found;
  }
  // Ranks that stand still behind the second epoch's checkpoint.
  std::unique_ptr<Child> held(const std::string& parts) {
    auto options = spawn(3, train(parts, {"--epochs", "4", "--checkpoint", path("c")}));
    options.env.emplace_back("SCULLER_HOLD", "checkpoint:2:" + path("held"));
    options.out = Stdio::file(path("out"));
    options.err = Stdio::file(path("err"));
    auto child = real_processes().spawn(options);
    EXPECT_TRUE(child) << child.error().text();
    for (int i = 0; i < 600 && !real_files().exists(path("held")); ++i)
      real_clock().sleep_ns(100'000'000);
    EXPECT_TRUE(real_files().exists(path("held")));
    return std::move(*child);
  }
  std::string path(const char* name) { return folder_.path(name); }

  test::TempFolder folder_{"gnn_e2e"};
};

TEST_F(GnnTrain, LossesAreTheSameBitsAndTheNetworkLearns) {
  for (const uint32_t ranks : {1U, 2U, 4U}) {
    const std::string parts = cut(ranks);
    const auto plain = ok(train(parts, {"--epochs", "3", "--policy", "none"}), ranks);
    ASSERT_EQ(losses(plain).size(), 3U);
    const double loss = event(plain, "epoch").value("loss", 9.0);
    EXPECT_LT(loss, 2.0);
    EXPECT_GT(event(plain, "test").value("accuracy", 0.0), 0.5);
    const auto free = ok(train(parts, {"--epochs", "3", "--policy", "free"}), ranks);
    EXPECT_EQ(losses(free), losses(plain)) << ranks;
    if (ranks == 1) continue;
    EXPECT_GT(event(free, "epoch").value("hits", 0), 0);
    EXPECT_LT(event(free, "epoch").value("fetched", 0), event(plain, "epoch").value("fetched", 0));
  }
  const std::string parts = path("p2");
  const auto gat = ok(train(parts, {"--epochs", "2", "--model", "gat"}), 2);
  const auto known = ok(train(parts, {"--epochs", "2", "--model", "gat", "--policy", "known"}), 2);
  EXPECT_EQ(losses(gat), losses(known));
  EXPECT_LT(event(gat, "epoch").value("loss", 9.0), 2.77);  // ln 16 is a guess
}

TEST_F(GnnTrain, AKilledRankEndsAllAndTheCheckpointResumesToTheSameLosses) {
  const std::string parts = cut(3);
  const auto whole = losses(ok(train(parts, {"--epochs", "4"}), 3));
  ASSERT_EQ(whole.size(), 4U);
  const auto child = held(parts);
  const int victim = a_rank(*child);
  ASSERT_GT(victim, 0);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  const auto status = child->wait(60'000);
  ASSERT_TRUE(status) << "the other ranks went on";
  EXPECT_FALSE(status->ok());
  const std::string said = real_files().read(path("err")).value();
  EXPECT_THAT(said, HasSubstr("signal 9"));
  const auto first = losses(real_files().read(path("out")).value());
  EXPECT_EQ(first.size(), 2U);
  auto both = losses(ok(train(parts, {"--epochs", "4", "--checkpoint", path("c"), "--resume"}), 3));
  EXPECT_EQ(both.size(), 2U);
  both.insert(first.begin(), first.end());
  EXPECT_EQ(both, whole);
}

TEST_F(GnnTrain, ASilentRankIsWaitedForNoLongerThanAsked) {
  const auto arguments =
      train(cut(3), {"--epochs", "4", "--checkpoint", path("c"), "--timeout", "3"});
  auto options = spawn(2, arguments);
  // The third rank alone stands still behind the second epoch's checkpoint, for 20 s.
  const std::vector<std::string> third{
      ":", "-n", "1", "-x", "SCULLER_HOLD=checkpoint:2:" + path("held"), kProgram};
  options.argv.insert(options.argv.end(), third.begin(), third.end());
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  const auto ran = run_command(real_processes(), options, "", 100'000);
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(ran->status.code, static_cast<int>(ErrorCode::kTimeout)) << ran->err;
  EXPECT_THAT(ran->out, HasSubstr("has waited 3 s"));
  EXPECT_EQ(losses(ran->out).size(), 2U);
}

TEST_F(GnnTrain, WhatIsWrongEndsAllRanksAndIsNamed) {
  const std::string parts = cut(2);
  const auto more = run(3, train(parts));
  EXPECT_FALSE(more.status.ok());
  EXPECT_THAT(more.out, HasSubstr("mpirun -n 2"));
  const std::string file = parts + "/part1/node_feats/labels.npy";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 2);
  const auto broken = run(2, train(parts));
  EXPECT_EQ(broken.status.code, static_cast<int>(ErrorCode::kBadInput));
  EXPECT_THAT(broken.out, HasSubstr(file));
}

TEST_F(GnnTrain, ComparesPoliciesAndGoesOn) {
  const std::string parts = cut(2);
  const std::vector<std::string> arguments{"compare",
                                           parts,
                                           "--out",
                                           path("c"),
                                           "--policies",
                                           "none,free,rudder:1",
                                           "--buffer",
                                           "20%",
                                           "--seeds",
                                           "1",
                                           "--epochs",
                                           "1",
                                           "--train=--batch 50 --fanout 4,5 --no-test"};
  const std::string table = ok(arguments);
  EXPECT_THAT(table, HasSubstr("the same bits for every policy"));
  EXPECT_THAT(table, HasSubstr("rudder:1"));
  EXPECT_THAT(real_files().read(path("c/compare.svg")).value(), HasSubstr("free"));
  const auto rows = real_files().read(path("c/compare.jsonl")).value();
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 3);
  EXPECT_EQ(ok(arguments), table);  // nothing is trained again
  EXPECT_EQ(real_files().read(path("c/compare.jsonl")).value(), rows);
}

}  // namespace
