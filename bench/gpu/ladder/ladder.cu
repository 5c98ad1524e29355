// Measures candidates of gemm_allgather against each other on the GPUs of one host: a process a rank, NCCL windows, the
// candidate ABI, candidates interleaved round by round, every iteration compared in full with a plain kernel's answer.
// It trusts what it loads: for tuning one's own programs, not for judging others' (that is sculler-eval's work).
//
//   ladder [--ranks R] [--rounds N] [--sets N] [--batch N] [--json FILE] --size S,K,N ... CANDIDATE ...
//   CANDIDATE: [nocheck:]name=path.so[,TUNABLE=value ...]
// --batch: how many candidates are set up at once and interleaved (all).
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <nccl_device.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "problem.h"
#include "sculler/fill.h"

extern "C" int sculler_expected_launch(const sculler_problem*, int, const void* const*, void* const*,
                                       void*);

namespace {

constexpr int kMaxLocalRanks = 8, kWarmUp = 4, kStallSeconds = 15;

#define MUST(expression)                                                                       \
  do {                                                                                         \
    if (int code_ = static_cast<int>(expression); code_ != 0) {                                \
      fprintf(stderr, "ladder: %s:%d: %s returned %d\n", __FILE__, __LINE__, #expression, code_); \
      _exit(1);                                                                                \
    }                                                                                          \
  } while (0)

struct Errors {
  double squared, squared_expected, worst;
  unsigned long long bad;
};

// One anonymous shared mapping for all ranks.
struct Shared {
  std::atomic<int> arrived;
  std::atomic<unsigned> generation;
  std::atomic<unsigned> progress;
  char doing[128];
  ncclUniqueId id;
  int64_t start[kMaxLocalRanks], end[kMaxLocalRanks];
  int code[kMaxLocalRanks];
  Errors errors[kMaxLocalRanks];
};

struct Candidate {
  std::string name, path;
  bool check = true;
  std::map<std::string, int> tunables;
  decltype(&sculler_setup) setup = nullptr;
  decltype(&sculler_run) run = nullptr;
  decltype(&sculler_teardown) teardown = nullptr;
  void* state = nullptr;
  int code = 0;
  std::vector<double> latency_us;
  double relative_l2 = 0, worst = 0;
  unsigned long long bad = 0;
};

struct Options {
  int ranks = 2, rounds = 25, sets = 3, batch = 1 << 20;
  std::string json;
  std::vector<sculler_problem> sizes;
  std::vector<Candidate> candidates;
};

const Candidate* current = nullptr;

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000ll + t.tv_nsec;
}

void meet(Shared* shared, int ranks) {
  const unsigned generation = shared->generation.load();
  if (shared->arrived.fetch_add(1) + 1 == ranks) {
    shared->arrived.store(0);
    shared->generation.fetch_add(1);
    shared->progress.fetch_add(1);
  } else {
    while (shared->generation.load() == generation) sched_yield();
  }
}

__global__ void fill(uint16_t* data, uint64_t n, uint64_t key, uint64_t row) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < n;
       i += uint64_t{gridDim.x} * blockDim.x)
    data[i] = uint16_t(sculler_element(key, i, row, SCULLER_NORMAL, SCULLER_BF16));
}

__global__ void poison(uint16_t* data, uint64_t n) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < n;
       i += uint64_t{gridDim.x} * blockDim.x)
    data[i] = uint16_t(sculler_poison(SCULLER_BF16));
}

__global__ void compare(const __nv_bfloat16* got, const __nv_bfloat16* expected, uint64_t n,
                        double cap, Errors* errors) {
  double squared = 0, squared_expected = 0, worst = 0;
  unsigned long long bad = 0;
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < n;
       i += uint64_t{gridDim.x} * blockDim.x) {
    const double e = __bfloat162float(expected[i]), d = fabs(double(__bfloat162float(got[i])) - e);
    squared_expected += e * e;
    if (!(d <= cap)) ++bad;  // NaN too
    if (d <= 1e300) squared += d * d, worst = fmax(worst, d);
  }
  atomicAdd(&errors->squared, squared);
  atomicAdd(&errors->squared_expected, squared_expected);
  atomicAdd(&errors->bad, bad);
  atomicMax(reinterpret_cast<unsigned long long*>(&errors->worst), __double_as_longlong(worst));
}

