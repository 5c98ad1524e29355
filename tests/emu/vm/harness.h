// Runs fixtures in ptx/ on an engine, with typed parameters.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "emu/vm/engine.h"

namespace sculler::emu {

inline std::string fixture(const std::string& name) {
  std::ifstream in(std::string(SCULLER_SOURCE_DIR) + "/tests/emu/vm/ptx/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Job {
 public:
  explicit Job(EngineConfig config = {}) {
    if (config.limits.memory_bytes > (uint64_t{1} << 30))
      config.limits.memory_bytes = uint64_t{1} << 30;
    engine = std::make_unique<Engine>(config);
    engine->on_print = [this](int, std::string_view text) { printed += text; };
  }

  void load(const std::string& name) {
    modules.clear();
    for (int r = 0; r < engine->config().n_ranks; ++r) {
      auto m = engine->load(r, fixture(name));
      ASSERT_TRUE(m) << m.error().message << ' ' << m.error().file;
      modules.push_back(*m);
    }
  }
  template <class T>
  T* allocate(size_t n, int rank = 0, Allocation::Kind kind = Allocation::Kind::kDevice,
              const char* name = "buffer") {
    auto a = engine->memory().allocate(rank, n * sizeof(T), kind, name, true);
    EXPECT_TRUE(a);
    if (kind == Allocation::Kind::kNccl) engine->memory().find(*a)->peer_accessible = true;
    return reinterpret_cast<T*>(*a);
  }
  template <class... A>
  Result<GridId> try_launch(int rank, const std::string& kernel, unsigned grid, unsigned block,
                            unsigned shared, bool cooperative, A... args) {
    auto k = engine->kernel(modules.at(static_cast<size_t>(rank)), kernel);
    if (!k) return tl::unexpected(k.error());
    LaunchRequest r;
    r.rank = rank;
    r.kernel = *k;
    r.grid = {grid, 1, 1};
    r.block = {block, 1, 1};
    r.dynamic_shared = shared;
    r.cooperative = cooperative;
    const KernelInfo& info = engine->info(*k);
    r.params.assign(info.param_bytes, 0);
    EXPECT_EQ(info.params.size(), sizeof...(A));
    size_t at = 0;
    const auto put = [&](const auto& v) {
      EXPECT_EQ(info.params[at].bytes, sizeof v);
      std::memcpy(r.params.data() + info.params[at].offset, &v, sizeof v);
      ++at;
    };
    (put(args), ...);
    return engine->launch(r);
  }
  template <class... A>
  GridId launch(int rank, const std::string& kernel, unsigned grid, unsigned block, A... args) {
    auto g = try_launch(rank, kernel, grid, block, 0, false, args...);
    EXPECT_TRUE(g) << g.error().message;
    return g ? *g : 0;
  }
  // Until all grids are done, or something else happens.
  Engine::Stop finish(uint64_t budget = 2'000'000'000) {
    const uint64_t end = engine->instructions() + budget;
    for (;;) {
      const auto stop = engine->run(end - engine->instructions());
      if (stop != Engine::Stop::kGridDone) return stop;
      (void)engine->take_finished();
    }
  }

  std::unique_ptr<Engine> engine;
  std::vector<ModuleId> modules;
  std::string printed;
};

}  // namespace sculler::emu
