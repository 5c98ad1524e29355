// One iteration as the emulator saw it: operations with what they read and wrote
// (docs/internals.md, "Operations").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::analyze {

struct Space {  // an allocation
  int rank = 0;
  std::string name;  // "C of set 3", "cudaMalloc 2"
  uint64_t bytes = 0;
};

struct Bytes {
  int space = -1;  // index into Iteration::spaces; -1: none
  uint64_t begin = 0, end = 0;
  [[nodiscard]] uint64_t size() const { return end - begin; }
  [[nodiscard]] bool touches(const Bytes& o) const {
    return space == o.space && begin < o.end && o.begin < end;
  }
};

struct Span : Bytes {
  bool sparse = false;  // not every byte of it
  std::string at;       // "ring.cu:84", of the first access
  // Of equal parts of the range, for what kernels touch: the blocks, and the steps of a block (its
  // accesses to global memory, counted from 1), that touched it first and last.
  struct Part {
    int64_t first_block = 0, last_block = 0, first_step = 0, last_step = 0;
  };
  std::vector<Part> parts;
};

// One call of a collective operation; a group has several.
struct CollectiveCall {
  std::string name, at;  // "ncclSend", line of the call
  int peer = -1;         // root, receiver or sender; -1: none
  std::vector<int> members;
  uint64_t bytes = 0;  // count times size
  Bytes send, recv;    // space -1: none
};

struct Operation {
  int64_t id = 0;
  int rank = 0;
  int64_t stream = 0, started = 0;
  // kernel, gemm, collective, copy, memset, event_record, event_wait, write_value, wait_value,
  // host_function, graph_launch, free
  std::string kind, name, at;  // at: of the call in host code
  std::vector<int64_t> after;  // ids, besides the order of the stream
  int64_t meeting = -1;        // collectives that ran together have the same
  uint64_t bytes = 0, flops = 0;
  int64_t blocks = 0, steps = 0;
  double start_us = -1, end_us = -1;  // predicted; -1: not known
  std::string bound;                  // what limits it: "tensor", "hbm", "link", …
  std::vector<Span> reads, writes;
  std::vector<CollectiveCall> calls;
  [[nodiscard]] bool timed() const { return end_us >= 0; }
  [[nodiscard]] double duration() const { return timed() ? end_us - start_us : 0; }
};

struct Iteration {
  std::vector<Space> spaces;
  std::vector<Operation> operations;  // in the order of their ids; the harness's are left out
  int n_ranks = 0;
  bool truncated = false;
  std::string untimed;  // why no times were predicted; empty: they were
  [[nodiscard]] bool own(const Operation& op, const Bytes& bytes) const {
    return bytes.space >= 0 && spaces[static_cast<std::size_t>(bytes.space)].rank == op.rank;
  }
};

// The verdict's "trace" object, bounded; `file` is what the source is called ("candidate.cu" in the
// text). kProtocol where it holds no operations.
[[nodiscard]] Result<Iteration> read_iteration(std::string_view trace_json, std::string_view file);

}  // namespace sculler::analyze
