#include "base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "base/clock.h"
#include "base/files.h"
#include "base/strings.h"

namespace sculler {
namespace {

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.env = {{"PATH", "/usr/bin:/bin"}};
  return options;
}

CommandResult must_run(const SpawnOptions& options, std::string_view input = {},
                       int64_t ms = 20'000) {
  auto result = run_command(real_processes(), options, input, ms);
  EXPECT_TRUE(result) << result.error().text();
  return result ? *result : CommandResult{};
}

// A zombie answers kill(0) too.
bool alive(int pid) {
  auto stat = real_files().read("/proc/" + std::to_string(pid) + "/stat", 4096);
  return stat && stat->find(") Z ") == std::string::npos;
}

// Death by a signal is not immediate.
bool dead_soon(int pid) {
  for (int i = 0; i < 300 && alive(pid); ++i) real_clock().sleep_ns(10'000'000);
  return !alive(pid);
}

TEST(Process, CapturesStreamsAndCode) {
  const auto result = must_run(shell("cat; echo err >&2; exit 3"), "input");
  EXPECT_EQ(result.out, "input");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(result.status.code, 3);
  EXPECT_EQ(result.status.text(), "exit code 3");
}

TEST(Process, EnvironmentIsExactlyWhatIsListed) {
  setenv("SCULLER_TEST_SECRET", "key", 1);
  SpawnOptions options = shell("");
  options.argv = {"/usr/bin/env"};
  options.env = {{"A", "1"}, {"B", "x y"}};
  EXPECT_EQ(must_run(options).out, "A=1\nB=x y\n");
}

TEST(Process, DescriptorsArePassedByNumberAndOthersAreClosed) {
  const int open_elsewhere = ::open("/dev/null", O_RDONLY);  // no O_CLOEXEC
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  SpawnOptions options = shell("echo through >&7; ls /proc/self/fd");
  options.fds = {{ends[1], 7}};
  const auto result = must_run(options);
  ::close(ends[1]);
  char text[16] = {};
  EXPECT_EQ(::read(ends[0], text, sizeof text - 1), 8);
  EXPECT_STREQ(text, "through\n");
  // 3 is ls's own folder.
  EXPECT_EQ(result.out, "0\n1\n2\n3\n7\n");
  ::close(ends[0]);
  ::close(open_elsewhere);
}

TEST(Process, DescriptorsMaySwapNumbers) {
  int first[2], second[2];
  ASSERT_EQ(pipe2(first, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(second, O_CLOEXEC), 0);
  const int a = fcntl(first[1], F_DUPFD_CLOEXEC, 200), b = fcntl(second[1], F_DUPFD_CLOEXEC, 201);
  SpawnOptions options = shell("echo one >&$0; echo two >&$1");
  options.argv = {"/bin/sh", "-c", "echo one >&9; echo two >&8"};
  ASSERT_EQ(dup2(a, 8), 8);
  ASSERT_EQ(dup2(b, 9), 9);
  options.fds = {{8, 9}, {9, 8}};
  EXPECT_TRUE(must_run(options).status.ok());
  for (const int fd : {first[1], second[1], a, b, 8, 9}) ::close(fd);
  char text[8] = {};
  EXPECT_EQ(::read(first[0], text, 7), 4);
  EXPECT_STREQ(text, "one\n");
  EXPECT_EQ(::read(second[0], text, 7), 4);
  EXPECT_STREQ(text, "two\n");
  ::close(first[0]);
  ::close(second[0]);
}

TEST(Process, DeadlineKillsTheWholeTreeEvenOutsideTheGroup) {
  const int64_t start = real_clock().now_ns();
  const auto result =
      must_run(shell("setsid sleep 300 & echo $!; sleep 300 & echo $!; wait"), {}, 300);
  EXPECT_TRUE(result.status.timed_out);
  EXPECT_LT(real_clock().now_ns() - start, 10'000'000'000);
  const auto pids = split(trim(result.out), '\n');
  ASSERT_EQ(pids.size(), 2u);
  for (const auto pid : pids)
    EXPECT_TRUE(dead_soon(static_cast<int>(parse_int(pid).value()))) << pid;
}

TEST(Process, WhatAProgramLeftInItsGroupEndsWithIt) {
  const auto result = must_run(shell("sleep 300 >/dev/null 2>&1 & echo $!"));
  EXPECT_TRUE(result.status.ok());
  const int pid = static_cast<int>(parse_int(trim(result.out)).value());
  EXPECT_TRUE(dead_soon(pid));
}

TEST(Process, LimitsAreSet) {
  SpawnOptions options = shell("ulimit -n; ulimit -v; ulimit -c");
  options.limits.open_files = 17;
  options.limits.address_space_bytes = uint64_t{1} << 30;
  EXPECT_EQ(must_run(options).out, "17\n1048576\n0\n");
}

TEST(Process, MissingProgramAndFolder) {
  SpawnOptions options;
  options.argv = {"sculler-no-such-program"};
  EXPECT_EQ(real_processes().spawn(options).error().code, ErrorCode::kNotFound);
  options = shell("true");
  options.cwd = "/no/such/folder";
  auto failed = real_processes().spawn(options);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "entering its folder: No such file or directory");
}

TEST(Process, PidFdBecomesReadableAndDestructionKills) {
  auto child = real_processes().spawn(shell("sleep 300"));
  ASSERT_TRUE(child);
  const int pid = (*child)->pid();
  EXPECT_EQ((*child)->wait(0), std::nullopt);
  pollfd p{(*child)->pid_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  (*child)->signal(SIGTERM);
  EXPECT_EQ(::poll(&p, 1, 10'000), 1);
  EXPECT_EQ((*child)->wait(1000)->signal, SIGTERM);
  EXPECT_EQ((*child)->wait(0)->text(), "killed by signal 15 (SIGTERM)");

  auto second = real_processes().spawn(shell("sleep 300"));
  ASSERT_TRUE(second);
  const int second_pid = (*second)->pid();
  second->reset();
  EXPECT_FALSE(alive(second_pid));
  EXPECT_NE(pid, second_pid);
}

TEST(Process, OutputBeyondTheBoundIsDropped) {
  auto result = run_command(real_processes(), shell("head -c 100000 /dev/zero"), {}, 10'000, 1000);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out.size(), 1000u);
  EXPECT_TRUE(result->truncated);
}

TEST(Process, FakeRunsTheScript) {
  FakeProcesses fake([](const SpawnOptions& options) -> Result<FakeProcesses::Outcome> {
    FakeProcesses::Outcome outcome;
    outcome.status.code = 0;
    outcome.out = options.argv.back();
    return outcome;
  });
  auto result = run_command(fake, shell("hello"), {}, 1000);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, "hello");
  EXPECT_EQ(fake.spawned().size(), 1u);
}

TEST(Process, ParentOf) {
  EXPECT_EQ(parent_of(::getpid()), ::getppid());
  EXPECT_EQ(parent_of(0x7fffffff), 0);
}

}  // namespace
}  // namespace sculler
