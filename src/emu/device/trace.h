// What a job did on its devices, in the order that each rank's host asked for it: enough to replay
// it in virtual time for another problem size (predict/), and to find the data flow between kernels
// and collectives (analyze/).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emu/device/types.h"
#include "emu/vm/engine.h"
#include "emu/vm/memory.h"

namespace sculler::emu {

enum class OpKind : uint8_t {
  kKernel,
  kCopy,
  kMemset,
  kHostFunction,
  kEventRecord,
  kEventWait,
  kWriteValue,
  kWaitValue,
  kCollective,
  kGemm,
  kGraphLaunch,  // the nodes follow as operations of their own, launched by the device
  kFree,
  kHostWait,  // the host blocked here until `dependencies` were over: stream, event, device
              // synchronise
  kMark,      // harness
};

enum class CopyRoute : uint8_t {
  kLocal,
  kPeer,
  kHost
};  // device to device, to or from another rank, to or from host

struct TraceOp {
  OpKind kind = OpKind::kKernel;
  CopyRoute route = CopyRoute::kLocal;
  bool from_graph = false;  // no host launch cost
  bool symmetric = false;   // collective whose buffers lie in registered windows
  bool done = false;
  int8_t stream_priority = 0;
  int16_t rank = 0;
  int16_t n_ranks = 1;  // of the communicator
  uint32_t stream = 0;  // 0 legacy default, 1.. in order of creation, a rank's own numbering
  uint32_t name = 0;    // index into Trace::names: kernel, collective, mark
  uint32_t first_dependency = 0,
           n_dependencies = 0;    // in Trace::dependencies: ids of operations, besides stream order
  uint32_t grid = UINT32_MAX;     // in Trace::grids, kernels
  uint32_t meeting = UINT32_MAX;  // collectives that ran together have the same number
  uint32_t first_call = 0, n_calls = 0;  // in Trace::calls, collectives: the calls of a group
  uint64_t bytes = 0;    // copies, memsets: moved. Collectives: what this rank receives from peers
                         // (or sends, the larger)
  uint64_t flops = 0;    // gemm
  bool float32 = false;  // gemm: factors of float32, multiplied as such
  uint64_t hbm_bytes = 0;        // gemm, copies: read + written in own memory
  std::array<int64_t, 3> mnk{};  // gemm
  int16_t peer = -1;             // copies over the link: the other rank
};

struct TraceCall {
  Collective kind = Collective::kAllGather;
  int16_t peer = -1;     // root, receiver or sender: the job's rank; -1: none
  uint32_t members = 0;  // in Trace::members: the communicator's ranks
  uint64_t bytes = 0;    // count * size of an element
  Address send = 0, recv = 0;
  uint32_t site = 0;  // in host code
};

struct TraceGrid {
  GridCounters counters{};
  std::array<uint32_t, 3> grid{}, block{};
  uint32_t dynamic_shared = 0, static_shared = 0, registers = 0;
};

struct Trace {
  std::vector<TraceOp> ops;            // id = index + base, in the order of enqueue over all ranks
  std::vector<uint32_t> dependencies;  // ids
  std::vector<TraceGrid> grids;
  std::vector<TraceCall> calls;
  std::vector<std::vector<int>> members;  // of communicators: comm rank to the job's rank
  std::vector<std::string> names;
  uint32_t base = 0;  // id of ops[0]: grows when the trace is cleared

  std::map<std::string, uint32_t> index;  // of names
  uint32_t intern(const std::string& name);
};

// Rough rates for virtual time while a job runs (cudaEventElapsedTime): bytes/s, flop/s, seconds.
struct DeviceRates {
  double launch_s = 4e-6;
  double hbm = 4.8e12, link = 360e9, host_link = 50e9;
  double gemm_flops = 780e12;
  double instruction = 1.98e9 * 132 * 4 * 0.6;  // warp instructions
  double collective_latency_s = 30e-6, collective_bytes = 269e9;
};

}  // namespace sculler::emu
