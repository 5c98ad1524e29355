// Traces as the device layer leaves them, of gemm_allgather's baselines at an emulated size, built call by call.
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
  return task::Work{2 * rows * k * n, 2 * (rows * k + n * k + static_cast<double>(size.s) * n), 2 * rows * n * (ranks - 1)};
}

class TraceBuilder {
 public:
  TraceBuilder(int ranks, Size size) : n_(ranks), size_(size) {
    for (int r = 0; r < n_; ++r) mark(r, "opened");
  }
  uint32_t add(int rank, uint32_t stream, OpKind kind, const std::string& name, std::vector<uint32_t> after = {}) {
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
  uint32_t kernel(int rank, uint32_t stream, const std::string& name, const GridCounters& counters) {
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
  GridCounters barrier;
  barrier.warp_instructions = 200;
  barrier.lane_instructions = 6400;
  barrier.peer_store_bytes = 4;
  barrier.system_fences = 2;
  barrier.blocks = 1;
  barrier.resident_limit = 132 * 32;
  barrier.threads_per_block = 32;
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
      const uint32_t sent = b.add(r, static_cast<uint32_t>(1 + d), OpKind::kEventRecord, "cudaEventRecord");
      b.add(r, 1, OpKind::kEventWait, "cudaStreamWaitEvent", {sent});
    }
    b.kernel(r, 1, "closing_barrier", barrier);
    b.mark(r, "done");
  }
  return b.trace;
}

// A GEMM, then a kernel that copies the slice to the peers between barriers.
inline Trace split_phase(int ranks, Size size) {
  TraceBuilder b(ranks, size);
  const auto slice = static_cast<uint64_t>(size.s / ranks * size.n * 2);
  const auto peers = static_cast<uint64_t>(ranks - 1);
  GridCounters c;
  c.blocks = 64;
  c.threads_per_block = 512;
  c.resident_limit = 4 * 132;
  c.global_load_bytes = slice * peers;
  c.peer_store_bytes = slice * peers;
  c.warp_instructions = slice * peers / 512 * 8;
  c.lane_instructions = c.warp_instructions * 32;
  c.global_transactions = 2 * slice * peers / 32;
  c.system_fences = 128;
  for (int r = 0; r < ranks; ++r) {
    b.gemm(r, 1, 1);
    b.kernel(r, 1, "push", c);
    b.mark(r, "done");
  }
  return b.trace;
}

// The fused mma.sync kernel with 128 x 128 tiles; counters as its main loop and epilogue give them.
inline Trace tile_store(int ranks, Size size) {
  TraceBuilder b(ranks, size);
  const int64_t rows = size.s / ranks;
  const int64_t blocks = (rows / 128) * (size.n / 128);
  const int64_t steps = size.k / 64;
  const auto u = [](int64_t value) { return static_cast<uint64_t>(value); };
  GridCounters c;
  c.blocks = static_cast<uint32_t>(blocks);
  c.threads_per_block = 256;
  c.resident_limit = 2 * 132;
  c.tensor_flops = u(2 * rows * size.n * size.k);
  c.warp_instructions = u(blocks * 8 * (steps * 190 + 500));
  c.lane_instructions = c.warp_instructions * 32;
  c.global_load_bytes = u(blocks * steps * 2 * 128 * 64 * 2);
  c.global_store_bytes = u(rows * size.n * 2);
  c.peer_store_bytes = c.global_store_bytes * u(ranks - 1);
  c.shared_bytes = u(blocks * steps * 8 * 4 * 6 * 512 + blocks * 2 * 128 * 128 * 2);
  c.global_transactions = (c.global_load_bytes + c.global_store_bytes) / 32;
  c.system_fences = 4;
  for (int r = 0; r < ranks; ++r) {
    b.kernel(r, 1, "gemm_tile_store", c);
    b.mark(r, "done");
  }
  return b.trace;
}

}  // namespace sculler::emu::test