__global__ void resolve(ncclWindow_t window, int ranks, void** peer) {
  for (int r = 0; r < ranks; ++r) peer[r] = ncclGetLsaPointer(window, 0, r);
}

__global__ void opening_barrier(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--ranks") {
      options.ranks = atoi(value), ++i;
    } else if (arg == "--rounds") {
      options.rounds = atoi(value), ++i;
    } else if (arg == "--sets") {
      options.sets = atoi(value), ++i;
    } else if (arg == "--batch") {
      options.batch = atoi(value), ++i;
    } else if (arg == "--json") {
      options.json = value, ++i;
    } else if (arg == "--size") {
      long long s = 0, k = 0, n = 0;
      if (sscanf(value, "%lld,%lld,%lld", &s, &k, &n) != 3) MUST(SCULLER_ERROR);
      options.sizes.push_back({SCULLER_ABI_VERSION, GA_N_DIMS, {s, k, n}});
      ++i;
    } else {
      Candidate candidate;
      std::string text = arg;
      if (text.rfind("nocheck:", 0) == 0) candidate.check = false, text = text.substr(8);
      const size_t equals = text.find('=');
      if (equals == std::string::npos) MUST(SCULLER_ERROR);
      candidate.name = text.substr(0, equals);
      size_t at = text.find(',');
      candidate.path = text.substr(equals + 1, at == std::string::npos ? at : at - equals - 1);
      while (at != std::string::npos) {
        const size_t next = text.find(',', at + 1);
        const std::string item = text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
        const size_t middle = item.find('=');
        if (middle == std::string::npos) MUST(SCULLER_ERROR);
        candidate.tunables[item.substr(0, middle)] = atoi(item.c_str() + middle + 1);
        candidate.name += " " + item;
        at = next;
      }
      options.candidates.push_back(candidate);
    }
  }
  if (options.sizes.empty() || options.candidates.empty() || options.ranks > kMaxLocalRanks) {
    fprintf(stderr, "usage: ladder [--ranks R] [--rounds N] [--sets N] [--batch N] [--json FILE] --size S,K,N ... "
                    "[nocheck:]name=path.so[,TUNABLE=value ...] ...\n");
    exit(64);
  }
  return options;
}

// One rank's memory for one size.
struct Memory {
  std::vector<sculler_buffer> buffers;
  std::vector<sculler_set> sets;
  std::vector<void**> peers;
  std::vector<void*> expected;
  sculler_pool pool{};
};

class Rank {
 public:
  Rank(Shared* shared, Options& options, int rank)
      : shared_(shared), options_(options), rank_(rank), ranks_(options.ranks) {
    MUST(cudaSetDevice(rank));
    if (rank == 0) MUST(ncclGetUniqueId(&shared->id));
    meet(shared, ranks_);
    MUST(ncclCommInitRank(&comm_, ranks_, shared->id, rank));
    MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    ncclDevCommRequirements requirements{};
    requirements.lsaBarrierCount = 1;
    MUST(ncclDevCommCreate(comm_, &requirements, &dev_));
    (void)cudaGetLastError();
    MUST(cudaMalloc(&errors_, sizeof(Errors)));
    self_ = {SCULLER_ABI_VERSION, rank,        ranks_, rank, stream_, comm_,
             dev_.lsaRank,        dev_.lsaSize, 1,      0};
  }

  void measure(const sculler_problem& problem) {
    say("allocating");
    allocate(problem);
    auto& all = options_.candidates;
    const auto step = static_cast<size_t>(std::max(1, options_.batch));
    for (size_t first = 0; first < all.size(); first += step)
      measure_batch(problem, first, std::min(step, all.size() - first));
    if (rank_ == 0) print(problem);
    for (Candidate& candidate : all) {
      candidate.latency_us.clear();
      candidate.relative_l2 = candidate.worst = 0;
      candidate.bad = 0;
    }
    release();
  }

