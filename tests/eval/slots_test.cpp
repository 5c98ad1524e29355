// Slots that are shell scripts: they greet, answer, die, hang and lie as evaluators elsewhere may.
#include "eval/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "eval/job_line.h"
#include "eval/slurm.h"
#include "support/temp_folder.h"

namespace sculler::eval {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Job job_of(char digit) { return *parse_job(job_object(digit).dump(), "test"); }

// What a script may call: greet NODE, and answer STATUS to the job line in $line.
const char* const kWords = R"sh(
greet() { echo "{\"slot\":1,\"node\":\"$1\",\"step\":\"7.$slot\"}"; }
job() { while read -r line; do [ -n "$line" ] && break; done
  [ -n "$line" ] || exit 0; id=$(printf %s "$line" | sed 's/.*"job":"\([0-9a-f]*\)".*/\1/'); }
answer() { echo "{\"job\":\"$id\",\"status\":\"$1\",\"message\":\"from a script\",\"notes\":[\"own\"]}"; }
)sh";

class Scripts final : public SlotStarter {
 public:
  explicit Scripts(std::string text) : text_(std::move(text)) {}
  Result<std::unique_ptr<Child>> start(int slot) override {
    const int start = starts_.fetch_add(1);
    SpawnOptions options;
    options.argv = {"/bin/sh", "-c",
                    "slot=" + std::to_string(slot) + "; start=" + std::to_string(start) +
                        "; dir=" + folder.path() + kWords + text_};
    options.env = {{"PATH", "/usr/bin:/bin"}};
    options.in = Stdio::pipe();
    return real_processes().spawn(options);
  }
  bool leaving(const std::string& node) override { return drains && node == "drained"; }
  bool may_pass(const std::string& words) const override {
    return words.find("away") != std::string::npos;
  }
  [[nodiscard]] int starts() const { return starts_; }
  std::atomic<bool> drains{false};
  const test::TempFolder folder{"slots"};

 private:
  std::string text_;
  std::atomic<int> starts_{0};
};

SlotSettings quick(int slots) {
  SlotSettings s;
  s.slots = slots;
  s.silence_ms = 60'000;
  s.backoff_first_ms = 1;
  s.backoff_most_ms = 20;
  s.elsewhere_ms = 100;
  return s;
}

// Runs the jobs at once, as a queue's workers would.
std::map<char, json> run_all(SlotPool& pool, const std::string& digits) {
  std::map<char, json> out;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (const char digit : digits) {
    threads.emplace_back([&, digit] {
      const auto verdict = json::parse(pool.run(job_of(digit)));
      const std::lock_guard lock(mutex);
      out[digit] = verdict;
    });
  }
  for (auto& thread : threads) thread.join();
  return out;
}

struct Told {
  std::mutex mutex;
  std::vector<std::string> notes, hopeless;
  SlotPool::Note note() {
    return [this](const std::string& text) {
      const std::lock_guard lock(mutex);
      notes.push_back(text);
    };
  }
  SlotPool::Hopeless give_up() {
    return [this](const Error& error) {
      const std::lock_guard lock(mutex);
      hopeless.push_back(error.text());
    };
  }
};

TEST(Slots, EveryJobIsAnsweredByALongLivedSlotThatSaysWhereItRan) {
  Scripts scripts("greet node$slot; while job; do answer PASSED; done");
  Told told;
  SlotPool pool(scripts, quick(2), told.note(), told.give_up());
  for (int round = 0; round < 2; ++round) {
    const auto verdicts = run_all(pool, "abcdef");
    for (const auto& [digit, v] : verdicts) {
      EXPECT_EQ(v["job"], std::string(64, digit));
      EXPECT_EQ(v["status"], "PASSED");
      ASSERT_EQ(v["notes"].size(), 2U);
      EXPECT_EQ(v["notes"][0], "own");
      EXPECT_THAT(v["notes"][1].get<std::string>(), HasSubstr("ran on node"));
      EXPECT_THAT(v["notes"][1].get<std::string>(), HasSubstr("Slurm step 7."));
    }
  }
  EXPECT_LE(scripts.starts(), 2);
  EXPECT_EQ(pool.counts().answered, 12U);
  EXPECT_EQ(pool.counts().requeued, 0U);
}

