// What a kernel's three entry points do: buffers and memory between two steps of a run.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "sculler/candidate.h"

namespace {

// One run: buffers in the task's order, `space` of as many floats as the state was made with.
struct Call {
  const sculler_problem* problem;
  const sculler_buffer* buffers;
  float* space;
  cudaStream_t stream;
  [[nodiscard]] int64_t dim(int i) const { return problem->dim[i]; }
  [[nodiscard]] float* buffer(int i) const { return static_cast<float*>(buffers[i].ptr); }
};

// A matrix as it lies in memory, the next of a batch `batch` floats further on: element
// (i, j) is data[i * row + j * column].
struct Matrix {
  const float* data;
  int64_t row, column, batch;
};

struct State {
  cudaStream_t stream;
  const sculler_pool* pool;
  float* space;
};

inline int make_state(const sculler_rank* rank, const sculler_pool* pool, int64_t space_floats,
                      void** state) {
  float* space = nullptr;
  if (space_floats > 0 &&
      cudaMalloc(&space, static_cast<size_t>(space_floats) * sizeof(float)) != cudaSuccess)
    return SCULLER_OUT_OF_MEMORY;
  *state = new State{static_cast<cudaStream_t>(rank->stream), pool, space};
  return SCULLER_OK;
}

inline Call call_of(void* state, const sculler_problem* problem, int set) {
  const auto* self = static_cast<State*>(state);
  return {problem, self->pool->set[set].buffer, self->space, self->stream};
}

inline int launched() { return cudaGetLastError() == cudaSuccess ? SCULLER_OK : SCULLER_ERROR; }

inline int end_state(void* state) {
  auto* self = static_cast<State*>(state);
  const bool fine = self->space == nullptr || cudaFree(self->space) == cudaSuccess;
  delete self;
  return fine ? SCULLER_OK : SCULLER_ERROR;
}

// Multiprocessors of the device, 0 where it does not say.
inline unsigned processors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 0;
  return static_cast<unsigned>(count);
}

inline unsigned blocks_of(int64_t n, int64_t each) {
  return static_cast<unsigned>((n + each - 1) / each);
}

}  // namespace
