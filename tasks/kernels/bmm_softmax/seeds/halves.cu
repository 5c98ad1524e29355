// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":32768,"why":"A row's maximum and sum need all of its columns, so the product is made twice and the output written once; two halves of a block take turns, one finds the sums of its rows while the other writes."}
//
// Y[b] = softmax(X[b] W[b]) on Hopper's tensor cores. First W is written as the tiles that products
// read, scaled and split into high and low fp16 numbers. Then a block sweeps several times over all
// tiles of one W, which pass by its four warp groups of 64 rows each: in one sweep two of them find
// the maximum and the sum of each of their rows, in the next one they write these while the other
// two find theirs. A product is low * high + high * low + high * high.
#include "entry.h"

// Tiles of W in shared memory, of 64 depths (deeper factors have fewer).
// sculler:tune SLOTS in {3,4,6}
#ifndef SLOTS
#define SLOTS 6
#endif
// Tasks of 128 rows of a block, which sweeps once more often than that.
// sculler:tune TASKS in {2,4,8}
#ifndef TASKS
#define TASKS 4
#endif
// 1: stores pass the caches by, where W's tiles are.
// sculler:tune STREAM in {0,1}
#ifndef STREAM
#define STREAM 1
#endif
#include "tiles.h"

namespace {
// EVOLVE-BLOCK-START
constexpr int kColumns = 128, kRows = 128, kGroups = 4, kThreads = kGroups * 128;
constexpr float kLog2E = 1.4426950408889634f;

// Bytes and slots for factors that are padded to a depth of kDepth.
template <int kDepth>
struct Sizes {
  static constexpr int kTile = kColumns * kDepth * 4, kLowRows = 64 * kDepth * 2;
  static constexpr int kSlots = kDepth == 64 ? SLOTS : (SLOTS + 1) / 3;
  static constexpr int kAhead = kSlots / 2;  // tiles that are asked for before they are needed
  static constexpr int kShared = kSlots * kTile + kGroups * kLowRows + 1024 + kSlots * 16;
};

struct Softmax {
  const float *x, *w;
  float* y;
  char* tiles;   // of [batch][tile]
  float* scale;  // what undoes a tile's
  int m, n, k;
  int count, down, blocks;  // tiles, tasks of a batch, blocks of a batch
};

template <int kDepth>
__global__ void __launch_bounds__(kSplitThreads) split_tiles(Softmax of) {
  behind_previous();
  const int first = static_cast<int>(blockIdx.x) * kColumns;
  const int64_t tile = static_cast<int64_t>(blockIdx.y) * of.count + blockIdx.x;
  const float scale = write_columns<kDepth>(
      of.w + static_cast<int64_t>(blockIdx.y) * of.k * of.n + first, of.n,
      min(kColumns, of.n - first), of.k, of.tiles + tile * Sizes<kDepth>::kTile);
  if (threadIdx.x == 0) of.scale[tile] = scale;
}

// Columns behind the last one count nothing.
__device__ inline void hide_columns(float (&product)[64], int first, int n) {
  if (first + kColumns <= n) return;
  const int left = n - first - static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 64; ++i)
    if (i / 4 * 8 + i % 2 >= left) product[i] = -INFINITY;
}

// Four neighbours a lane instead of two: lane t of four has columns 8 j + 2 t of j and j + 1, and
// gets 8 (j + t % 2) + 4 (t / 2) and three more.
__device__ inline float4 four_of(float2 of_j, float2 of_next) {
  const bool odd = threadIdx.x % 2 != 0;
  const float2 send = odd ? of_j : of_next, keep = odd ? of_next : of_j;
  const float2 got = make_float2(__shfl_xor_sync(0xffffffffu, send.x, 1),
                                 __shfl_xor_sync(0xffffffffu, send.y, 1));
  return odd ? make_float4(got.x, got.y, keep.x, keep.y)
             : make_float4(keep.x, keep.y, got.x, got.y);
}

