// The device layer: what CUDA, NCCL and cuBLAS promise to a host program, for all ranks of a job,
// over one Engine. The server translates the drop-in libraries' messages into calls of this class;
// nothing here knows sockets or the layout of any library's structures.
//
// Time and order. Nothing on a device happens inside a call: calls put operations into streams,
// run() executes them by the seeded schedule. A call that blocks on hardware returns a ticket; when
// run() has brought it about, take_completions() names it. The order of everything is a function of
// (order of calls, EngineConfig::schedule), so a server that serves one rank at a time in a fixed
// order replays exactly. Single-threaded.
//
//   serve calls of ranks that are not blocked → run(budget) → answer take_completions(),
//   take_host_calls() → … run() == kWaiting and every rank's threads are blocked → deadlock() says
//   why.
//
// Errors: codes of the library that is emulated, never exceptions. A fault breaks its rank's
// context (every later call returns the sticky code, blocked calls end with it); the other ranks go
// on. explain(host) gives the sentence behind a rank's last error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "emu/device/trace.h"
#include "emu/device/types.h"
#include "emu/vm/engine.h"

namespace sculler::emu {

struct MachineConfig {
  EngineConfig engine{};
  DeviceProperties device{};
  DeviceRates rates{};  // for virtual time (event timing); the prediction has its own
  bool keep_trace = true;
  std::string host_object;  // what the ranks' host code is called in places
};

class Machine {
 public:
  explicit Machine(const MachineConfig& config);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] Engine& engine();
  [[nodiscard]] Memory& memory();
  [[nodiscard]] const MachineConfig& config() const;
  [[nodiscard]] const DeviceProperties& properties() const { return config().device; }

  // The number of a place in a rank's code, as the rank gave it: offsets in the candidate,
  // innermost first, zeroes behind the last. 0: none, or one place too many.
  using Offsets = std::array<uint32_t, 6>;
  [[nodiscard]] uint32_t host_site(const Offsets& offsets);
  // As Engine::locate(); of a call in host code the file is "candidate.so+0x1a2b+0x2c3d" and no
  // line.
  [[nodiscard]] Location locate(CodeRef code) const;

  // ---- Progress
  enum class Progress : uint8_t {
    kCompleted,  // at least one blocked call or host call is ready to be answered
    kBudget,     // more to do
    kWaiting,    // nothing can go on before some rank's host does something; if all are blocked:
                 // deadlock
    kIdle,       // no operation anywhere
    kFault,      // faults() grew; the affected rank's blocked calls have completed with the code
  };
  // Runs at most about `budget` warp instructions and the stream operations between them.
  Progress run(uint64_t budget);
  std::vector<Completion> take_completions();
  std::vector<HostCall> take_host_calls();
  void host_call_done(uint64_t id);
  [[nodiscard]] bool blocked(int rank) const;  // has a pending ticket
  [[nodiscard]] const std::vector<MachineFault>& faults() const;
  [[nodiscard]] DeadlockReport deadlock() const;
  // The sentence behind the rank's last error, empty if none. Sticky code of a broken rank, else 0.
  [[nodiscard]] std::string explain(int rank) const;
  [[nodiscard]] int sticky_error(int rank) const;
  // The rank's process is gone: its work is dropped, its peers see a broken communicator.
  void drop_rank(int rank);

  // ---- Memory. Device addresses are ordinary pointers for every rank once peer_accessible.
  Outcome malloc(Host, uint64_t bytes, Address* out);
  Outcome free(Host, Address);  // waits for the device, as cudaFree
  Outcome malloc_async(Host, uint64_t bytes, StreamHandle, Address* out);
  Outcome free_async(Host, Address, StreamHandle);
  Outcome malloc_host(Host, uint64_t bytes, bool managed,
                      Address* out);  // pinned and mapped, or managed
  Outcome free_host(Host, Address);
  Outcome memory_info(Host, uint64_t* free_bytes, uint64_t* total_bytes);
  [[nodiscard]] const Allocation* pointer_info(Address) const;  // null: pageable
  Outcome copy(Host, CopyRequest);
  Outcome set(Host, const MemsetRequest&);

  // The trusted side's own hands on device memory, as rank's host thread 0, at once (not in a
  // stream). False where [address, address + bytes) is not wholly inside one live allocation.
  bool harness_write(int rank, Address, const void* bytes, uint64_t n);
  bool harness_read(int rank, Address, void* bytes, uint64_t n);
  // Like the two above, for one who touches the memory directly (kLoad or kStore).
  bool harness_touch(int rank, Access, Address, uint64_t n);
  // Structures that a library keeps in device memory (windows, tables): initialised, no race with
  // anything.
  bool write_internal(int rank, Address, const void* bytes, uint64_t n);
  Result<Address> allocate_internal(int rank, uint64_t bytes, std::string name);
  // All ranks have met outside (the trusted side's own barrier between iterations): each host is
  // after all others.
  void harness_join();

