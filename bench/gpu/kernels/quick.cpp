// Times kernels' programs on one GPU without checking them: for choosing between variants.
//   quick LIST        a row a line of LIST; quick.py writes it (README.md)
// A line: NAME FILE.so DIMS BUFFERS BYTES FLOPS. DIMS: 4096,2048. BUFFERS: a letter and elements
// each, in the task's order: n (input), p (input that is positive), o (output). BYTES, FLOPS: of a
// run. A sample of the outputs is compared with that of the kernel's first program (of those whose
// names begin alike up to a slash).
// Programs run in a process of their own: where one dies or does not answer the next goes on.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "sculler/candidate.h"

namespace {

constexpr int kWarmUps = 5, kRuns = 20, kMostMs = 20000;
constexpr size_t kEvicting = size_t{256} << 20;  // bytes: more than any second-level cache
constexpr size_t kPieces = 16, kPiece = 4096;    // floats of an output that are compared

struct Line {
  std::string name, file, dims, buffers;
  double bytes = 0, flops = 0;
};

std::vector<Line> read_list(const char* path) {
  std::ifstream in(path);
  std::vector<Line> lines;
  for (std::string text; std::getline(in, text);) {
    std::istringstream words(text);
    Line line;
    if (words >> line.name >> line.file >> line.dims >> line.buffers >> line.bytes >> line.flops)
      lines.push_back(line);
    else if (!text.empty())
      std::fprintf(stderr, "quick: %s: not a line of a list: %s\n", path, text.c_str());
  }
  return lines;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// What went wrong, empty where nothing did.
std::string failure(const char* what, cudaError_t code) {
  return code == cudaSuccess ? "" : std::string(what) + ": " + cudaGetErrorString(code);
}

// Of a kernel's first program, in memory that outlives the process that ran it.
constexpr size_t kSampled = 4 * kPieces * kPiece;
struct Sample {
  char kernel[256];
  float values[kSampled];
};

// The buffers of a task, made and filled once for all programs with the same ones.
class Buffers {
 public:
  std::string make(const std::string& what) {
    if (what == what_) return "";
    for (auto& one : buffers_) (void)cudaFree(one.ptr);
    buffers_.clear();
    outputs_.clear();
    what_.clear();
    for (const auto& part : parts_of(what)) {
      const size_t bytes = std::stoull(part.substr(1)) * sizeof(float);
      sculler_buffer one{};
      one.bytes = bytes;
      if (auto bad = failure("memory", cudaMalloc(&one.ptr, bytes)); !bad.empty()) return bad;
      buffers_.push_back(one);
      if (part[0] == 'o') {
        outputs_.push_back(buffers_.size() - 1);
      } else if (auto bad = fill(static_cast<char*>(one.ptr), bytes, part[0] == 'p');
                 !bad.empty()) {
        return bad;
      }
    }
    what_ = what;
    return "";
  }
  // Not a number, so that what a program leaves out is seen.
  std::string poison() {
    for (const size_t i : outputs_) {
      if (auto bad = failure("poison", cudaMemset(buffers_[i].ptr, 0xff, buffers_[i].bytes));
          !bad.empty())
        return bad;
    }
    return "";
  }
  // Relative L2 of a sample of the outputs and that of the kernel's first program.
  std::string difference(const std::string& kernel, Sample& first, double& relative) {
    std::vector<float> sample;
    for (const size_t i : outputs_) {
      const size_t n = buffers_[i].bytes / sizeof(float), each = std::min(kPiece, n);
      for (size_t p = 0; p < kPieces; ++p) {
        const size_t from = (n - each) * p / (kPieces - 1);
        sample.resize(sample.size() + each);
        if (auto bad =
                failure("outputs", cudaMemcpy(sample.data() + sample.size() - each,
                                              static_cast<const float*>(buffers_[i].ptr) + from,
                                              each * sizeof(float), cudaMemcpyDeviceToHost));
            !bad.empty())
          return bad;
      }
    }
    sample.resize(std::min(sample.size(), kSampled));
    if (kernel != first.kernel) {
      std::snprintf(first.kernel, sizeof first.kernel, "%s", kernel.c_str());
      std::ranges::copy(sample, first.values);
    }
    double off = 0, all = 0;
    for (size_t i = 0; i < sample.size(); ++i) {
      const double e = first.values[i], d = sample[i] - e;
      off += d * d;
      all += e * e;
    }
    relative = off == 0 ? 0 : std::sqrt(off / all);
    return "";
  }
  [[nodiscard]] const std::vector<sculler_buffer>& all() const { return buffers_; }

 private:
  // 16 MB (an odd number of floats) that are drawn, again and again.
  static std::string fill(char* to, size_t bytes, bool positive) {
    static const std::vector<float> drawn = [] {
      std::vector<float> values((size_t{4} << 20) - 3);
      uint64_t state = 88172645463325252u;
      for (auto& value : values) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        value = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
      }
      return values;
    }();
    std::vector<float> values = drawn;
    if (positive) std::ranges::for_each(values, [](float& v) { v = std::fabs(v); });
    size_t done = std::min(bytes, values.size() * sizeof(float));
    auto code = cudaMemcpy(to, values.data(), done, cudaMemcpyHostToDevice);
    for (; code == cudaSuccess && done < bytes; done *= 2)
      code = cudaMemcpy(to + done, to, std::min(done, bytes - done), cudaMemcpyDeviceToDevice);
    return failure("inputs", code);
  }
  std::string what_;
  std::vector<sculler_buffer> buffers_;
  std::vector<size_t> outputs_;
};

struct Machine {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  void *from = nullptr, *to = nullptr;
  std::string make() {
    const cudaError_t codes[] = {
        cudaSetDevice(0),      cudaStreamCreate(&stream),    cudaEventCreate(&begin),
        cudaEventCreate(&end), cudaMalloc(&from, kEvicting), cudaMalloc(&to, kEvicting)};
    for (const auto code : codes)
      if (code != cudaSuccess) return failure("the GPU", code);
    return "";
  }
  // The stream is idle when a run begins, as in an evaluation: gaps between launches count.
  std::string evict() const {
    if (auto bad =
            failure("copy", cudaMemcpyAsync(to, from, kEvicting, cudaMemcpyDeviceToDevice, stream));
        !bad.empty())
      return bad;
    return failure("run", cudaStreamSynchronize(stream));
  }
};

struct Program {
  decltype(&sculler_setup) setup;
  decltype(&sculler_run) run;
  decltype(&sculler_teardown) teardown;
};

// Median microseconds of the runs, and by how much outputs differ from the first program's.
std::string time_runs(const Line& line, const Machine& machine, Buffers& buffers, Sample& sample,
                      double& median, double& relative) {
  if (auto bad = buffers.make(line.buffers); !bad.empty()) return bad;
  void* const loaded = dlopen(line.file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return dlerror();
  const Program p{reinterpret_cast<decltype(&sculler_setup)>(dlsym(loaded, "sculler_setup")),
                  reinterpret_cast<decltype(&sculler_run)>(dlsym(loaded, "sculler_run")),
                  reinterpret_cast<decltype(&sculler_teardown)>(dlsym(loaded, "sculler_teardown"))};
  if (p.setup == nullptr || p.run == nullptr || p.teardown == nullptr)
    return "it lacks an entry point (docs/candidate-abi.md)";
  sculler_problem problem{};
  problem.abi_version = SCULLER_ABI_VERSION;
  for (const auto& dim : parts_of(line.dims))
    if (problem.n_dims < SCULLER_MAX_DIMS) problem.dim[problem.n_dims++] = std::stoll(dim);
  sculler_rank rank{};
  rank.abi_version = SCULLER_ABI_VERSION;
  rank.n_ranks = rank.lsa_size = 1;
  rank.stream = machine.stream;
  const sculler_set set{static_cast<uint32_t>(buffers.all().size()), 0, buffers.all().data()};
  const sculler_pool pool{1, 0, &set};
  void* state = nullptr;
  if (const int code = p.setup(&rank, &problem, &pool, &state); code != SCULLER_OK)
    return "setup returned " + std::to_string(code);
  if (auto bad = buffers.poison(); !bad.empty()) return bad;
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + kRuns; ++i) {
    if (auto bad = machine.evict(); !bad.empty()) return bad;
    (void)cudaEventRecord(machine.begin, machine.stream);
    if (const int code = p.run(state, &problem, 0); code != SCULLER_OK)
      return "run returned " + std::to_string(code);
    (void)cudaEventRecord(machine.end, machine.stream);
    float ms = 0;
    if (auto bad = failure("run", cudaDeviceSynchronize()); !bad.empty()) return bad;
    if (auto bad = failure("events", cudaEventElapsedTime(&ms, machine.begin, machine.end));
        !bad.empty())
      return bad;
    if (i >= kWarmUps) times.push_back(ms * 1e3);
  }
  std::ranges::sort(times);
  median = (times[kRuns / 2 - 1] + times[kRuns / 2]) / 2;
  if (auto bad = buffers.difference(line.name.substr(0, line.name.find('/')), sample, relative);
      !bad.empty())
    return bad;
  if (const int code = p.teardown(state); code != SCULLER_OK)
    return "teardown returned " + std::to_string(code);
  dlclose(loaded);
  return "";
}

// Lines from `first` on, until one fails; a byte to `told` for each that is done.
int run_from(const std::vector<Line>& lines, size_t first, Sample& sample, int told) {
  Machine machine;
  Buffers buffers;
  const std::string none = machine.make();
  for (size_t i = first; i < lines.size(); ++i) {
    const Line& line = lines[i];
    double us = 0, relative = 0;
    const auto bad = none.empty() ? time_runs(line, machine, buffers, sample, us, relative) : none;
    if (bad.empty())
      std::printf("%-72s %9.1f us %7.0f GB/s %7.1f TFLOP/s  differs by %.1e\n", line.name.c_str(),
                  us, line.bytes / us * 1e-3, line.flops / us * 1e-6, relative);
    else std::printf("%-72s failed: %s\n", line.name.c_str(), bad.c_str());
    std::fflush(stdout);
    if (write(told, "", 1) != 1) return 1;
    // What a fault leaves behind ends with the process.
    if (!bad.empty()) return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: quick LIST\n");
    return 2;
  }
  const auto lines = read_list(argv[1]);
  std::printf(
      "unconfirmed: programs are not checked here, verdicts of sculler-eval are what counts\n");
  std::fflush(stdout);
  void* const shared =
      mmap(nullptr, sizeof(Sample), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  auto* const sample = new (shared) Sample{};
  for (size_t done = 0; done < lines.size();) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) _exit(run_from(lines, done, *sample, ends[1]));
    close(ends[1]);
    const size_t before = done;
    bool late = false;
    for (;;) {
      pollfd waiting{ends[0], POLLIN, 0};
      char byte = 0;
      late = poll(&waiting, 1, kMostMs) == 0;
      if (late) kill(child, SIGKILL);
      if (late || read(ends[0], &byte, 1) != 1) break;
      ++done;
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const bool died = !WIFEXITED(status);
    if (done < lines.size() && (died || done == before)) {
      std::printf("%-72s failed: %s\n", lines[done].name.c_str(),
                  late ? "no end within 20 s" : "the process died");
      std::fflush(stdout);
      ++done;
    }
  }
  return 0;
}
