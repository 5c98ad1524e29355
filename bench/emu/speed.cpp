// Warp instructions a second on one core, without checks and with the race checker: speed [program
// [plain|races]].
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "emu/check/checker.h"
#include "emu/vm/engine.h"

namespace {

using namespace sculler::emu;

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Speed {
  double rate = 0, lanes = 0;
};

class Bench {
 public:
  Bench(int ranks, bool checked) : ranks_(ranks) {
    if (checked) checker_ = make_checker();
    EngineConfig config;
    config.n_ranks = ranks;
    config.observer = checker_.get();
    config.limits.memory_bytes = uint64_t{1} << 30;
    engine_ = std::make_unique<Engine>(config);
    for (int r = 0; r < ranks; ++r) {
      auto m = engine_->load(r, read_text(SCULLER_SPEED_PTX));
      if (!m) throw std::runtime_error(m.error().text());
      modules_.push_back(*m);
    }
  }
  Address memory(int rank, uint64_t bytes) {
    const Address a =
        *engine_->memory().allocate(rank, bytes, Allocation::Kind::kNccl, "buffer", true);
    engine_->memory().find(a)->peer_accessible = true;
    return a;
  }
  template <class... A>
  void launch(int rank, const char* name, std::array<uint32_t, 3> grid, uint32_t block, A... args) {
    auto k = engine_->kernel(modules_[static_cast<size_t>(rank)], name);
    if (!k) throw std::runtime_error(k.error().text());
    LaunchRequest r;
    r.rank = rank;
    r.kernel = *k;
    r.grid = grid;
    r.block = {block, 1, 1};
    if (checker_)
      r.stream = stream_[rank] != 0 ? stream_[rank] : stream_[rank] = checker_->add_stream(rank);
    r.params.assign(engine_->info(*k).param_bytes, 0);
    size_t at = 0;
    ((std::memcpy(r.params.data() + engine_->info(*k).params[at++].offset, &args, sizeof args)),
     ...);
    auto g = engine_->launch(r);
    if (!g) throw std::runtime_error(g.error().text());
    grids_.push_back(*g);
  }
  Speed run() {
    // Processor time, so that a busy machine does not count.
    const auto now = [] {
      timespec t{};
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
      return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    };
    const double start = now();
    Engine::Stop stop;
    while ((stop = engine_->run(~uint64_t{0})) == Engine::Stop::kGridDone)
      (void)engine_->take_finished();
    seconds_ += now() - start;
    if (stop != Engine::Stop::kIdle)
      throw std::runtime_error("did not finish: " + engine_->fault().message);
    if (checker_ && !checker_->findings().empty())
      throw std::runtime_error("the checker accuses a correct program");
    uint64_t warps = 0, lanes = 0;
    for (GridId g : grids_) {
      warps += engine_->counters(g).warp_instructions;
      lanes += engine_->counters(g).lane_instructions;
    }
    return {static_cast<double>(warps) / seconds_,
            static_cast<double>(lanes) / static_cast<double>(warps)};
  }

 private:
  int ranks_;
  std::unique_ptr<Observer> checker_;
  std::unique_ptr<Engine> engine_;
  std::vector<ModuleId> modules_;
  std::vector<GridId> grids_;
  ActorId stream_[16] = {};
  double seconds_ = 0;
};

Speed mma_tile(bool checked) {
  Bench b(1, checked);
  const int m = 512, n = 512, k = 1024;
  b.launch(0, "mma_tile", {n / 64, m / 64, 1}, 128, b.memory(0, m * k * 2), b.memory(0, n * k * 2),
           b.memory(0, m * n * 4), n, k);
  return b.run();
}
Speed lsa_barrier(bool checked) {
  Bench b(4, checked);
  Address base = 0;
  for (int r = 4; r-- > 0;) base = b.memory(r, 1 << 21);
  for (int r = 0; r < 4; ++r)
    b.launch(r, "lsa_barrier", {8, 1, 1}, 128, base, kRankStride, uint64_t{1} << 20, r, 800);
  return b.run();
}
Speed copy16(bool checked) {
  Bench b(1, checked);
  const uint64_t bytes = uint64_t{1} << 20;
  const Address from = b.memory(0, bytes), to = b.memory(0, bytes);
  std::memset(reinterpret_cast<void*>(from), 1, bytes);
  Speed sum;
  for (int k = 0; k < 64; ++k) {  // one after the other, as a stream has them
    b.launch(0, "copy16", {16, 1, 1}, 256, from, to, bytes / 16);
    sum = b.run();
  }
  return sum;
}
Speed atomics(bool checked) {
  Bench b(1, checked);
  const int n = 1 << 23;
  const Address in = b.memory(0, n * 4);
  for (int i = 0; i < n; ++i) reinterpret_cast<uint32_t*>(in)[i] = static_cast<uint32_t>(i);
  b.launch(0, "atomics", {132, 1, 1}, 256, in, b.memory(0, 4096), n);
  return b.run();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string only = argc > 1 ? argv[1] : "", which = argc > 2 ? argv[2] : "";
  struct {
    const char* name;
    Speed (*run)(bool);
  } programs[] = {{"mma_tile", mma_tile},
                  {"lsa_barrier", lsa_barrier},
                  {"copy16", copy16},
                  {"atomics", atomics}};
  std::printf("%-12s %22s %22s %8s\n", "program", "M warp instr/s, plain", "with races", "lanes");
  double plain = 0, checked = 0;
  int n = 0;
  for (const auto& p : programs) {
    if (!only.empty() && only != p.name) continue;
    const Speed a = which == "races" ? Speed{} : p.run(false),
                c = which == "plain" ? Speed{} : p.run(true);
    std::printf("%-12s %22.1f %22.1f %8.1f\n", p.name, a.rate / 1e6, c.rate / 1e6, a.lanes);
    plain += std::log(a.rate / 1e6);
    checked += std::log(c.rate / 1e6);
    ++n;
  }
  if (n > 1)
    std::printf("%-12s %22.1f %22.1f\n", "geo. mean", std::exp(plain / n), std::exp(checked / n));
} catch (const std::exception& e) {
  std::fprintf(stderr, "speed: %s\n", e.what());
  return 1;
}
