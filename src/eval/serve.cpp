// The pipe form of the evaluator: job lines in, verdict lines out.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "base/guard.h"
#include "base/json.h"
#include "base/strings.h"
#include "eval/queue.h"
#include "eval/service.h"

namespace sculler::eval {
namespace {

std::string refusal(const Error& error) {
  Verdict v;
  v.stage = "lint";
  v.message = error.text();
  v.advice = error.cure;
  return print_verdict(v);
}

// Nobody reads the answers: everything that was started ends with us. _exit, since workers wait for
// children that die now.
[[noreturn]] void abandon(Service& service) {
  std::fputs("sculler-eval: nobody reads the answers any more; it ends\n", stderr);
  end_with_all(3, [&] { service.scratch->remove(); });
}

}  // namespace

int serve(Service& service, int in, int out) {
  Spool spool(real_files(), service.options.spool);
  if (auto done = spool.open(); !done) {
    std::fprintf(stderr, "sculler-eval: %s\n", done.error().text().c_str());
    return static_cast<int>(done.error().code);
  }
  const int answered = ::eventfd(0, EFD_CLOEXEC);
  std::atomic<bool> reader_gone{false};
  const auto signal_main = [&] {
    const uint64_t one = 1;
    (void)!::write(answered, &one, sizeof one);
  };
  Queue queue([&](const Job& job) { return service.cascade->run(job); }, spool,
              [&](const std::string& line) {
                if (!write_all(out, line + "\n")) reader_gone = true;
              },
              service.workers());
  queue.on_answer = signal_main;
  std::atomic<bool> input_ended{false};
  std::thread reader([&] {
    LineReader lines(in);
    for (std::string line; lines.next(line);) {
      if (trim(line).empty()) continue;
      auto job = parse_job(line, "job");
      if (job) {
        queue.submit(std::move(*job));
      } else if (!write_all(out, refusal(job.error()) + "\n")) {
        reader_gone = true;
      }
    }
    input_ended = true;
    signal_main();
  });
  // POLLERR on a pipe and POLLHUP on a socket say that the other end is closed.
  for (;;) {
    pollfd fds[2] = {{answered, POLLIN, 0}, {out, 0, 0}};
    ::poll(fds, 2, -1);
    if ((fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0 || reader_gone) abandon(service);
    if ((fds[0].revents & POLLIN) != 0) {
      uint64_t count = 0;
      (void)!::read(answered, &count, sizeof count);
    }
    if (input_ended && queue.idle()) break;
  }
  reader.join();
  queue.drain();
  kill_orphans({});  // without namespaces a rank's children can outlive it
  ::close(answered);
  return 0;
}

}  // namespace sculler::eval