 private:
  void say(const std::string& text) {
    if (rank_ == 0) snprintf(shared_->doing, sizeof shared_->doing, "%s", text.c_str());
  }

  void measure_batch(const sculler_problem& problem, size_t first, size_t count) {
    Candidate* batch = &options_.candidates[first];
    for (size_t i = 0; i < count; ++i) set_up(batch[i], problem);
    for (int round = -kWarmUp; round < options_.rounds; ++round)
      for (size_t i = 0; i < count; ++i) {
        // A different order each round, so that nobody always follows the same neighbour.
        Candidate& candidate = batch[(i + static_cast<size_t>(round + kWarmUp) * 7) % count];
        if (candidate.code == 0)
          iterate(candidate, problem, (round + kWarmUp + static_cast<int>(i)) % options_.sets, round >= 0);
      }
    for (size_t i = 0; i < count; ++i) {
      current = &batch[i];
      if (batch[i].code == 0) MUST(batch[i].teardown(batch[i].state));
      meet(shared_, ranks_);
    }
  }

  void allocate(const sculler_problem& problem) {
    MUST(ga_shape_of(&problem, rank_, ranks_, &shape_));
    const uint64_t elements[] = {uint64_t(shape_.rows * shape_.k), uint64_t(shape_.n * shape_.k),
                                 uint64_t(shape_.s * shape_.n)};
    memory_ = Memory{};
    memory_.buffers.resize(static_cast<size_t>(options_.sets) * GA_N_BUFFERS);
    for (size_t i = 0; i < memory_.buffers.size(); ++i) {
      sculler_buffer& buffer = memory_.buffers[i];
      buffer.bytes = elements[i % GA_N_BUFFERS] * 2;
      MUST(ncclMemAlloc(&buffer.ptr, (buffer.bytes + 4095) / 4096 * 4096));
      ncclWindow_t window;
      MUST(ncclCommWindowRegister(comm_, buffer.ptr, (buffer.bytes + 4095) / 4096 * 4096, &window,
                                  NCCL_WIN_COLL_SYMMETRIC));
      buffer.window = window;
      void** peer;
      MUST(cudaMallocHost(&peer, sizeof(void*) * kMaxLocalRanks));
      resolve<<<1, 1, 0, stream_>>>(window, ranks_, peer);
      MUST(cudaStreamSynchronize(stream_));
      buffer.peer = peer;
      memory_.peers.push_back(peer);
    }
    std::vector<void*> others(static_cast<size_t>(ranks_));
    for (auto& other : others) MUST(cudaMalloc(&other, elements[GA_A] * 2));
    for (int set = 0; set < options_.sets; ++set) {
      sculler_buffer* buffer = &memory_.buffers[static_cast<size_t>(set) * GA_N_BUFFERS];
      memory_.sets.push_back({GA_N_BUFFERS, 0, buffer});
      const auto content = static_cast<uint32_t>(set);
      auto make = [&](void* to, int buffer_index, int of) {
        fill<<<1024, 256, 0, stream_>>>(
            static_cast<uint16_t*>(to), elements[buffer_index],
            sculler_fill_key(2026, content, static_cast<uint32_t>(of), static_cast<uint32_t>(buffer_index)),
            static_cast<uint64_t>(shape_.k));
      };
      make(buffer[GA_A].ptr, GA_A, rank_);
      make(buffer[GA_B].ptr, GA_B, 0);
      std::vector<const void*> inputs;
      for (int r = 0; r < ranks_; ++r) {
        make(others[static_cast<size_t>(r)], GA_A, r);
        inputs.push_back(others[static_cast<size_t>(r)]);
        inputs.push_back(buffer[GA_B].ptr);
      }
      void* expected;
      MUST(cudaMalloc(&expected, elements[GA_C] * 2));
      MUST(sculler_expected_launch(&problem, ranks_, inputs.data(), &expected, stream_));
      MUST(cudaStreamSynchronize(stream_));
      memory_.expected.push_back(expected);
    }
    for (void* other : others) MUST(cudaFree(other));
    memory_.pool = {static_cast<uint32_t>(options_.sets), 0, memory_.sets.data()};
    meet(shared_, ranks_);
  }

