// Kernels of a fixture on an engine with a checker.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "emu/check/checker.h"
#include "emu/check/report.h"
#include "emu/vm/engine.h"

namespace sculler::emu {

inline std::string data_file(const std::string& name) {
  std::ifstream in(std::string(SCULLER_SOURCE_DIR) + "/tests/emu/check/data/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Parameters of a launch, laid out as the kernel declares them.
class Params {
 public:
  template <class T>
  Params& add(T value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* first = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof(T));
    return *this;
  }
  void bytes(std::vector<uint8_t> all) { bytes_ = std::move(all); }
  [[nodiscard]] const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

struct Job {
  explicit Job(int n_ranks, uint64_t seed = 1, ScheduleKind kind = ScheduleKind::kRandom,
               const char* fixture = "cases.ptx") {
    CheckerConfig checks;
    checks.describe = [this](Address address) { return engine->memory().describe(address); };
    checker = make_checker(std::move(checks));
    EngineConfig config;
    config.n_ranks = n_ranks;
    config.limits.memory_bytes = uint64_t{64} << 20;
    config.schedule = {kind, seed, n_ranks - 1};
    config.observer = checker.get();
    engine = std::make_unique<Engine>(config);
    for (int rank = 0; rank < n_ranks; ++rank) {
      streams.push_back(checker->add_stream(rank));
      if (fixture == nullptr) continue;  // modules come later
      auto module = engine->load(rank, data_file(fixture));
      EXPECT_TRUE(module) << module.error().message;
      modules.push_back(*module);
    }
  }
  Address memory(int rank, uint64_t bytes, bool zeroed = true) {
    auto address =
        engine->memory().allocate(rank, bytes, Allocation::Kind::kNccl, "buffer", zeroed);
    EXPECT_TRUE(address);
    engine->memory().find(*address)->peer_accessible = true;
    return *address;
  }
  template <class T>
  void write(Address to, const std::vector<T>& values) {
    std::memcpy(reinterpret_cast<void*>(to), values.data(), values.size() * sizeof(T));
  }
  void launch(int rank, const char* name, uint32_t blocks, uint32_t threads, const Params& params) {
    launch(rank, name, {blocks, 1, 1}, threads, params, {1, 1, 1}, 0);
  }
  void launch(int rank, const char* name, std::array<uint32_t, 3> grid_size, uint32_t threads,
              const Params& params, std::array<uint32_t, 3> cluster, uint32_t dynamic_shared) {
    auto kernel = engine->kernel(modules[static_cast<size_t>(rank)], name);
    ASSERT_TRUE(kernel) << kernel.error().message;
    LaunchRequest request;
    request.rank = rank;
    request.kernel = *kernel;
    request.grid = grid_size;
    request.cluster = cluster;
    request.dynamic_shared = dynamic_shared;
    request.block = {threads, 1, 1};
    request.params = params.bytes();
    request.stream = streams[static_cast<size_t>(rank)];
    auto grid = engine->launch(request);
    ASSERT_TRUE(grid) << grid.error().message;
    grids.push_back(*grid);
  }
  Engine::Stop run() {
    for (int i = 0; i < 1000; ++i) {
      const Engine::Stop stop = engine->run(1'000'000);
      engine->take_finished();
      if (stop == Engine::Stop::kBudget || stop == Engine::Stop::kGridDone) continue;
      return stop;
    }
    return Engine::Stop::kBudget;
  }
  [[nodiscard]] LocateCode locate() const {
    return [this](CodeRef code) { return engine->locate(code); };
  }
  [[nodiscard]] std::vector<ReportedFinding> findings() const {
    return report(checker->findings(), locate());
  }

  std::unique_ptr<Observer> checker;
  std::unique_ptr<Engine> engine;
  std::vector<ActorId> streams;
  std::vector<GridId> grids{};  // in order of launching
  std::vector<ModuleId> modules;
};

inline std::string texts(const Job& job) {
  std::string out;
  for (const ReportedFinding& finding : job.findings())
    out += finding.kind + ": " + finding.text + "\n";
  return out;
}

}  // namespace sculler::emu
