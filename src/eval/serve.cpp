// The pipe form of the evaluator: job lines in, verdict lines out.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

#include "base/guard.h"
#include "base/json.h"
#include "base/strings.h"
#include "eval/queue.h"
#include "eval/service.h"
#include "eval/shared_folder.h"
#include "eval/slurm.h"
#include "eval/stopwatch.h"

namespace sculler::eval {
namespace {

constexpr int64_t kSlurmBeatMs = 30'000;

std::string refusal(const Error& error) {
  Verdict v;
  v.stage = "lint";
  v.message = error.text();
  v.advice = error.cure;
  return print_verdict(v);
}

int complain(const Error& error) {
  std::fprintf(stderr, "sculler-eval: %s\n", error.text().c_str());
  return static_cast<int>(error.code);
}

// Whose verdicts a pipe carries, and what belongs to that pipe.
struct Server {
  Queue::Run run;
  int workers = 1;
  std::string spool;
  std::string hello{};     // said first; empty: nothing
  int64_t beat_ms = 0;     // how often a blank line says that this process lives; 0: never
  int64_t silence_ms = 0;  // it ends where nothing was read for so long; 0: never
  std::function<void()> at_end = [] {};  // when it is abandoned
};

// Everything that was started ends with us. _exit, since workers wait for children that die now.
[[noreturn]] void abandon(const Server& server, const char* why) {
  std::fprintf(stderr, "sculler-eval: %s; it ends\n", why);
  end_with_all(3, server.at_end);
}

// Whole lines from several threads.
class LineWriter {
 public:
  explicit LineWriter(int fd) : fd_(fd) {}
  void say(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (!write_all(fd_, line + "\n")) gone_ = true;
  }
  [[nodiscard]] bool gone() const { return gone_; }

 private:
  int fd_;
  std::mutex mutex_;
  std::atomic<bool> gone_{false};
};

int answer_lines(const Server& server, int in, int out) {
  Spool spool(real_files(), server.spool);
  if (auto done = spool.open(); !done) return complain(done.error());
  const int answered = ::eventfd(0, EFD_CLOEXEC);
  LineWriter writer(out);
  std::atomic<int64_t> heard_ms{now_ms()};
  const auto signal_main = [&] {
    const uint64_t one = 1;
    (void)!::write(answered, &one, sizeof one);
  };
  Queue queue(
      server.run, spool, [&](const std::string& line) { writer.say(line); }, server.workers);
  queue.on_answer = signal_main;
  if (!server.hello.empty()) writer.say(server.hello);
  std::atomic<bool> input_ended{false};
  std::thread reader([&] {
    LineReader lines(in);
    for (std::string line; lines.next(line);) {
      heard_ms = now_ms();
      if (trim(line).empty()) continue;
      auto job = parse_job(line, "job");
      if (job) queue.submit(std::move(*job));
      else writer.say(refusal(job.error()));
    }
    input_ended = true;
    signal_main();
  });
  int64_t said_ms = now_ms();
  // POLLERR on a pipe and POLLHUP on a socket say that the other end is closed.
  for (;;) {
    pollfd fds[2] = {{answered, POLLIN, 0}, {out, 0, 0}};
    const int64_t wait_ms = server.beat_ms > 0 ? server.beat_ms : -1;
    ::poll(fds, 2, static_cast<int>(wait_ms));
    if ((fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0 || writer.gone())
      abandon(server, "nobody reads the answers any more");
    if ((fds[0].revents & POLLIN) != 0) {
      uint64_t count = 0;
      (void)!::read(answered, &count, sizeof count);
    }
    if (input_ended && queue.idle()) break;
    const int64_t now = now_ms();
    if (server.silence_ms > 0 && !input_ended && now - heard_ms > server.silence_ms)
      abandon(server, "whoever sends the jobs has fallen silent");
    if (server.beat_ms > 0 && now - said_ms >= server.beat_ms) {
      writer.say("");
      said_ms = now;
    }
  }
  reader.join();
  queue.drain();
  ::close(answered);
  return 0;
}

}  // namespace

int serve(Service& service, int in, int out) {
  Server server;
  server.run = [&](const Job& job) { return print_verdict(service.cascade->run(job)); };
  server.workers = service.workers();
  server.spool = service.options.spool;
  server.at_end = [&] { service.scratch->remove(); };
  if (const int64_t silence_ms = service.options.slot_silence_ms; silence_ms > 0) {
    SlotHello hello{env_value("SLURMD_NODENAME"), env_value("SLURM_STEP_ID")};
    if (!hello.step.empty()) hello.step = env_value("SLURM_JOB_ID") + "." + hello.step;
    if (hello.node.empty()) {
      std::string name(256, '\0');
      hello.node = ::gethostname(name.data(), name.size() - 1) == 0 ? name.c_str() : "a node";
    }
    server.hello = print_hello(hello);
    server.beat_ms = silence_ms / kSlotBeats;
    server.silence_ms = silence_ms;
  }
  const int code = answer_lines(server, in, out);
  kill_orphans({});  // without namespaces a rank's children can outlive it
  return code;
}

int serve_slurm(const Options& options, int in, int out) {
  SlurmOptions slurm = slurm_options(options);
  if (auto line = srun_line(slurm, 0); !line) return complain(line.error());
  if (!options.spool.empty()) cancel_steps(slurm.name);
  std::unique_ptr<SharedFolder> shared;
  if (!options.shared.empty()) {
    auto made = SharedFolder::make(find_installation(), options.shared);
    if (!made) return complain(made.error());
    shared = std::move(*made);
    if (options.slot_programs.empty()) slurm.command[0] = shared->programs() + "/sculler-eval";
  }
  SlurmStarter starter(real_processes(), slurm);
  const auto note = [](const std::string& text) {
    std::fprintf(stderr, "sculler-eval: %s\n", text.c_str());
  };
  int code = 0;
  {
    SlotPool pool(starter, options.slots, note, [](const Error& error) {
      // Nothing will ever be evaluated: its last words are what the user is told.
      complain(Error{ErrorCode::kChildFailed, "no job step starts: " + error.message, "",
                     "evaluator.srun",
                     "Try that srun line by hand; docs/slurm.md shows examples."});
      end_with_all(static_cast<int>(ErrorCode::kChildFailed), [] {});
    });
    Server server;
    server.run = [&](const Job& job) {
      if (shared == nullptr) return pool.run(job);
      const auto placed = shared->place(job);
      return placed ? pool.run(*placed) : internal_line(job, placed.error().text(), "");
    };
    server.workers = options.slots.slots;
    server.spool = options.spool;
    server.beat_ms = kSlurmBeatMs;
    server.at_end = [&] { cancel_steps(slurm.name); };
    code = answer_lines(server, in, out);
  }
  cancel_steps(slurm.name);  // what a dead node still holds
  return code;
}

}  // namespace sculler::eval
