// A float32 product on Hopper's tensor cores: each factor is a power of two for each row of a and
// each column of b times the sum of two fp16 (halves.h), and
//   low * high + high * low + high * high
// are three fp16 products with sums in float32, good to about 1e-7. Tensor cores round their sums
// towards zero, a bias that grows with the number of instructions; the low products come first,
// while the sums are small, so that only those of high * high count (K / 16). DEPTH 0: one after
// the other; else the sums are put aside every DEPTH of them and added in float32. JOINT 1: all
// three products of a tile of depth at once, so that each half is copied once, and 3 K / 16
// instructions count.
//
// A block has one warp that copies and two groups of four warps, each with 64 rows of the tile. It
// takes tile after tile, the copies run ahead into the next one. CLUSTER 2: two blocks, one above
// the other, each fetch half of what both need of b. Tunables are the first file's: TILE_N, STAGES,
// CLUSTER, BLOCKS (of a multiprocessor), DEPTH, JOINT.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "hopper.h"

namespace {

// EVOLVE-BLOCK-START
constexpr int kTileM = 128, kTileK = 64, kConsumers = 2;
// The copying group is a warp; where a block has the multiprocessor for itself it is four, which
// alone can give registers to the others.
constexpr bool kGivesRegisters = BLOCKS == 1;
constexpr int kProductThreads = kConsumers * 128 + (kGivesRegisters ? 128 : 32);
constexpr int kBox = kTileK * 64 * 2;  // bytes of 64 x 64 halves
constexpr int kBytesA = kTileM / 64 * kBox, kBytesB = TILE_N / 64 * kBox;
// Halves of each factor that a stage holds, and how often the depth is gone through.
constexpr int kHalves = JOINT ? 2 : 1, kParts = JOINT ? 1 : 3;
constexpr int kBytesAOfStage = kHalves * kBytesA;
constexpr int kStageBytes = kBytesAOfStage + kHalves * kBytesB, kStages = STAGES / kHalves;
constexpr int kSharedBytes = kStages * kStageBytes + 1024;  // stages begin at a multiple of 1024
constexpr int kSums = TILE_N / 2;                           // of a thread
constexpr int kDepth = DEPTH == 0 ? 1 << 30 : DEPTH;
static_assert(TILE_N == 128 || TILE_N == 256);
static_assert(kStages >= 2, "a stage is given back when the next one is multiplied");
static_assert(BLOCKS == 1 || TILE_N == 128, "there are not enough registers");
static_assert((kSharedBytes + 1024) * BLOCKS <= 228 * 1024, "there is not enough shared memory");
static_assert(TILE_N / 64 % CLUSTER == 0 && DEPTH % kTileK == 0);

struct Shape {
  int m, n, depths;           // depths: tiles of depth of one of the three products
  int down, across, batches;  // tiles; down: of CLUSTER tiles
  int planes, apart;          // planes and depth from one of a batch to the next
  [[nodiscard]] __host__ __device__ int tiles() const { return down * across * batches; }
};
struct Place {
  int batch, row, column, m, n;  // the first row and column, of how many
};

// Tile `t` of the block `rank` of a cluster. Some rows of tiles at a time, so that what neighbours
// read stays in the second-level cache.
__device__ inline Place place_of(const Shape& s, int t, int rank) {
  constexpr int kGroup = 16 / CLUSTER;
  const int batch = t / (s.down * s.across), in_batch = t % (s.down * s.across);
  const int group0 = in_batch / (kGroup * s.across) * kGroup, rows = min(kGroup, s.down - group0),
            within = in_batch % (kGroup * s.across);
  return {batch, ((group0 + within % rows) * CLUSTER + rank) * kTileM, within / rows * TILE_N, s.m,
          s.n};
}

struct Stage {
  int at = 0;
  uint32_t parity = 0;
  __device__ void next() {
    if (++at == kStages) at = 0, parity ^= 1;
  }
};

// y is K x N as it lies in memory; x's rows lie together (kAAlong) or its columns. A plane of high
// halves is followed by one of low halves. finish(place, sums) takes a thread's sums of
// a tile of 64 rows (multiply_16 says which). aside: kSums floats a thread, where DEPTH is not 0.
template <bool kAAlong, class Finish>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(kProductThreads, BLOCKS)
    halves_product(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y,
                   Shape shape, float* aside, Finish finish) {
  extern __shared__ uint8_t shared[];
  __shared__ __align__(8) uint64_t barriers[2 * kStages];
  const uint32_t stages = (address_of(shared) + 1023) & ~1023u;
  const auto full = [&](int stage) { return address_of(barriers + stage); };
  const auto empty = [&](int stage) { return address_of(barriers + kStages + stage); };
  const int thread = static_cast<int>(threadIdx.x), group = thread / 128;
  const int rank = CLUSTER == 1 ? 0 : static_cast<int>(cluster_rank());
  const int first = static_cast<int>(blockIdx.x) / CLUSTER,
            step = static_cast<int>(gridDim.x) / CLUSTER;

  if (thread == 0) {
    prefetch_map(&x);
    prefetch_map(&y);
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), kConsumers * 4 * CLUSTER);  // a warp each
    }
    barriers_made();
  }
  behind_previous();
  if constexpr (CLUSTER == 1) __syncthreads();
  else cluster_sync();

  Stage stage;
  if (group == kConsumers) {
    if constexpr (kGivesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (thread == kConsumers * 128) {
      for (int t = first; t < shape.tiles(); t += step) {
        const Place place = place_of(shape, t, rank);
        const int plane = place.batch * shape.planes, depth0 = place.batch * shape.apart;
        for (int part = 0; part < kParts; ++part) {
          for (int depth = depth0; depth < depth0 + shape.depths * kTileK; depth += kTileK) {
            const uint32_t at = stages + static_cast<uint32_t>(stage.at) * kStageBytes,
                           barrier = full(stage.at);
            wait_for(empty(stage.at), stage.parity ^ 1);
            arrive_expecting(barrier, kStageBytes);
#pragma unroll
            for (int h = 0; h < kHalves; ++h) {
              const int plane_x = plane + (JOINT ? h : part == 0),
                        plane_y = plane + (JOINT ? h : part == 1);
              const uint32_t to_x = at + h * kBytesA, to_y = at + kBytesAOfStage + h * kBytesB;
              if constexpr (kAAlong) {
                copy_box<false>(to_x, &x, barrier, depth, place.row, plane_x, 0);
              } else {
#pragma unroll
                for (int i = 0; i < kTileM / 64; ++i)
                  copy_box<false>(to_x + i * kBox, &x, barrier, place.row + i * 64, depth, plane_x,
                                  0);
              }
#pragma unroll
              for (int i = 0; i < TILE_N / 64 / CLUSTER; ++i) {
                const int box = rank * (TILE_N / 64 / CLUSTER) + i;
                copy_box<CLUSTER != 1>(to_y + static_cast<uint32_t>(box) * kBox, &y, barrier,
                                       place.column + box * 64, depth, plane_y, (1 << CLUSTER) - 1);
              }
            }
            stage.next();
          }
        }
      }
    }
    __syncwarp();
  } else {
    if constexpr (kGivesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    // A warp gives a stage back, to all that write to it.
    const auto release = [&](int which) {
      const int lane = thread % 32;
      if (lane < CLUSTER) arrive_at(empty(which), static_cast<uint32_t>(lane));
    };
    float* const mine = aside +
                        (static_cast<int64_t>(blockIdx.x) * kConsumers + group) * kSums * 128 +
                        thread % 128;
    const int steps = kParts * shape.depths;
    float sums[kSums] = {};
    for (int t = first; t < shape.tiles(); t += step) {
      int before = 0, keep = 0;
      bool kept_aside = false;
      for (int i = 0; i < steps; ++i) {
        wait_for(full(stage.at), stage.parity);
        const uint32_t at = stages + static_cast<uint32_t>(stage.at) * kStageBytes;
        // Along: 64 rows of depth 64. Across: 64 depths of 64 rows.
        const uint64_t a = factor_at(at + static_cast<uint32_t>(group) * kBox, 1024, 16),
                       b = factor_at(at + kBytesAOfStage, 1024, kBox);
        products_begin();
#pragma unroll
        for (int part = JOINT ? 0 : 2; part < 3; ++part) {
          const uint64_t of_a = a + (part == 0 ? kBytesA / 16 : 0),
                         of_b = b + (part == 1 ? kBytesB / 16 : 0);
#pragma unroll
          for (int k = 0; k < kTileK / 16; ++k) {
            multiply_16<!kAAlong, 1>(sums, of_a + static_cast<uint64_t>(k * (kAAlong ? 2 : 128)),
                                     of_b + static_cast<uint64_t>(k * 128), keep);
            keep = 1;
          }
        }
        products_commit();
        products_wait<1>();
        if (i > 0) release(before);
        before = stage.at;
        stage.next();
        if constexpr (DEPTH != 0) {
          const int done = i + 1 - (kParts - 1) * shape.depths;
          if (done > 0 && done < shape.depths && done * kTileK % kDepth == 0) {
            products_wait<0>();
            hold(sums);
#pragma unroll
            for (int e = 0; e < kSums; ++e)
              mine[e * 128] = kept_aside ? mine[e * 128] + sums[e] : sums[e];
            hold(sums);
            kept_aside = true;
            keep = 0;
          }
        }
      }
      products_wait<0>();
      hold(sums);
      release(before);
      if (DEPTH != 0 && kept_aside) {
#pragma unroll
        for (int e = 0; e < kSums; ++e) sums[e] += mine[e * 128];
      }
      Place place = place_of(shape, t, rank);
      place.row += group * 64;
      finish(place, sums);
    }
  }
  // No block ends while others arrive at its barriers.
  if constexpr (CLUSTER != 1) cluster_sync();
}

// Powers of two, of rows and of columns, that undo those of the factors; of each of a batch.
struct Scales {
  const float *rows, *columns;
  int64_t rows_batch, columns_batch;  // columns_batch is even
};

// The smaller one first: a large one alone may overflow.
__device__ inline float scaled(float sum, float of_row, float of_column) {
  return sum * fminf(of_row, of_column) * fmaxf(of_row, of_column);
}

// The other one's of a pair of lanes. (__shfl_xor_sync takes integers, and to spare the conversions
// the compiler would keep the sums as integers across the main loop, where ptxas then serialises
// the products: -Xptxas -v says C7517.)
__device__ inline float of_neighbour(float v) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=f"(other) : "f"(v));
  return other;
}