// kWide: rows of Y begin at multiples of 16 bytes.
template <int kDepth, bool kWide>
__global__ void __launch_bounds__(kThreads, 1) softmax(Softmax of) {
  using Size = Sizes<kDepth>;
  using Tiles = Ring<Size::kSlots, Size::kTile>;
  extern __shared__ char unaligned[];
  char* const slots = unaligned + (1024 - address_of(unaligned) % 1024) % 1024;
  char* const low_rows = slots + Size::kSlots * Size::kTile;
  const Tiles ring{address_of(slots), address_of(low_rows) + kGroups * Size::kLowRows};
  if (threadIdx.x == 0) ring.make(kGroups * 4);
  behind_previous();
  __syncthreads();

  const int batch = static_cast<int>(blockIdx.x) / of.blocks,
            first_task = static_cast<int>(blockIdx.x) % of.blocks * TASKS,
            tasks = min(TASKS, of.down - first_task);
  // Task i is summed in sweep i and written in sweep i + 1.
  const int sweeps = tasks + 1;
  // (The read-only path might read them before the kernel that writes them has ended.)
  const float* const scales = of.scale + static_cast<int64_t>(batch) * of.count;
  const char* const tiles = of.tiles + static_cast<int64_t>(batch) * of.count * Size::kTile;
  typename Tiles::Place at, ahead;
  int tile_ahead = 0, left = sweeps * of.count;  // for the first thread, which fills the ring
  const auto fill_one = [&]() {
    if (threadIdx.x != 0 || left == 0) return;
    ring.fill(ahead, tiles + static_cast<int64_t>(tile_ahead) * Size::kTile);
    ahead.next();
    if (++tile_ahead == of.count) tile_ahead = 0;
    --left;
  };
  for (int i = 0; i < Size::kAhead; ++i) fill_one();
  const auto take_tile = [&]() {
    fill_one();
    ring.wait(at);
  };
  const auto pass_tile = [&]() {
    ring.release(at);
    at.next();
  };

  const int group = static_cast<int>(threadIdx.x) / 128, lane = static_cast<int>(threadIdx.x) % 32;
  const int row_in_group = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane / 4;
  char* const low = low_rows + group * Size::kLowRows;
  uint32_t high[kDepth / 16][4];
  float row_scale[2], most[2], sum[2], product[64];
  const auto multiply_tile = [&]() {
    take_tile();
    products_begin();
    multiply_rows<kDepth, kColumns>(product, high, address_of(low), ring.at(at));
    products_commit();
    products_wait<0>(product);
    pass_tile();
  };
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    const bool summing = sweep % 2 == group / 2;
    const int task = summing ? sweep : sweep - 1;
    if (task < 0 || task >= tasks) {
      for (int tile = 0; tile < of.count; ++tile) {
        take_tile();
        pass_tile();
      }
      continue;
    }
    const int row = (first_task + task) * kRows + group % 2 * 64 + row_in_group;
    const int64_t row_of_all = static_cast<int64_t>(batch) * of.m + row;
    if (summing) {
      const float* from[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        from[half] = row + half * 8 < of.m ? of.x + (row_of_all + half * 8) * of.k : nullptr;
        most[half] = -1e30f;
        sum[half] = 0.0f;
      }
      meet(1 + group, 128);  // all have read the rows before
      take_rows<kDepth>(from, of.k, row_in_group, high, low, row_scale);
      meet(1 + group, 128);
#pragma unroll
      for (float& scale : row_scale) scale *= kLog2E;
      for (int tile = 0; tile < of.count; ++tile) {
        const float tile_scale = scales[tile];
        multiply_tile();
        hide_columns(product, tile * kColumns, of.n);
        // Of this lane's columns only: lanes are merged at the end.
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float factor = exponent_factor(row_scale[half], tile_scale);
          float now = -INFINITY;
#pragma unroll
          for (int i = half * 2; i < 64; i += 4) now = fmaxf(now, fmaxf(product[i], product[i + 1]));
          now = fmaxf(most[half], now * factor);
          float total[2] = {sum[half] * power_of_2(most[half] - now), 0.0f};
          most[half] = now;
#pragma unroll
          for (int i = half * 2; i < 64; i += 4) {
            total[0] += power_of_2(fmaf(product[i], factor, -now));
            total[1] += power_of_2(fmaf(product[i + 1], factor, -now));
          }
          sum[half] = total[0] + total[1];
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int far = 1; far < 4; far *= 2) {
          const float other = __shfl_xor_sync(0xffffffffu, most[half], far),
                      other_sum = __shfl_xor_sync(0xffffffffu, sum[half], far),
                      now = fmaxf(most[half], other);
          sum[half] = sum[half] * power_of_2(most[half] - now) + other_sum * power_of_2(other - now);
          most[half] = now;
        }
      continue;
    }
    const float quotient[2] = {1.0f / sum[0], 1.0f / sum[1]};
    const int column = kWide ? lane % 2 * 8 + lane % 4 / 2 * 4 : lane % 4 * 2;
    float* y = of.y + row_of_all * of.n + column;
    for (int tile = 0; tile < of.count; ++tile) {
      const float tile_scale = scales[tile];
      multiply_tile();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float factor = exponent_factor(row_scale[half], tile_scale);
        const int left = row + half * 8 < of.m ? of.n - tile * kColumns - column : 0;
        float* const to = y + static_cast<int64_t>(half) * 8 * of.n;
#pragma unroll
        for (int j = 0; j < 16; j += 2) {
          float p[4];
#pragma unroll
          for (int e = 0; e < 4; ++e)
            p[e] = power_of_2(fmaf(product[(j + e / 2) * 4 + half * 2 + e % 2], factor,
                                   -most[half])) *
                   quotient[half];
          if constexpr (kWide) {
            const float4 four = four_of(make_float2(p[0], p[1]), make_float2(p[2], p[3]));
            if (j * 8 < left) {
              if constexpr (STREAM == 1) __stcs(reinterpret_cast<float4*>(to + j * 8), four);
              else *reinterpret_cast<float4*>(to + j * 8) = four;
            }
          } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if ((j + e / 2) * 8 + e % 2 < left) to[(j + e / 2) * 8 + e % 2] = p[e];
          }
        }
      }
      y += kColumns;
    }
  }
}

