// A cpu job through the real programs, without a sandbox: sculler-verify and sculler-rank over
// socket pairs.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/process.h"
#include "support/temp_folder.h"
#include "verify/job.h"

namespace sculler::verify::test {

class CpuJob : public testing::Test {
 protected:
  void SetUp() override {
    job_.job = "cpu";
    job_.target = Target::kCpu;
    job_.task = "silu";
    job_.n_ranks = 1;
    job_.n_sets = job_.n_contents = 8;
    job_.seed = 11;
    job_.reference = SCULLER_SILU_REFERENCE;
    job_.expected_cache = join_path(folder_, "expected");
    job_.tolerance = {1e-6, 4e-6};
    job_.deadlines = {20'000, 4'000, 4'000, 4'000};
    job_.iterations = {{0, -1, true}, {3}, {4}, {3}, {5}, {3}};
    resize(10'007);
  }

  void resize(uint64_t n) {
    job_.problem = {};
    job_.problem.abi_version = SCULLER_ABI_VERSION;
    job_.problem.n_dims = 1;
    job_.problem.dim[0] = static_cast<int64_t>(n);
    BufferSpec x;
    x.name = "X";
    x.elements = x.row_elements = n;
    x.bytes = 4 * n;
    BufferSpec y = x;
    y.name = "Y";
    y.role = Role::kOutput;
    job_.buffers = {x, y};
  }

  // Lines on the checker's stdout.
  std::vector<std::string> run_lines(const std::string& candidate, const std::string& orders = {}) {
    const std::string bytes = std::to_string(job_.buffers[0].bytes);
    const std::string spec =
        R"({"version":1,"target":"cpu","n_ranks":)" + std::to_string(job_.n_ranks) +
        R"(,"candidate":")" + candidate + R"(","problem":{"dims":[)" +
        std::to_string(job_.problem.dim[0]) + R"(]},"n_sets":)" + std::to_string(job_.n_sets) +
        R"(,"buffers":[{"name":"X","bytes":)" + bytes + R"(},{"name":"Y","bytes":)" + bytes +
        R"(}],"workload":false,"n_threads":2})";
    EXPECT_TRUE(real_files().write_atomic(join_path(folder_, "rank.json"), spec));
    EXPECT_TRUE(real_files().write_atomic(join_path(folder_, "job.json"), print_job(job_)));
    std::vector<int> trusted, untrusted;
    std::string list;
    SpawnOptions ranks;
    for (int r = 0; r < job_.n_ranks; ++r) {
      int pair[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
      trusted.push_back(pair[0]);
      untrusted.push_back(pair[1]);
      list += (list.empty() ? "" : ",") + std::to_string(10 + r);
      ranks.fds.emplace_back(pair[1], 10 + r);
    }
    ranks.argv = {SCULLER_RANK_PROGRAM, "--all", std::to_string(job_.n_ranks), "rank.json"};
    ranks.env = {{"SCULLER_CONTROL_FDS", list}};
    ranks.cwd = folder_;
    ranks.out = ranks.err = Stdio::null();
    auto child = real_processes().spawn(ranks);
    EXPECT_TRUE(child) << child.error().text();
    for (const int fd : untrusted) close(fd);

    SpawnOptions verify;
    verify.argv = {SCULLER_VERIFY_PROGRAM, join_path(folder_, "job.json")};
    verify.env = {{"SCULLER_CONTROL_FDS", list}, {"ASAN_OPTIONS", "detect_leaks=1"}};
    for (int r = 0; r < job_.n_ranks; ++r)
      verify.fds.emplace_back(trusted[static_cast<std::size_t>(r)], 10 + r);
    auto result = run_command(real_processes(), verify, orders, 60'000);
    for (const int fd : trusted) close(fd);
    EXPECT_TRUE(result) << result.error().text();
    EXPECT_TRUE(result->status.ok()) << result->status.text() << result->err;
    rank_status_ = (*child)->wait(200).value_or(ExitStatus{});
    child->reset();
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < result->out.size();) {
      const std::size_t end = result->out.find('\n', at);
      if (end == std::string::npos) break;
      lines.push_back(result->out.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

  Outcome run(const std::string& candidate) {
    const auto lines = run_lines(candidate);
    EXPECT_EQ(lines.size(), 1u);
    auto outcome = parse_outcome(lines.empty() ? "" : lines[0]);
    EXPECT_TRUE(outcome);
    return outcome ? *outcome : Outcome{};
  }

  sculler::test::TempFolder temporary_{"sculler_job"};
  const std::string folder_ = temporary_.path();
  JobSpec job_;
  ExitStatus rank_status_;
};

}  // namespace sculler::verify::test
