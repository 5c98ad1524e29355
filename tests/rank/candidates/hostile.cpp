// Candidates for silu that are wrong or cheat, one a value of KIND. Built as one shared object
// each.
#include <dlfcn.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "rank/protocol.h"
#include "sculler/candidate.h"

namespace {

const sculler_pool* pool;
int64_t n;
int runs = 0;

[[maybe_unused]] void compute(int set, int64_t from, int64_t to) {
  const auto* x = static_cast<const float*>(pool->set[set].buffer[0].ptr);
  auto* y = static_cast<float*>(pool->set[set].buffer[1].ptr);
  for (int64_t i = from; i < to; ++i) y[i] = x[i] / (1.0f + std::exp(-x[i]));
}

[[maybe_unused]] int control() { return std::atoi(std::getenv("SCULLER_CONTROL_FD")); }

[[maybe_unused]] uint64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

[[maybe_unused]] void forge(sculler::rank::Kind kind, int iteration, uint64_t start = 0,
                            uint64_t end = 0) {
  sculler::rank::Message m;
  m.kind = kind;
  m.a = iteration;
  m.u[0] = start;
  m.u[1] = end;
  (void)!send(control(), &m, sizeof m, 0);
}

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank*, const sculler_problem* problem,
                                            const sculler_pool* p, void**) {
  pool = p;
  n = problem->dim[0];
#if KIND == 1  // refuses
  return SCULLER_UNSUPPORTED_PROBLEM;
#elif KIND == 2  // never returns
  for (;;) pause();
#endif
  return 0;
}

extern "C" SCULLER_EXPORT int sculler_run(void*, const sculler_problem*, int set) {
  const int run = runs++;
  (void)run;
  [[maybe_unused]] auto* x = static_cast<float*>(pool->set[set].buffer[0].ptr);
  [[maybe_unused]] auto* y = static_cast<float*>(pool->set[set].buffer[1].ptr);
#if KIND == 3     // writes nothing
#elif KIND == 4   // NaN
  for (int64_t i = 0; i < n; ++i) y[i] = NAN;
#elif KIND == 5   // one element missing
  compute(set, 0, n - 1);
#elif KIND == 6   // changes its input
  compute(set, 0, n);
  x[n / 2] = 0;
#elif KIND == 7   // forges Enqueued and Done, then leaves
  forge(sculler::rank::Kind::kEnqueued, run);
  const uint64_t t = now();
  forge(sculler::rank::Kind::kDone, run, t, t);
  _exit(0);
#elif KIND == 8   // crashes
  *static_cast<volatile int*>(nullptr) = 1;
#elif KIND == 9   // spins
  for (;;) {}
#elif KIND == 10  // remembers outputs by set
  static std::map<int, std::vector<float> > seen;
  auto it = seen.find(set);
  if (it == seen.end()) {
    compute(set, 0, n);
    seen[set] = std::vector<float>(y, y + n);
  } else {
    std::memcpy(y, it->second.data(), static_cast<size_t>(n) * 4);
  }
#elif KIND == 11  // floods the control socket
  compute(set, 0, n);
  for (int i = 0; i < 100000; ++i) forge(sculler::rank::Kind::kDone, run);
#elif KIND == 12  // work left to a thread that nobody joins
  std::thread([set] {
    timespec t{0, 50'000'000};
    nanosleep(&t, nullptr);
    compute(set, 0, n);
  }).detach();
#elif KIND == 13  // claims to be ready at once, by the harness's own words, and works on
  forge(sculler::rank::Kind::kEnqueued, run);
  const uint64_t t = now();
  forge(sculler::rank::Kind::kDone, run, t, t);
  compute(set, 0, n);
#elif KIND == 14  // fails
  return 17;
#elif KIND == 15  // PASS and a time, to whom it may concern
  (void)!write(1, "{\"status\":\"PASSED\"}\nVerification: PASS\n", 39);
#elif KIND == 16  // one wrong value
  compute(set, 0, n);
  y[n / 3] += 0.01f;
#elif KIND == 17  // shrinks its buffers under the checker's feet
  compute(set, 0, n);
  for (int fd = 3; fd < 200; ++fd) (void)!ftruncate(fd, 0);
#elif KIND == 18  // a flood of descriptors
  compute(set, 0, n);
  for (int i = 0; i < 200; ++i) {
    sculler::rank::Message m;
    m.kind = sculler::rank::Kind::kEnqueued;
    m.a = run;
    iovec part{&m, sizeof m};
    alignas(cmsghdr) char space[CMSG_SPACE(200 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = space;
    header.msg_controllen = sizeof space;
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(200 * sizeof(int));
    for (std::size_t k = 0; k < 200; ++k) {
      const int fd = 1;
      std::memcpy(CMSG_DATA(c) + k * sizeof fd, &fd, sizeof fd);
    }
    (void)!sendmsg(control(), &header, MSG_DONTWAIT);
  }
#elif KIND == 19  // half a message
  compute(set, 0, n);
  sculler::rank::Message half;
  (void)!send(control(), &half, sizeof half / 2, 0);
#elif KIND == 20  // Done of the iteration before
  compute(set, 0, n);
  if (run > 0) forge(sculler::rank::Kind::kDone, run - 1);
#elif KIND == 21  // says that its text is longer than a message
  compute(set, 0, n);
  sculler::rank::Message huge;
  huge.kind = sculler::rank::Kind::kFault;
  huge.text_bytes = 0xffffffff;
  (void)!send(control(), &huge, sizeof huge, 0);
#elif KIND == 22  // closes its socket and stays
  compute(set, 0, n);
  close(control());
  for (;;) pause();
#elif KIND == 23  // announces another buffer
  compute(set, 0, n);
  sculler::rank::Message pool_again;
  pool_again.kind = sculler::rank::Kind::kPool;
  pool_again.u[1] = uint64_t{1} << 62;
  (void)!send(control(), &pool_again, sizeof pool_again, 0);
#else
  compute(set, 0, n);
#endif
  return 0;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void*) { return 0; }