template <int kDepth>
int64_t space_of(const sculler_problem& problem) {
  return problem.dim[0] * blocks_of(problem.dim[2], kColumns) * (Sizes<kDepth>::kTile / 4 + 1);
}

template <int kDepth, bool kWide>
int run_padded(const Call& call) {
  using Size = Sizes<kDepth>;
  const int64_t batches = call.dim(0), m = call.dim(1), n = call.dim(2);
  const int count = static_cast<int>(blocks_of(n, kColumns)),
            down = static_cast<int>(blocks_of(m, kRows)), blocks = (down + TASKS - 1) / TASKS;
  const Softmax of{call.buffer(0),
                   call.buffer(1),
                   call.buffer(2),
                   reinterpret_cast<char*>(call.space),
                   call.space + batches * count * (Size::kTile / 4),
                   static_cast<int>(m),
                   static_cast<int>(n),
                   static_cast<int>(call.dim(3)),
                   count,
                   down,
                   blocks};
  if (cudaFuncSetAttribute(softmax<kDepth, kWide>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           Size::kShared) != cudaSuccess)
    return SCULLER_ERROR;
  Queue queue{call.stream, true};
  queue.launch(split_tiles<kDepth>,
               dim3(static_cast<unsigned>(count), static_cast<unsigned>(batches)), kSplitThreads, 0,
               of);
  queue.launch(softmax<kDepth, kWide>, dim3(static_cast<unsigned>(batches * blocks)), kThreads,
               Size::kShared, of);
  return queue.end();
}

int run(const Call& call) {
  // A depth of more than 128 does not fit beside the sums.
  if (call.dim(3) > 128) return SCULLER_UNSUPPORTED_PROBLEM;
  if (call.dim(3) > 64) return run_padded<128, false>(call);
  return call.dim(2) % 4 == 0 ? run_padded<64, true>(call) : run_padded<64, false>(call);
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool,
                    problem->dim[3] <= 64 ? space_of<64>(*problem) : space_of<128>(*problem), state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file hopper.h from ../../shared
// sculler:file tiles.h from ../../shared
