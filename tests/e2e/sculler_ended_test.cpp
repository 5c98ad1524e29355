// The real sculler, ended from outside while a candidate spins: nothing that it started stays.
#include <unistd.h>

#include <csignal>
#include <set>

#include "base/strings.h"
#include "e2e/evaluate.h"
#include "support/temp_folder.h"

namespace sculler::e2e {
namespace {

struct Row {
  int pid = 0, parent = 0;
  char state = '?';
};

std::vector<Row> table() {
  std::vector<Row> rows;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string text = read_text(entry.path() / "stat");
    const auto close = text.rfind(") ");
    if (close == std::string::npos) continue;
    Row row;
    row.pid = std::atoi(entry.path().filename().c_str());
    row.state = text[close + 2];
    row.parent = std::atoi(text.c_str() + close + 4);
    if (row.pid > 0 && row.state != 'Z') rows.push_back(row);
  }
  return rows;
}

std::set<int> below(int root) {
  std::set<int> found;
  const auto rows = table();
  for (bool grown = true; grown;) {
    grown = false;
    for (const Row& row : rows) {
      if (row.parent == root || found.contains(row.parent))
        grown = found.insert(row.pid).second || grown;
    }
  }
  return found;
}

int still_alive(const std::set<int>& pids) {
  int n = 0;
  for (const Row& row : table()) n += pids.contains(row.pid) ? 1 : 0;
  return n;
}

bool gone_within(const std::set<int>& pids, int ms) {
  for (int i = 0; i < ms / 20; ++i) {
    if (still_alive(pids) == 0) return true;
    ::usleep(20'000);
  }
  return false;
}

// sculler evaluate with a candidate that never ends, seen to run.
class ScullerEnded : public testing::Test {
 protected:
  void SetUp() override {
    std::string text = read_text(source_path("tasks/kernels/silu/seeds/blocked.cpp"));
    const auto run = text.find('{', text.find("int sculler_run("));
    ASSERT_NE(run, std::string::npos);
    text.insert(run + 1, " for (volatile unsigned i = 0;;) { i = i + 1; }\n");
    std::ofstream(folder_ + "/spin.cpp") << text;
    SpawnOptions options;
    options.argv = {std::string(SCULLER_BINARY_DIR) + "/bin/sculler",
                    "evaluate",
                    source_path("tasks/kernels/silu"),
                    folder_ + "/spin.cpp",
                    "--target",
                    "cpu",
                    "--stages",
                    "compile,run",
                    "--cache",
                    folder_ + "/cache"};
    options.env = env_subset({"PATH", "HOME", "TMPDIR"});
    options.out = Stdio::null();
    options.err = Stdio::null();
    auto child = real_processes().spawn(options);
    ASSERT_TRUE(child) << child.error().text();
    child_ = std::move(*child);
    // A rank holds the candidate's shared object, which lies in this test's own cache; the checker
    // holds the reference.
    for (int i = 0; i < 3000 && mapped().size() < 2; ++i) ::usleep(20'000);
    ASSERT_GE(mapped().size(), 2U) << "no candidate ran";
    tree_ = below(child_->pid());
    ASSERT_GE(tree_.size(), 4U);  // guardian, worker, checker, ranks
  }
  void TearDown() override {
    for (const int pid : tree_) ::kill(pid, SIGKILL);
    child_.reset();
  }
  std::set<int> mapped() const {
    std::set<int> found;
    for (const Row& row : table()) {
      const auto maps = read_text("/proc/" + std::to_string(row.pid) + "/maps");
      if (maps.find(folder_ + "/cache/objects") != std::string::npos) found.insert(row.pid);
    }
    return found;
  }
  test::TempFolder temporary_{"e2e_ended"};
  const std::string folder_ = temporary_.path();
  std::unique_ptr<Child> child_;
  std::set<int> tree_;
};

TEST_F(ScullerEnded, KilledBetweenStoppingAndKillingItsEvaluator) {
  // As far as kill_tree() comes: everything below is stopped, and then there is nobody to kill it.
  for (const int pid : tree_) ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  child_->signal(SIGKILL);
  EXPECT_TRUE(gone_within(tree_, 10'000)) << still_alive(tree_) << " of " << tree_.size();
  EXPECT_TRUE(mapped().empty());
}

TEST_F(ScullerEnded, OneRequestThatComesTwiceEndsInOrder) {
  // timeout(1) signals the process, then its group.
  child_->signal(SIGTERM);
  child_->signal(SIGTERM);
  const auto status = child_->wait(30'000);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->signal, 0) << status->text();
  EXPECT_GT(status->code, 0);
  EXPECT_TRUE(gone_within(tree_, 5'000)) << still_alive(tree_) << " of " << tree_.size();
}

TEST_F(ScullerEnded, ASecondRequestEndsAtOnce) {
  child_->signal(SIGTERM);
  ::usleep(400'000);
  child_->signal(SIGTERM);
  ASSERT_TRUE(child_->wait(10'000));
  EXPECT_TRUE(gone_within(tree_, 5'000)) << still_alive(tree_) << " of " << tree_.size();
}

}  // namespace
}  // namespace sculler::e2e