  // ---- Modules and kernels
  Outcome load_module(Host, std::string ptx, ModuleId* out);
  Outcome unload_module(Host, ModuleId);
  Outcome get_kernel(Host, ModuleId, std::string_view name, KernelId* out);
  Outcome get_global(Host, ModuleId, std::string_view name, Address* out, uint64_t* bytes);
  Outcome launch(Host, KernelLaunch);
  Outcome launch_host_function(Host, StreamHandle, uint64_t function, uint64_t argument);

  // ---- Streams and events
  Outcome stream_create(Host, uint32_t flags, int priority, StreamHandle* out);
  Outcome stream_destroy(Host, StreamHandle);  // its work goes on
  Outcome stream_info(Host, StreamHandle, StreamInfo* out);
  Outcome stream_query(Host, StreamHandle);  // kCudaSuccess or kCudaNotReady
  Outcome stream_synchronize(Host, StreamHandle);
  Outcome device_synchronize(Host);
  Outcome stream_wait_event(Host, StreamHandle, EventHandle);
  Outcome stream_write_value(Host, const StreamValue&);
  Outcome stream_wait_value(Host, const StreamValue&);
  Outcome event_create(Host, uint32_t flags, EventHandle* out);
  Outcome event_destroy(Host, EventHandle);
  Outcome event_record(Host, EventHandle, StreamHandle);
  Outcome event_query(Host, EventHandle);
  Outcome event_synchronize(Host, EventHandle);
  Outcome event_elapsed_ms(Host, EventHandle start, EventHandle end, float* out);  // virtual time

  // ---- Capture and graphs
  Outcome capture_begin(Host, StreamHandle, CaptureMode);
  Outcome capture_end(Host, StreamHandle, GraphHandle* out);
  Outcome graph_node_count(Host, GraphHandle, uint64_t* out);
  Outcome graph_destroy(Host, GraphHandle);
  Outcome graph_instantiate(Host, GraphHandle, GraphExecHandle* out);
  Outcome graph_exec_destroy(Host, GraphExecHandle);
  Outcome graph_launch(Host, GraphExecHandle, StreamHandle);

  // ---- NCCL (errors are NcclCode). Collective calls inside a group return at once with their
  // handle; group_end blocks.
  std::array<uint8_t, 128> nccl_unique_id(Host);
  Outcome nccl_group_start(Host);
  Outcome nccl_group_end(Host);
  Outcome nccl_comm_init(Host, int n_ranks, const std::array<uint8_t, 128>& id, int comm_rank,
                         CommHandle* out);
  // color < 0: *out = 0
  Outcome nccl_comm_split(Host, CommHandle, int color, int key, CommHandle* out);
  Outcome nccl_comm_destroy(Host,
                            CommHandle);  // also finalize: waits for the rank's own operations
  Outcome nccl_comm_abort(Host, CommHandle);
  [[nodiscard]] const CommInfo* nccl_comm_info(Host, CommHandle) const;
  Outcome nccl_collective(Host, const CollectiveRequest&);
  // How many calls there were, those of one element aside: so ranks meet that share no memory, the
  // harness's among them.
  [[nodiscard]] uint64_t host_collectives() const;
  Outcome nccl_mem_alloc(Host, uint64_t bytes, Address* out);
  Outcome nccl_mem_free(Host, Address);
  // *handle is valid at once; window_info() once the call is over. `struct_bytes`: size of
  // ncclWindow_vidmem. Windows whose offsets differ between the ranks end with kNcclInvalidUsage;
  // explain() says so.
  Outcome nccl_window_register(Host, CommHandle, Address pointer, uint64_t bytes, uint32_t flags,
                               uint64_t struct_bytes, Address* handle);
  Outcome nccl_window_deregister(Host, CommHandle, Address handle);
  [[nodiscard]] const WindowInfo* nccl_window_info(Host, Address handle) const;
  // Resources of a device communicator: one zeroed window of `resource_bytes` (equal on all ranks),
  // info as above.
  Outcome nccl_dev_comm_create(Host, CommHandle, uint64_t resource_bytes, uint64_t struct_bytes,
                               const GinNeeds& gin, Address* resource_window);
  // The caller's end of GIN; null: that device communicator has none.
  [[nodiscard]] const GinInfo* nccl_gin_info(Host, Address resource_window) const;
  [[nodiscard]] uint64_t gin_puts() const;  // so far, signals without a payload included
  Outcome nccl_dev_comm_destroy(Host, CommHandle, Address resource_window);

  // ---- cuBLAS (errors are CublasCode)
  Outcome gemm(Host, const GemmRequest&);

  // ---- Trace
  [[nodiscard]] const Trace& trace() const;
  void trace_mark(int rank, std::string label);  // the harness' own marks: "opened", "done"
  void trace_clear();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sculler::emu