  void release() {
    for (auto& buffer : memory_.buffers)
      MUST(ncclCommWindowDeregister(comm_, static_cast<ncclWindow_t>(buffer.window)));
    for (auto& buffer : memory_.buffers) MUST(ncclMemFree(buffer.ptr));
    for (void** peer : memory_.peers) MUST(cudaFreeHost(peer));
    for (void* expected : memory_.expected) MUST(cudaFree(expected));
    meet(shared_, ranks_);
  }

  void set_up(Candidate& candidate, const sculler_problem& problem) {
    say("setup of " + candidate.name);
    current = &candidate;
    void* library = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      fprintf(stderr, "ladder: %s\n", dlerror());
      _exit(1);
    }
    candidate.setup = reinterpret_cast<decltype(&sculler_setup)>(dlsym(library, "sculler_setup"));
    candidate.run = reinterpret_cast<decltype(&sculler_run)>(dlsym(library, "sculler_run"));
    candidate.teardown =
        reinterpret_cast<decltype(&sculler_teardown)>(dlsym(library, "sculler_teardown"));
    if (!candidate.setup || !candidate.run || !candidate.teardown) MUST(SCULLER_ERROR);
    shared_->code[rank_] = candidate.setup(&self_, &problem, &memory_.pool, &candidate.state);
    MUST(cudaDeviceSynchronize());
    meet(shared_, ranks_);
    candidate.code = *std::max_element(shared_->code, shared_->code + ranks_);
    meet(shared_, ranks_);
  }

  void iterate(Candidate& candidate, const sculler_problem& problem, int set, bool keep) {
    say(candidate.name);
    current = &candidate;
    const auto n = static_cast<uint64_t>(shape_.s * shape_.n);
    auto* c = memory_.sets[static_cast<size_t>(set)].buffer[GA_C].ptr;
    poison<<<1024, 256, 0, stream_>>>(static_cast<uint16_t*>(c), n);
    MUST(cudaMemsetAsync(errors_, 0, sizeof(Errors), stream_));
    MUST(cudaStreamSynchronize(stream_));
    meet(shared_, ranks_);
    opening_barrier<<<1, 32, 0, stream_>>>(dev_);
    MUST(cudaStreamSynchronize(stream_));
    meet(shared_, ranks_);
    shared_->start[rank_] = now_ns();
    MUST(candidate.run(candidate.state, &problem, set));
    MUST(cudaDeviceSynchronize());
    shared_->end[rank_] = now_ns();
    meet(shared_, ranks_);
    const double us = 1e-3 * static_cast<double>(
                                 *std::max_element(shared_->end, shared_->end + ranks_) -
                                 *std::min_element(shared_->start, shared_->start + ranks_));
    if (keep) candidate.latency_us.push_back(us);
    compare<<<1024, 256, 0, stream_>>>(
        static_cast<const __nv_bfloat16*>(c),
        static_cast<const __nv_bfloat16*>(memory_.expected[static_cast<size_t>(set)]), n,
        0.05 * std::sqrt(static_cast<double>(shape_.k)), errors_);
    MUST(cudaMemcpyAsync(&shared_->errors[rank_], errors_, sizeof(Errors), cudaMemcpyDeviceToHost,
                         stream_));
    MUST(cudaStreamSynchronize(stream_));
    meet(shared_, ranks_);
    for (int r = 0; r < ranks_; ++r) {
      const Errors& e = shared_->errors[r];
      candidate.relative_l2 = std::max(candidate.relative_l2, std::sqrt(e.squared / e.squared_expected));
      candidate.worst = std::max(candidate.worst, e.worst);
      candidate.bad += e.bad;
    }
    meet(shared_, ranks_);
  }

  void print(const sculler_problem& problem) {
    FILE* json = options_.json.empty() ? nullptr : fopen(options_.json.c_str(), "a");
    printf("S %lld K %lld N %lld, %d ranks, %d rounds, us\n%-58s %8s %8s %8s %8s  %-9s %s\n",
           static_cast<long long>(shape_.s), static_cast<long long>(shape_.k),
           static_cast<long long>(shape_.n), ranks_, options_.rounds, "candidate", "median", "min",
           "p90", "max", "rel. L2", "verdict");
    for (Candidate& candidate : options_.candidates) {
      auto& t = candidate.latency_us;
      std::sort(t.begin(), t.end());
      const char* verdict = candidate.code == SCULLER_UNSUPPORTED_PROBLEM ? "unsupported"
                            : candidate.code != 0                         ? "setup failed"
                            : !candidate.check                            ? "not checked"
                            : candidate.bad > 0 || !(candidate.relative_l2 <= 0.0041) ? "INCORRECT"
                                                                                       : "right";
      if (t.empty()) {
        printf("%-58s %s\n", candidate.name.c_str(), verdict);
        continue;
      }
      printf("%-58s %8.1f %8.1f %8.1f %8.1f  %.2e  %s", candidate.name.c_str(), t[t.size() / 2],
             t.front(), t[t.size() * 9 / 10], t.back(), candidate.relative_l2, verdict);
      if (candidate.check && candidate.bad > 0) printf(" (%llu elements)", candidate.bad);
      printf("\n");
      if (json)
        fprintf(json,
                "{\"dims\":[%lld,%lld,%lld],\"ranks\":%d,\"rounds\":%zu,\"candidate\":\"%s\","
                "\"median_us\":%.1f,\"min_us\":%.1f,\"p90_us\":%.1f,\"max_us\":%.1f,"
                "\"relative_l2\":%.3e,\"max_abs\":%.4f,\"verdict\":\"%s\"}\n",
                static_cast<long long>(problem.dim[0]), static_cast<long long>(problem.dim[1]),
                static_cast<long long>(problem.dim[2]), ranks_, t.size(), candidate.name.c_str(),
                t[t.size() / 2], t.front(), t[t.size() * 9 / 10], t.back(), candidate.relative_l2,
                candidate.worst, verdict);
    }
    fflush(stdout);
    if (json) fclose(json);
  }

  Shared* shared_;
  Options& options_;
  int rank_, ranks_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  ncclDevComm dev_;
  Errors* errors_ = nullptr;
  sculler_rank self_{};
  ga_shape shape_{};
  Memory memory_;
};

}  // namespace