// f(row, column, v) for four neighbours in a row at a time, multiplied by the scales where kScaled.
// A thread has two of each eight columns; pairs of lanes exchange theirs, so that each writes 16
// bytes. The last of a row may lie beyond it.
template <bool kScaled, class F>
__device__ inline void each_four(const Place& p, const Scales& scales, const float (&sums)[kSums],
                                 F f) {
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
  const bool odd = lane % 2 == 1;
  const float* of_columns = scales.columns + p.batch * scales.columns_batch;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = p.row + thread / 32 * 16 + lane / 4 + half * 8;
    const float of_row =
        row < p.m && kScaled ? scales.rows[p.batch * scales.rows_batch + row] : 0.0f;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j += 2) {
      const int first = j * 4 + half * 2, second = first + 4;
      const float x = of_neighbour(odd ? sums[first] : sums[second]),
                  y = of_neighbour(odd ? sums[first + 1] : sums[second + 1]);
      float v[4] = {odd ? x : sums[first], odd ? y : sums[first + 1], odd ? sums[second] : x,
                    odd ? sums[second + 1] : y};
      const int column = p.column + (j + odd) * 8 + lane % 4 / 2 * 4;
      if (row >= p.m || column >= p.n) continue;
      if constexpr (kScaled) {
        const float4 of = __ldg(reinterpret_cast<const float4*>(of_columns + column));
        v[0] = scaled(v[0], of_row, of.x), v[1] = scaled(v[1], of_row, of.y);
        v[2] = scaled(v[2], of_row, of.z), v[3] = scaled(v[3], of_row, of.w);
      }
      f(row, column, v);
    }
  }
}

