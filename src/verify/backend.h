// The C ABI of verify_backend.so: the checker's CUDA part (backend_cuda.cu) linked with the task's
// expected.cu. One context on each device, of the checker's own.
#pragma once

#include <cstdint>

#include "sculler/candidate.h"

extern "C" {

inline constexpr uint32_t kVerifyBackendVersion = 2;

struct sculler_verify_buffer {
  uint64_t elements, row_elements, bytes;
  uint32_t dtype, family;
  int32_t role;  // sculler::verify::Role
  int32_t replicated;
};

struct sculler_verify_spec {
  int32_t n_ranks, n_sets, n_buffers;
  const int32_t* devices;  // of each rank; rank r where null
  const sculler_verify_buffer* buffers;
  uint64_t seed;
  const sculler_problem* problem;
  uint64_t shift;  // of each buffer from the begin of its allocation
};

// Sums that a comparison kernel makes; expected values are finite and of the buffer's dtype.
struct sculler_verify_sums {
  double error_squares, expected_squares;
  double max_abs, peak;
  uint64_t bad, not_finite, unwritten;
  int64_t first_bad, first_unwritten;  // -1: none
};

struct sculler_verify_backend;

// Every function returns 0, or non-zero with a text of at most 256 bytes in `why`.
struct sculler_verify_api {
  uint32_t version;
  int (*open)(const sculler_verify_spec* spec, sculler_verify_backend** out, char* why);
  // Maps rank's buffer; the descriptor stays the caller's.
  int (*adopt)(sculler_verify_backend* self, int32_t rank, int32_t set, int32_t buffer, int32_t fd,
               uint64_t bytes, char* why);
  int (*fill)(sculler_verify_backend* self, int32_t rank, int32_t set, int32_t buffer,
              int32_t content, char* why);
  int (*poison)(sculler_verify_backend* self, int32_t rank, int32_t set, int32_t buffer, char* why);
  // Waits until fills and poisons are done.
  int (*settle)(sculler_verify_backend* self, char* why);
  // Expected outputs of a content, computed once and kept on every device.
  int (*prepare)(sculler_verify_backend* self, int32_t content, char* why);
  // Copies elements [first, first + count) of rank's expected output to `into`.
  int (*expected)(sculler_verify_backend* self, int32_t rank, int32_t buffer, int32_t content,
                  uint64_t first, uint64_t count, void* into, char* why);
  // max_abs: the job's; the cap used is the larger of it and peak * sculler_peak_fraction.
  int (*compare)(sculler_verify_backend* self, int32_t rank, int32_t set, int32_t buffer,
                 int32_t content, double max_abs, sculler_verify_sums* sums, char* why);
  // The outputs of two sets that ran on one content, against each other.
  int (*repeat)(sculler_verify_backend* self, int32_t rank, int32_t set, int32_t other,
                int32_t buffer, int32_t content, double max_abs, sculler_verify_sums* sums,
                char* why);
  int (*changed)(sculler_verify_backend* self, int32_t rank, int32_t set, int32_t buffer,
                 int32_t content, uint64_t* elements, char* why);
  void (*close)(sculler_verify_backend* self);
};

using sculler_verify_entry = const sculler_verify_api* (*)();  // "sculler_verify_backend_api"
}
