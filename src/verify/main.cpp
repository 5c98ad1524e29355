// sculler-verify [--files] JOB.json: the trusted process of one job on cuda and cpu; with --files
// of one whose program an adapter runs. docs/internals.md, "Launch".
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "base/files.h"
#include "base/strings.h"
#include "rank/multicast.h"
#include "verify/cuda_device.h"
#include "verify/files.h"
#include "verify/host_device.h"
#include "verify/session.h"
#include "verify/socket_ranks.h"

namespace {

using namespace sculler;
using namespace sculler::verify;

void answer(const Outcome& outcome) {
  const std::string line = print_outcome(outcome) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

Outcome broken(const Error& error) {
  Outcome outcome;
  outcome.status = status::kInternal;
  outcome.message = error.text();
  return outcome;
}

// The bench mode: warm-ups of the job first, then what stdin asks for.
void bench(const JobSpec& job, Ranks& ranks, Device& device) {
  Session session(job, ranks, device);
  bool good = session.open();
  for (const IterationSpec& it : job.iterations) good = good && session.iterate(it);
  if (!good) return answer(session.outcome());
  session.outcome().iterations.clear();
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::string_view order = trim(line);
    if (order == "quit") break;
    const auto words = split(order, ' ');
    int64_t count = 0;
    if (words.size() >= 2 && words[0] == "go") count = parse_int(words[1]).value_or(0);
    const bool cold = words.size() == 3 && words[2] == "cold";
    const bool replay = words.size() == 3 && words[2] == "replay";
    if (count < 1 || count > 100'000 || words.size() > (cold || replay ? 3U : 2U)) {
      return answer(broken(Error{
          ErrorCode::kUsage,
          "'" + std::string(order) + "' is not `go N`, `go N cold`, `go N replay` or `quit`"}));
    }
    for (int64_t i = 0; good && i < count; ++i) {
      if (replay) {
        good = session.iterate_replayed();
        continue;
      }
      IterationSpec next = session.draw(false);
      next.cold = cold;
      good = session.iterate(next);
    }
    answer(session.outcome());
    if (!good) return;
    session.outcome().iterations.clear();
  }
  session.close();
  answer(session.outcome());
}

// The program runs elsewhere: requests on stdin, an answer each (verify/files.h).
Status run_files(const char* path) {
  auto text = real_files().read(path, 16 << 20);
  if (!text) return fail(text.error());
  auto job = parse_job(*text);
  if (!job) return fail(job.error());
  if (job->n_ranks != 1) return fail(ErrorCode::kUsage, "files are of one rank");
  auto reference = Reference::load(*job);
  if (!reference) return fail(reference.error());
  FileJob files(*job, **reference);
  for (std::string line; std::getline(std::cin, line);) answer(files.answer(line));
  return {};
}

Status run(const char* path) {
  auto text = real_files().read(path, 16 << 20);
  if (!text) return fail(text.error());
  auto job = parse_job(*text);
  if (!job) return fail(job.error());
  if (job->target == Target::kEmu) return fail(ErrorCode::kUsage, "target emu is sculler-vm's");
  auto sockets = inherited_sockets(std::getenv("SCULLER_CONTROL_FDS"), job->n_ranks);
  if (!sockets) return fail(sockets.error());
  SocketRanks ranks(std::move(*sockets));
  auto reference = Reference::load(*job);
  if (!reference) return fail(reference.error());

  std::unique_ptr<Device> device;
  if (job->target == Target::kCpu) {
    // Woken by Opened, this process must not take the core from the rank that runs its region:
    // batch tasks do not preempt when they wake, and messages are stamped without it.
    sched_param batch{};
    (void)::sched_setscheduler(0, SCHED_BATCH, &batch);
    device = std::make_unique<MemfdDevice>(*job, **reference);
  } else {
    // Nothing of CUDA is loaded yet.
    rank::set_multicast_off();
    auto opened = CudaDevice::open(*job, **reference);
    if (!opened) return fail(opened.error());
    device = std::move(*opened);
  }
  if (job->mode == Mode::kBench) {
    bench(*job, ranks, *device);
  } else {
    answer(run_session(*job, ranks, *device));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const bool files = argc == 3 && std::string_view(argv[1]) == "--files";
  if (argc != 2 && !files) {
    std::fprintf(stderr, "usage: sculler-verify [--files] JOB.json\n");
    return 2;
  }
  try {
    if (auto done = files ? run_files(argv[2]) : run(argv[1]); !done) answer(broken(done.error()));
  } catch (const std::exception& e) { answer(broken(Error{ErrorCode::kInternal, e.what()})); }
  return 0;
}
