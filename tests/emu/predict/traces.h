// Traces as the device layer leaves them, of gemm_allgather's baselines at an emulated size, built
// call by call.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emu/device/trace.h"
#include "task/task.h"

namespace sculler::emu::test {

struct Size {
  int64_t s, k, n;
};

inline task::Work work_of(const Size& size, int ranks) {
  const double rows = static_cast<double>(size.s) / ranks;
  const auto k = static_cast<double>(size.k);
  const auto n = static_cast<double>(size.n);
  return task::Work{2 * rows * k * n, 2 * (rows * k + n * k + static_cast<double>(size.s) * n),
                    2 * rows * n * (ranks - 1)};
}

class TraceBuilder {
 public:
  TraceBuilder(int ranks, Size size) : n_(ranks), size_(size) {
    for (int r = 0; r < n_; ++r) mark(r, "opened");
  }
  uint32_t add(int rank, uint32_t stream, OpKind kind, const std::string& name,
               std::vector<uint32_t> after = {}) {
    TraceOp op;
    op.kind = kind;
    op.rank = static_cast<int16_t>(rank);
    op.stream = stream;
    op.name = trace.intern(name);
    op.first_dependency = static_cast<uint32_t>(trace.dependencies.size());
    op.n_dependencies = static_cast<uint32_t>(after.size());
    trace.dependencies.insert(trace.dependencies.end(), after.begin(), after.end());
    op.done = true;
    trace.ops.push_back(op);
    return static_cast<uint32_t>(trace.ops.size() - 1);
  }
  void mark(int rank, const std::string& label) { add(rank, UINT32_MAX, OpKind::kMark, label); }
  uint32_t gemm(int rank, uint32_t stream, int parts) {
    const uint32_t id = add(rank, stream, OpKind::kGemm, "cublasGemmEx");
    const task::Work work = work_of(size_, n_);
    trace.ops[id].flops = static_cast<uint64_t>(work.flops / parts);
    trace.ops[id].hbm_bytes = static_cast<uint64_t>(work.hbm_bytes / 2 / parts);
    return id;
  }
  uint32_t gather(int rank, uint32_t stream, int parts, uint32_t meeting, bool symmetric) {
    const uint32_t id = add(rank, stream, OpKind::kCollective, "ncclAllGather");
    TraceOp& op = trace.ops[id];
    op.bytes = static_cast<uint64_t>(work_of(size_, n_).link_bytes / parts);
    op.meeting = meeting;
    op.symmetric = symmetric;
    op.n_ranks = static_cast<int16_t>(n_);
    return id;
  }
  uint32_t copy(int rank, uint32_t stream, int parts, int peer) {
    const uint32_t id = add(rank, stream, OpKind::kCopy, "cudaMemcpyAsync");
    TraceOp& op = trace.ops[id];
    op.bytes = static_cast<uint64_t>(work_of(size_, n_).link_bytes / (n_ - 1) / parts);
    op.route = CopyRoute::kPeer;
    op.peer = static_cast<int16_t>(peer);
    return id;
  }
  uint32_t kernel(int rank, uint32_t stream, const std::string& name,
                  const GridCounters& counters) {
    const uint32_t id = add(rank, stream, OpKind::kKernel, name);
    trace.ops[id].grid = static_cast<uint32_t>(trace.grids.size());
    TraceGrid grid;
    grid.counters = counters;
    trace.grids.push_back(grid);
    return id;
  }

  Trace trace;

