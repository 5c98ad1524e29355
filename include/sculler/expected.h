// For expected.cu of tasks: sums, products and norms in float64 on the device. Plain, no atomics,
// so that every run gives the same bits; shares nothing with any candidate. The checker validates
// random rows of what comes of it against the task's reference.cpp.
#ifndef SCULLER_EXPECTED_H
#define SCULLER_EXPECTED_H

#include <cuda_runtime.h>
#include <stdint.h>

#include "sculler/candidate.h"

namespace sculler {

constexpr int kExpectedThreads = 256;
constexpr int kExpectedTile = 64, kExpectedDepth = 16;

template <class F>
__global__ void expected_each(int64_t n, F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    f(i);
}

// f(i) for 0 <= i < n, each by some thread.
template <class F>
void each(int64_t n, cudaStream_t stream, F f) {
  const int64_t blocks = (n + kExpectedThreads - 1) / kExpectedThreads;
  if (n > 0)
    expected_each<<<static_cast<unsigned>(blocks < 4096 ? blocks : 4096), kExpectedThreads, 0,
                    stream>>>(n, f);
}

template <class F>
__global__ void expected_rows(int64_t columns, F f) {
  __shared__ double part[kExpectedThreads];
  const auto row = static_cast<int64_t>(blockIdx.x);
  // Sums in one order: a thread's own columns, then the threads' in turn.
  const auto total = [&](auto term) {
    double sum = 0;
    for (int64_t j = threadIdx.x; j < columns; j += kExpectedThreads) sum += term(j);
    __syncthreads();
    part[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < kExpectedThreads; ++i) sum += part[i];
    return sum;
  };
  const auto largest = [&](auto term) {
    double most = -1e300;
    for (int64_t j = threadIdx.x; j < columns; j += kExpectedThreads) most = fmax(most, term(j));
    __syncthreads();
    part[threadIdx.x] = most;
    __syncthreads();
    for (int i = 0; i < kExpectedThreads; ++i) most = fmax(most, part[i]);
    return most;
  };
  f(row, total, largest);
}

// f(row, total, largest) by a block for each row: total(term) and largest(term) are the sum and the
// largest of term(j) over the row's columns, known to all of the block's kExpectedThreads threads.
template <class F>
void each_row(int64_t rows, int64_t columns, cudaStream_t stream, F f) {
  if (rows > 0)
    expected_rows<<<static_cast<unsigned>(rows), kExpectedThreads, 0, stream>>>(columns, f);
}

template <class A, class B, class Finish>
__global__ void __launch_bounds__(kExpectedThreads)
    expected_product(int64_t m, int64_t n, int64_t k, A a, B b, Finish finish) {
  __shared__ double tile_a[kExpectedDepth][kExpectedTile + 1];
  __shared__ double tile_b[kExpectedDepth][kExpectedTile + 1];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kExpectedTile,
                column0 = static_cast<int64_t>(blockIdx.x) * kExpectedTile;
  const int thread = static_cast<int>(threadIdx.x), tx = thread % 16, ty = thread / 16;
  double sum[4][4] = {};
  for (int64_t l = 0; l < k; l += kExpectedDepth) {
    for (int e = thread; e < kExpectedTile * kExpectedDepth; e += kExpectedThreads) {
      const int depth = e % kExpectedDepth, row = e / kExpectedDepth;
      tile_a[depth][row] = row0 + row < m && l + depth < k ? a(row0 + row, l + depth) : 0.0;
      const int column = e % kExpectedTile, at = e / kExpectedTile;
      tile_b[at][column] = column0 + column < n && l + at < k ? b(l + at, column0 + column) : 0.0;
    }
    __syncthreads();
    for (int depth = 0; depth < kExpectedDepth; ++depth) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sum[i][j] = fma(tile_a[depth][ty + 16 * i], tile_b[depth][tx + 16 * j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t row = row0 + ty + 16 * i, column = column0 + tx + 16 * j;
      if (row < m && column < n) finish(row, column, sum[i][j]);
    }
}

// finish(i, j, sum over l of a(i, l) * b(l, j)) for an m x n product of k terms each.
template <class A, class B, class Finish>
void product(int64_t m, int64_t n, int64_t k, cudaStream_t stream, A a, B b, Finish finish) {
  if (m < 1 || n < 1) return;
  const dim3 grid(static_cast<unsigned>((n + kExpectedTile - 1) / kExpectedTile),
                  static_cast<unsigned>((m + kExpectedTile - 1) / kExpectedTile));
  expected_product<<<grid, kExpectedThreads, 0, stream>>>(m, n, k, a, b, finish);
}

// Device memory for what lies between two steps; given back in the stream's order.
class Between {
 public:
  Between(int64_t elements, cudaStream_t stream) : stream_(stream) {
    const auto bytes = static_cast<size_t>(elements < 1 ? 1 : elements) * sizeof(double);
    if (cudaMallocAsync(reinterpret_cast<void**>(&data_), bytes, stream) != cudaSuccess)
      data_ = nullptr;
  }
  ~Between() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  Between(const Between&) = delete;
  Between& operator=(const Between&) = delete;
  [[nodiscard]] double* data() const { return data_; }

 private:
  double* data_ = nullptr;
  cudaStream_t stream_;
};

inline int launched() { return cudaGetLastError() == cudaSuccess ? SCULLER_OK : SCULLER_ERROR; }

}  // namespace sculler
#endif
