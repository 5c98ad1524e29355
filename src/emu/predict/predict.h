// Virtual time: how long one iteration would take at a real problem size, from the trace of an
// emulated run at a small one. Library calls, copies and collectives take what the hardware profile
// measured; a candidate's own kernels take the largest of what their counters need of each unit,
// scaled by the task's work formulas. Streams, events, the host's launch gaps, shared SMs, copy
// engines and links are simulated. A prediction, never a measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "emu/device/trace.h"
#include "emu/device/types.h"
#include "task/profile.h"

namespace sculler::emu {

// [measured], [latency] and some of [nominal] of a profile: bytes/s, flop/s, seconds.
struct Rates {
  double clock = 0;   // Hz under load
  double tensor = 0;  // flop/s of mma.sync in a good kernel
  double fp32 = 0;
  double issue = 0;                    // warp instructions/s, all SMs
  double shared = 0, l2 = 0, hbm = 0;  // bytes/s, all SMs
  double gemm = 0, gemm_float32 = 0, gemm_start = 0;
  double link = 0, store = 0, load = 0, copy = 0, local_copy = 0, host_copy = 0;
  double store_sms = 0;
  double copy_interference = 0;
  double nccl = 0, nccl_latency = 0, nccl_symmetric = 0, nccl_symmetric_latency = 0;
  double nccl_sms = 0, nccl_beside_gemm = 0;
  double epilogue_overlap = 0;
  double bulk_overlap = 0;  // the same where TMA stores under wgmma
  uint32_t sms = 0, copy_engines = 0;
  struct {
    double kernel, gemm, collective, copy, event, wait, graph, memset, submit, gap, dependency,
        kernel_start, copy_start, barrier, synchronize;
  } host{};
};

// All that the emulator takes from a profile file.
struct Hardware {
  task::Profile profile;
  DeviceProperties
      device;  // limits.memory_bytes keeps its default: the emulated heap, not the card
  DeviceRates device_rates;
  Rates rates;
};
// Errors name the file and the key that is missing or not positive.
[[nodiscard]] Result<Hardware> load_hardware(Files& files, const std::string& path);
[[nodiscard]] Result<Hardware> hardware_of(task::Profile profile);

struct PredictRequest {
  int n_ranks = 1;
  task::Work emulated, real;  // of one rank, by the task's formulas at both sizes
  // The iteration: each rank's operations after its last mark of this name (and before the next
  // `end` mark, if any). A trace without such marks is one iteration.
  std::string begin = "opened", end = "done";
  // The mark stands before the harness' own barrier, with which the host waits: the iteration
  // begins after that.
  bool after_first_wait = false;
};

// One operation on the predicted time line, µs from the common start.
struct PredictedOp {
  uint32_t op = 0;  // id in the trace
  int rank = 0;
  uint32_t stream = 0;
  OpKind kind = OpKind::kKernel;
  double start_us = 0, end_us = 0;
  std::string name;
  std::string bound;  // kernels: "tensor", "issue", "shared", "l2", "hbm", "link", "latency"
};

struct Prediction {
  double latency_us = 0;  // the largest of per_rank_us
  std::vector<double> per_rank_us;
  std::vector<PredictedOp> ops;  // in order of their end
};

// kBadInput where the trace holds no work for some rank.
[[nodiscard]] Result<Prediction> predict(const Trace& trace, const PredictRequest& request,
                                         const Rates& rates);

}  // namespace sculler::emu