extern "C" SCULLER_EXPORT int ladder_tunable(const char* name, int otherwise) {
  if (!current) return otherwise;
  const auto at = current->tunables.find(name);
  return at == current->tunables.end() ? otherwise : at->second;
}

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* shared = new (memory) Shared{};
  std::vector<pid_t> children;
  for (int r = 0; r < options.ranks; ++r) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed ladder leaves no rank behind
      Rank rank(shared, options, r);
      for (const auto& size : options.sizes) rank.measure(size);
      fflush(stdout);
      _exit(0);  // the process's end frees the communicator; no collective teardown to wait for
    }
    children.push_back(child);
  }
  int bad = 0;
  unsigned seen = 0;
  int64_t last = now_ns();
  for (size_t left = children.size(); left > 0;) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WNOHANG);
    if (child > 0) {
      --left;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "ladder: a rank ended with status %d while at: %s\n", status, shared->doing);
        bad = 1;
      }
    }
    if (shared->progress.load() != seen) seen = shared->progress.load(), last = now_ns();
    if (left > 0 && (bad || now_ns() - last > kStallSeconds * 1'000'000'000ll)) {
      if (!bad) fprintf(stderr, "ladder: no progress for %d s at: %s\n", kStallSeconds, shared->doing);
      for (pid_t other : children) kill(other, SIGKILL);
      return 3;
    }
    usleep(5000);
  }
  return bad;
}