 private:
  int n_;
  Size size_;
};

// Counters of the seeds' kernels as the emulator gave them at size emu on two ranks.
struct Recorded {
  const char* kernel;
  uint64_t instructions, tensor_flops, loads, stores, peer_stores, shared, transactions;
  uint32_t blocks, resident, threads;
};
inline constexpr Recorded kTileStore{"gemm_tile_store", 135595, 67108864, 1049668, 262212, 262148,
                                     4982792,           49171,  8,        264,     256};
inline constexpr Recorded kTileStore256{"gemm_tile_store", 108395, 67108864, 787492, 262180, 262148,
                                        3671044,           40975,  4,        132,    256};
inline constexpr Recorded kKernelFused{"gemm_push", 130320, 67108864, 1329596, 262272, 262208,
                                       4718592,     57826,  24,       264,     256};
inline constexpr Recorded kPush{"push", 68927, 0, 394956, 256, 262656, 0, 18035, 64, 264, 512};
inline constexpr Recorded kBarrier{"closing_barrier", 86, 0, 132, 4, 4, 0, 4, 1, 4224, 32};

inline GridCounters counters_of(const Recorded& r) {
  GridCounters c;
  c.warp_instructions = r.instructions;
  c.lane_instructions = r.instructions * 32;
  c.tensor_flops = r.tensor_flops;
  c.global_load_bytes = r.loads;
  c.global_store_bytes = r.stores;
  c.peer_store_bytes = r.peer_stores;
  c.shared_bytes = r.shared;
  c.global_transactions = r.transactions;
  c.blocks = r.blocks;
  c.resident_limit = r.resident;
  c.threads_per_block = r.threads;
  return c;
}

inline Trace sequential(int ranks, Size size, bool symmetric) {
  TraceBuilder b(ranks, size);
  for (int r = 0; r < ranks; ++r) {
    b.gemm(r, 1, 1);
    b.gather(r, 1, 1, 0, symmetric);
    b.mark(r, "done");
  }
  return b.trace;
}

inline Trace overlapped(int ranks, Size size, int chunks) {
  TraceBuilder b(ranks, size);
  for (int r = 0; r < ranks; ++r) {
    for (int i = 0; i < chunks; ++i) {
      b.gemm(r, 1, chunks);
      const uint32_t computed = b.add(r, 1, OpKind::kEventRecord, "cudaEventRecord");
      b.add(r, 2, OpKind::kEventWait, "cudaStreamWaitEvent", {computed});
      b.gather(r, 2, chunks, static_cast<uint32_t>(i), false);
    }
    const uint32_t gathered = b.add(r, 2, OpKind::kEventRecord, "cudaEventRecord");
    b.add(r, 1, OpKind::kEventWait, "cudaStreamWaitEvent", {gathered});
    b.mark(r, "done");
  }
  return b.trace;
}

inline Trace copy_engine(int ranks, Size size, int chunks) {
  TraceBuilder b(ranks, size);
  for (int r = 0; r < ranks; ++r) {
    for (int i = 0; i < chunks; ++i) {
      b.gemm(r, 1, chunks);
      const uint32_t computed = b.add(r, 1, OpKind::kEventRecord, "cudaEventRecord");
      for (int d = 1; d < ranks; ++d) {
        const auto side = static_cast<uint32_t>(1 + d);
        b.add(r, side, OpKind::kEventWait, "cudaStreamWaitEvent", {computed});
        b.copy(r, side, chunks, (r + d) % ranks);
      }
    }
    for (int d = 1; d < ranks; ++d) {
      const uint32_t sent =
          b.add(r, static_cast<uint32_t>(1 + d), OpKind::kEventRecord, "cudaEventRecord");
      b.add(r, 1, OpKind::kEventWait, "cudaStreamWaitEvent", {sent});
    }
    b.kernel(r, 1, kBarrier.kernel, counters_of(kBarrier));
    b.mark(r, "done");
  }
  return b.trace;
}

// One kernel, or a GEMM and a kernel.
inline Trace seed(int ranks, Size size, const Recorded& kernel, bool gemm = false) {
  TraceBuilder b(ranks, size);
  for (int r = 0; r < ranks; ++r) {
    if (gemm) b.gemm(r, 1, 1);
    b.kernel(r, 1, kernel.kernel, counters_of(kernel));
    b.mark(r, "done");
  }
  return b.trace;
}

}  // namespace sculler::emu::test
