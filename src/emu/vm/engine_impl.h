// The engine's parts: modules and kernels (modules.cpp), launching and residency (launch.cpp),
// running (engine.cpp), reports (report.cpp).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emu/vm/engine.h"
#include "emu/vm/execute.h"
#include "emu/vm/scheduler.h"
#include "emu/vm/state.h"

namespace sculler::emu {

struct Engine::Impl final : vm::Wakes {
  explicit Impl(const EngineConfig& c);
  ~Impl() override = default;

  EngineConfig config;
  Memory memory;
  vm::Machine machine;
  vm::Scheduler scheduler;

  // ---- Modules and kernels.
  struct Text {  // one PTX text, shared by the ranks
    std::shared_ptr<const ptx::Module> module;
    std::map<std::string, std::shared_ptr<vm::Program>, std::less<>> programs;
  };
  struct Loaded {
    int rank = 0;
    bool live = true;
    std::shared_ptr<Text> text;
    std::map<std::string_view, std::pair<Address, uint64_t>> globals;
    std::map<std::string, KernelId, std::less<>> kernels;
  };
  struct Code {
    std::shared_ptr<const vm::Program> program;
    uint32_t function = 0;
  };
  std::unordered_multimap<uint64_t, std::shared_ptr<Text>> texts;  // by hash of the text
  std::deque<Loaded> modules;
  std::deque<vm::Kernel> kernels;
  std::vector<Code> code{Code{}};  // by CodeRef::function; 0 is none

  // ---- Grids and residency.
  struct Sm {
    uint32_t warps = 0, blocks = 0, registers = 0, shared = 0;
    void take(const vm::Grid& grid);
    void give_back(const vm::Grid& grid);
  };  // in use
  std::vector<std::vector<Sm>> sms;              // [rank][sm]
  std::vector<std::unique_ptr<vm::Grid>> grids;  // in the machine
  std::map<GridId, GridCounters> counters;       // of finished grids
  std::vector<GridId> finished;
  std::vector<uint32_t> free_windows;
  std::map<uint32_t, std::vector<std::unique_ptr<vm::Block>>> spare;  // to be used again, by warps
  size_t spare_warps = 0;
  uint32_t n_windows = 0;
  GridId next_grid = 1;
  uint32_t next_cluster = 1;
  std::vector<bool> admissible;  // [rank]: a block may have become free
  vm::Warp* running = nullptr;
  std::vector<vm::Warp*> parked;
  size_t parked_next = 0;
  uint64_t slices = 0;
  uint64_t idle_yields = 0;  // slices in a row that only waited
  // Since when memory has not changed and no block has come or gone.
  uint64_t quiet_epoch = 0, quiet_changes = 0, quiet_since = 0, changes = 0;

  uint32_t blocks_per_sm(const vm::Kernel& kernel, uint32_t threads, uint32_t dynamic_shared) const;
  Result<GridId> launch(const LaunchRequest& request);
  void admit();
  bool place(vm::Grid& grid);
  void begin_block(vm::Grid& grid, uint32_t sm, const std::shared_ptr<vm::Cluster>& cluster,
                   uint32_t cluster_rank);
  void end_block(vm::Block& block);
  void end_grid(size_t index);
  void drop_grid(vm::Grid& grid);
  void kill_rank(int rank);

  // ---- Running.
  Stop run(uint64_t budget);
  void wake(vm::Warp& w) override;
  void look_at_parked(bool all);
  void unpark(size_t index);
  bool after_slice(vm::Warp& w, vm::SliceEnd end);  // false: stop
  [[nodiscard]] bool circling() const;
};

}  // namespace sculler::emu
