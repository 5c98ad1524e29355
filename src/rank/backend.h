// The C ABI between sculler-rank and what owns a rank's device: rank_backend.so on cuda and emu
// (backend_cuda.cu, built by nvcc), the built-in one on cpu (backend_cpu.cpp). The program itself
// stays free of CUDA.
#pragma once

#include <cstdint>

#include "sculler/candidate.h"

extern "C" {

inline constexpr uint32_t kBackendVersion = 2;
inline constexpr uint32_t kBackendTextBytes = 320;

struct sculler_backend_error {
  int32_t fault;   // sculler::rank::FaultCode
  int32_t number;  // of the library, 0 if none
  char text[kBackendTextBytes];
};

struct sculler_backend_spec {
  int32_t rank, n_ranks, n_threads;
  int32_t workload;        // communicator and windows are wanted
  int32_t export_handles;  // cuda: buffers can be exported as POSIX descriptors
  int32_t
      expect_nccl;  // NCCL_VERSION_CODE of the headers the candidate was built with; 0: not checked
  int32_t n_sets, n_buffers;
  const uint64_t* bytes;  // of each buffer
  uint64_t shift;         // of a buffer from the begin of its allocation, a multiple of 256
  void* shared;           // cpu: what the ranks' barrier lies in
};

struct sculler_backend;

// Every function returns 0, or non-zero with *error set.
struct sculler_backend_api {
  uint32_t version;
  int32_t synchronous;  // sculler_run has finished the work when it returns
  int (*open)(const sculler_backend_spec* spec, sculler_backend** out,
              sculler_backend_error* error);
  // Rank 0 of a workload: 128 bytes for all ranks.
  int (*unique_id)(sculler_backend* self, void* id, sculler_backend_error* error);
  // Communicator (id is null where there is none), buffers, windows, peers. Collective on
  // workloads.
  int (*connect)(sculler_backend* self, const void* id, sculler_backend_error* error);
  // *fd: -1, or a descriptor that the caller closes.
  int (*buffer)(sculler_backend* self, int32_t set, int32_t buffer, uint64_t* address,
                uint64_t* bytes, int32_t* fd, sculler_backend_error* error);
  const sculler_rank* (*rank)(sculler_backend* self);
  const sculler_pool* (*pool)(sculler_backend* self);
  // All ranks have arrived and this rank's device is idle when it returns. flush_l2: 0, or 1 + the
  // set that runs next, where caches are to be cold.
  int (*barrier)(sculler_backend* self, int32_t flush_l2, sculler_backend_error* error);
  // Just before and just after sculler_run, and device-wide completion.
  int (*begin)(sculler_backend* self, sculler_backend_error* error);
  int (*end)(sculler_backend* self, sculler_backend_error* error);
  int (*synchronize)(sculler_backend* self, uint64_t* event_ns, sculler_backend_error* error);
  void (*close)(sculler_backend* self);
  // What the rank's stream gets from now on becomes a graph; ended, it is there for one replay.
  // Null on backends that have no graphs.
  int (*capture_begin)(sculler_backend* self, sculler_backend_error* error);
  int (*capture_end)(sculler_backend* self, sculler_backend_error* error);
  int (*replay)(sculler_backend* self, sculler_backend_error* error);
};

// Exported by rank_backend.so.
using sculler_backend_entry = const sculler_backend_api* (*)();
}