TEST(Slots, WithoutWorkNothingIsStarted) {
  Scripts scripts("greet n; while job; do answer PASSED; done");
  Told told;
  {
    const SlotPool pool(scripts, quick(3), told.note(), told.give_up());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(scripts.starts(), 0);
}

TEST(Slots, NoMoreAreStartedThanThereIsWork) {
  Scripts scripts("greet n; while job; do answer PASSED; done");
  Told told;
  SlotPool pool(scripts, quick(8), told.note(), told.give_up());
  for (const char* digit : {"a", "b", "c"}) {
    EXPECT_EQ(run_all(pool, digit).begin()->second["status"], "PASSED");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the slot idles again
  }
  EXPECT_EQ(scripts.starts(), 1);
}

// Each way in which the first life of a slot fails with its job.
class SlotsFailing : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SlotsFailing, TheJobIsRequeuedAndAnsweredOnce) {
  const auto& [what, words] = GetParam();
  Scripts scripts("if [ $start = 0 ]; then greet bad; job; " + std::string(what) +
                  "; fi; greet good; while job; do answer PASSED; done");
  Told told;
  auto settings = quick(1);
  settings.silence_ms = 1000;
  settings.answer_ms = 5000;
  SlotPool pool(scripts, settings, told.note(), told.give_up());
  const auto v = run_all(pool, "a").at('a');
  EXPECT_EQ(v["status"], "PASSED") << v.dump();
  ASSERT_EQ(v["notes"].size(), 3U);
  EXPECT_EQ(v["notes"][1], "ran on good, Slurm step 7.0");
  EXPECT_THAT(v["notes"][2].get<std::string>(), HasSubstr("requeued: bad, Slurm step 7.0: "));
  EXPECT_THAT(v["notes"][2].get<std::string>(), HasSubstr(words));
  EXPECT_EQ(pool.counts().requeued, 1U);
  EXPECT_EQ(pool.counts().answered, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SlotsFailing,
    testing::Values(std::pair{"echo slurmstepd: node failure >&2; exit 9",
                              "exit code 9: slurmstepd: node failure"},
                    std::pair{"kill -9 $$", "SIGKILL"}, std::pair{"sleep 30", "silent for 1 s"},
                    std::pair{"answer INTERNAL; sleep 1", "INTERNAL: from a script"},
                    std::pair{"echo nonsense; sleep 1", "no verdict: nonsense"},
                    std::pair{"answer SPLENDID; sleep 1", "answered what was not asked"},
                    std::pair{"id=0; answer PASSED; sleep 1", "answered what was not asked"},
                    std::pair{"greet bad; sleep 1", "answered what was not asked"},
                    std::pair{"while :; do echo; sleep 0.2; done", "no verdict within 5 s"}),
    [](const auto& i) { return "Way" + std::to_string(i.index); });

TEST(Slots, AJobThatEndsEverySlotIsGivenUpAndTheOthersAreNot) {
  const std::string bad(64, 'b');
  Scripts scripts("greet n$slot; while job; do [ $id = " + bad +
                  " ] && exit 3; answer PASSED; done");
  Told told;
  auto settings = quick(2);
  settings.requeues = 2;
  SlotPool pool(scripts, settings, told.note(), told.give_up());
  const auto verdicts = run_all(pool, "abcdef");
  for (const auto& [digit, v] : verdicts) {
    EXPECT_EQ(v["status"], digit == 'b' ? "INTERNAL" : "PASSED") << v.dump();
    EXPECT_EQ(v["job"], std::string(64, digit));
  }
  const auto message = verdicts.at('b')["message"].get<std::string>();
  EXPECT_THAT(message, HasSubstr("3 job steps ended without this job's verdict"));
  EXPECT_THAT(message, HasSubstr("exit code 3"));
  EXPECT_EQ(pool.counts().gave_up, 1U);
  EXPECT_EQ(pool.counts().requeued, 2U);
}

TEST(Slots, ARequeuedJobGoesToAnotherNodeWhereThereIsOne) {
  // Node 0 kills every job; it is back at once, and still the job is node 1's.
  Scripts scripts("greet n$slot; while job; do [ $slot = 0 ] && exit 1; answer PASSED; done");
  Told told;
  auto settings = quick(2);
  settings.requeues = 1;
  settings.elsewhere_ms = 20'000;
  SlotPool pool(scripts, settings, told.note(), told.give_up());
  for (const auto& [digit, v] : run_all(pool, "abcdef")) {
    EXPECT_EQ(v["status"], "PASSED") << v.dump();
    EXPECT_THAT(v["notes"][1].get<std::string>(), HasSubstr("ran on n1"));
  }
}

TEST(Slots, AControllerThatIsAwayIsWaitedFor) {
  Scripts scripts(
      "[ $start -lt 12 ] && { echo the controller is away >&2; exit 1; }; greet n; "
      "while job; do answer PASSED; done");
  Told told;
  SlotPool pool(scripts, quick(1), told.note(), told.give_up());
  EXPECT_EQ(run_all(pool, "a").at('a')["status"], "PASSED");
  EXPECT_EQ(scripts.starts(), 13);
  EXPECT_TRUE(told.hopeless.empty());
  EXPECT_EQ(pool.counts().requeued, 0U);  // no slot ever held the job
}

TEST(Slots, AStepThatWillNeverStartIsToldOnce) {
  Scripts scripts(
      "[ -e $dir/cured ] || { echo srun: error: invalid partition >&2; exit 1; }; "
      "greet n; while job; do answer PASSED; done");
  Told told;
  std::atomic<int> count{0};
  std::string text;
  SlotPool pool(scripts, quick(1), told.note(), [&](const Error& error) {
    if (count.fetch_add(1) == 0) text = error.text();
    json cured = true;
    ASSERT_TRUE(real_files().write_atomic(scripts.folder.path("cured"), cured.dump()));
  });
  EXPECT_EQ(run_all(pool, "a").at('a')["status"], "PASSED");
  EXPECT_EQ(count, 1);
  EXPECT_EQ(scripts.starts(), 4);
  EXPECT_THAT(text, HasSubstr("invalid partition"));
}

TEST(Slots, ANodeThatTakesNoMoreWorkIsLeftBetweenJobs) {
  Scripts scripts(
      "trap 'echo ended >$dir/ended$start' EXIT; "
      "[ $start = 0 ] && greet drained || greet good; while job; do answer PASSED; done");
  Told told;
  SlotPool pool(scripts, quick(1), told.note(), told.give_up());
  EXPECT_THAT(run_all(pool, "a").at('a')["notes"][1].get<std::string>(), HasSubstr("on drained"));
  scripts.drains = true;
  EXPECT_THAT(run_all(pool, "b").at('b')["notes"][1].get<std::string>(), HasSubstr("on good"));
  EXPECT_EQ(pool.counts().requeued, 0U);
  EXPECT_TRUE(real_files().exists(scripts.folder.path("ended0")));  // by itself, not killed
}

TEST(Slots, AnIdleSlotFreesItsNodeAndComesBackForWork) {
  Scripts scripts("greet n; while job; do answer PASSED; done");
  Told told;
  auto settings = quick(1);
  settings.idle_ms = 1;
  SlotPool pool(scripts, settings, told.note(), told.give_up());
  EXPECT_EQ(run_all(pool, "a").at('a')["status"], "PASSED");
  for (int i = 0; i < 200 && pool.counts().ended == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(pool.counts().ended, 1U);
  EXPECT_EQ(run_all(pool, "b").at('b')["status"], "PASSED");
  EXPECT_EQ(scripts.starts(), 2);
}

TEST(SlotLink, LongLinesGoThroughWhole) {
  Scripts scripts("greet n; cat");
  auto child = scripts.start(0);
  ASSERT_TRUE(child);
  SlotLink link(std::move(*child), 60'000);
  auto hello = link.next(5000);
  ASSERT_TRUE(hello && *hello);
  link.greeted();
  std::string line(std::size_t{3} << 20, 'x');
  line.back() = 'y';
  link.send(line);
  link.send("second");
  auto back = link.next(20'000), second = link.next(5000);
  ASSERT_TRUE(back && *back);
  EXPECT_TRUE(**back == line);
  ASSERT_TRUE(second && *second);
  EXPECT_EQ(**second, "second");
  auto nothing = link.next(1);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(*nothing);
}

TEST(SlotLink, GreetingsOfAnotherVersionAreRefused) {
  auto same = parse_hello(print_hello({"n1", "4.0"}));
  ASSERT_TRUE(same && *same);
  EXPECT_EQ((*same)->node, "n1");
  EXPECT_EQ((*same)->step, "4.0");
  auto other = parse_hello(R"({"slot":2,"node":"n1"})");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kVersion);
  auto banner = parse_hello("Welcome to the cluster");
  ASSERT_TRUE(banner);
  EXPECT_FALSE(*banner);
}

TEST(Slurm, TheLineIsTheTemplateWithWhatIsNeeded) {
  SlurmOptions o{
      "srun --gres=gpu:2 'two words' --comment={slot}-{name}", "sculler-1", {"/p/e", "--slot"}};
  EXPECT_EQ(*srun_line(o, 3),
            (std::vector<std::string>{"srun", "--nodes=1", "--ntasks=1", "--job-name=sculler-1",
                                      "--gres=gpu:2", "two words", "--comment=3-sculler-1", "/p/e",
                                      "--slot"}));
  o.srun = "ssh login /opt/bin/srun -p gpu apptainer exec image.sif {command} --parallel 2";
  EXPECT_EQ(*srun_line(o, 0),
            (std::vector<std::string>{"ssh", "login", "/opt/bin/srun", "--nodes=1", "--ntasks=1",
                                      "--job-name=sculler-1", "-p", "gpu", "apptainer", "exec",
                                      "image.sif", "/p/e", "--slot", "--parallel", "2"}));
  for (const char* wrong : {"", "mpirun -n 1", "srun 'open"}) {
    o.srun = wrong;
    auto line = srun_line(o, 0);
    ASSERT_FALSE(line) << wrong;
    EXPECT_EQ(line.error().key, "evaluator.srun");
    EXPECT_FALSE(line.error().cure.empty());
  }
}

TEST(Slurm, NodesThatTakeNoMoreWork) {
  EXPECT_EQ(leaving_nodes("n1 idle\nn2 draining\nn3 drained*\nn4 allocated\nn5 down*\nn6 mixed\n"
                          "n7 completing\nn8 failing\n\nbroken\n"),
            (std::set<std::string>{"n2", "n3", "n5", "n8"}));
}

TEST(Slurm, StepsOfOneSpoolHaveOneName) {
  EXPECT_EQ(steps_name("/runs/1/spool"), steps_name("/runs/1/spool"));
  EXPECT_NE(steps_name("/runs/1/spool"), steps_name("/runs/2/spool"));
  EXPECT_EQ(steps_name(""), steps_name(""));
}

}  // namespace
}  // namespace sculler::eval