// y[batch][row][column]. kStream: it passes the caches by.
struct Output {
  float* data;
  int64_t row, batch;
  [[nodiscard]] __device__ bool wide() const {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && row % 4 == 0 && batch % 4 == 0;
  }
  template <bool kStream>
  __device__ void store(bool wide, const Place& p, int i, int j, const float (&v)[4]) const {
    float* const to = data + p.batch * batch + i * row + j;
    if (wide) {
      const float4 four{v[0], v[1], v[2], v[3]};
      if constexpr (kStream) __stcs(reinterpret_cast<float4*>(to), four);
      else *reinterpret_cast<float4*>(to) = four;
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (j + e < p.n) to[e] = v[e];
    }
  }
};
// value(place, row, column, v) changes the four sums v of a row from `column` on before they are
// stored.
template <class Value, bool kStream = true>
struct StoreTile {
  Output y;
  Scales scales;
  Value value;
  __device__ void operator()(const Place& p, const float (&sums)[kSums]) const {
    const bool wide = y.wide();
    each_four<true>(p, scales, sums, [&](int row, int column, float(&v)[4]) {
      value(p, row, column, v);
      y.store<kStream>(wide, p, row, column, v);
    });
  }
};
struct AsItIs {
  __device__ void operator()(const Place&, int, int, float (&)[4]) const {}
};
// EVOLVE-BLOCK-END

// A product that can be launched again and again: its factors lie where they lay.
struct Product {
  CUtensorMap x, y;
  Shape shape;
  float* aside;
  unsigned blocks;
};
inline int64_t aside_floats(unsigned blocks) {
  return DEPTH == 0 ? 0 : int64_t{blocks} * kConsumers * kSums * 128;
}
inline unsigned blocks_at_once() { return processors() * BLOCKS / CLUSTER * CLUSTER; }

template <bool kAAlong, class Finish>
void multiply(const Product& p, Queue& queue, const Finish& finish) {
  auto* const kernel = halves_product<kAAlong, Finish>;
  queue.fine =
      queue.fine && cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         kSharedBytes) == cudaSuccess;
  queue.launch(kernel, p.blocks, kProductThreads, kSharedBytes, p.x, p.y, p.shape, p.aside, finish);
}

}  // namespace
