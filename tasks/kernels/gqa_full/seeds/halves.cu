// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":32768,"why":"Products of fp16 run at twice the rate of TF32: a float32 number is a power of two times the sum of two of them. One thread copies tiles, two warp groups take turns: one multiplies while the other exponentiates."}
//
// Attention on Hopper's tensor cores. First keys and values are written as the tiles that products
// read, scaled and split into high and low fp16 numbers. Then a block has 128 queries, a warp group
// 64 of them: for each tile of 64 keys scores, a new maximum, and the products with V, summed in
// float32 outside of the tensor cores. A product is low * high + high * low + high * high.
#include <cmath>

#include "entry.h"

// Tiles of keys or of values in shared memory.
// sculler:tune SLOTS in {2,4,6}
#ifndef SLOTS
#define SLOTS 6
#endif
// 1: a warp group issues its products when the other one has issued all of its own.
// sculler:tune TURNS in {0,1}
#ifndef TURNS
#define TURNS 1
#endif
#include "tiles.h"

namespace {
// EVOLVE-BLOCK-START
constexpr int kHead = 128, kKeys = 64, kGroups = 2, kQueries = 64 * kGroups;
constexpr int kPart = kKeys * kHead * 2;  // bytes of the high numbers of a tile; so many low ones
constexpr int kSlot = 2 * kPart;
constexpr int kLowQueries = 64 * kHead * 2;  // bytes a warp group
constexpr int kShared = SLOTS * kSlot + kGroups * kLowQueries + 1024 + SLOTS * 16;

struct Heads {
  const float *q, *k, *v;
  float* y;
  char *keys, *values;            // tiles of [batch][head of keys][tile]
  float *key_scale, *value_scale;  // what a tile's numbers are to be multiplied by
  int64_t n, kh, qh, d, tiles;
  float scale;  // of scores, times log2 e
};

// Keys: two tiles of 64 keys, 64 depths each. Values: row c holds column c of 64 keys.
__global__ void __launch_bounds__(kSplitThreads) split_tiles(Heads of) {
  behind_previous();
  const bool values = blockIdx.z != 0;
  const int64_t group = blockIdx.y, first = static_cast<int64_t>(blockIdx.x) * kKeys,
                next = of.kh * of.d, tile = group * of.tiles + blockIdx.x;
  const float* from = (values ? of.v : of.k) +
                      (group / of.kh * of.n * of.kh + group % of.kh) * of.d + first * next;
  const int keys = static_cast<int>(of.n - first < kKeys ? of.n - first : kKeys),
            d = static_cast<int>(of.d), thread = static_cast<int>(threadIdx.x);
  if (values) {
    const float scale = write_columns<kKeys>(from, next, d, keys, of.values + tile * kSlot);
    if (thread == 0) of.value_scale[tile] = scale;
    return;
  }
  const bool wide = of.d % 4 == 0;
  float x[4][8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int key = thread / 16 + i * 16, column = thread % 16 * 8;
    const float* const row = from + key * next + column;
#pragma unroll
    for (int e = 0; e < 8; e += 4) {
      float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (key < keys && column + e < d) {
        if (wide) four = __ldg(reinterpret_cast<const float4*>(row + e));
        else
          four = make_float4(row[e], column + e + 1 < d ? row[e + 1] : 0.0f,
                             column + e + 2 < d ? row[e + 2] : 0.0f,
                             column + e + 3 < d ? row[e + 3] : 0.0f);
      }
      x[i][e] = four.x, x[i][e + 1] = four.y, x[i][e + 2] = four.z, x[i][e + 3] = four.w;
    }
  }
  const float scale = write_tile(x, of.keys + tile * kSlot, kPart, [&](int i) {
    return thread % 16 / 8 * kTileBytes + piece_at(thread / 16 + i * 16, thread % 8);
  });
  if (thread == 0) of.key_scale[tile] = scale;
}

__global__ void __launch_bounds__((kGroups + 1) * 128, 1) attend(Heads of) {
  extern __shared__ char unaligned[];
  char* const slots = unaligned + (1024 - address_of(unaligned) % 1024) % 1024;
  char* const low_queries = slots + SLOTS * kSlot;
  using Tiles = Ring<SLOTS, kSlot>;
  using Place = Tiles::Place;
  const Tiles ring{address_of(slots), address_of(low_queries) + kGroups * kLowQueries};
  const int64_t b = blockIdx.y / of.qh, head = blockIdx.y % of.qh;
  const int64_t first_tile = (b * of.kh + head / (of.qh / of.kh)) * of.tiles;
  const int tiles = static_cast<int>(of.tiles);
  if (threadIdx.x == 0) ring.make(kGroups * 4);
  behind_previous();
  __syncthreads();

  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x != 0) return;
    const char* keys = of.keys + first_tile * kSlot;
    const char* values = of.values + first_tile * kSlot;
    Place at;
    for (int i = 0; i < 2 * tiles; ++i) {
      ring.fill(at, i % 2 == 0 ? keys : values);
      if (i % 2 == 0) keys += kSlot;
      else values += kSlot;
      at.next();
    }
    return;
  }

  take_registers<240>();
  const int mine = static_cast<int>(threadIdx.x) / 128 - 1, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4, t4 = lane % 4;
  const int row_in_group = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + g;
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * kQueries + mine * 64 + row_in_group;

  // Queries: high numbers in registers, low ones in shared memory.
  uint32_t queries[kHead / 16][4];
  float query_scale[2];
  char* const own_low = low_queries + mine * kLowQueries;
  const float* from[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    from[half] = row0 + half * 8 < of.n
                     ? of.q + ((b * of.n + row0 + half * 8) * of.qh + head) * of.d
                     : nullptr;
  take_rows<kHead>(from, static_cast<int>(of.d), row_in_group, queries, own_low, query_scale);
  meet(3 + mine, 128);

  float score[32], part[32], out[2][32] = {};
  uint32_t high[kKeys / 16][4], low[kKeys / 16][4];  // of the exponentials
  float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f}, kept[2], factor[2];
  const uint32_t low_at = address_of(own_low);
  const auto multiply_keys = [&](const Place& place) {
    multiply_rows<kHead, kKeys>(score, queries, low_at, ring.at(place));
  };
  const auto multiply_values = [&](const Place& place, int columns) {
    const uint64_t values = tile_factor(ring.at(place) + columns * kTileBytes);
#pragma unroll
    for (int which = 0; which < 3; ++which)
#pragma unroll
      for (int step = 0; step < kKeys / 16; ++step)
        multiply(part, which == 0 ? low[step] : high[step],
                    values + step * 2 + (which == 1 ? kPart / 16 : 0), which + step > 0 ? 1 : 0);
  };
  const auto add_part = [&](float (&to)[32], const float (&of_rest)[2], float scale) {
#pragma unroll
    for (int i = 0; i < 32; ++i) to[i] = to[i] * of_rest[i / 2 % 2] + part[i] * scale;
  };
  // The maximum with this tile; kept: what the sums until now are to be multiplied by.
  const auto new_maxima = [&](int tile, float key_scale) {
    if ((tile + 1) * kKeys > of.n) {
#pragma unroll
      for (int i = 0; i < 32; ++i)
        if (tile * kKeys + i / 4 * 8 + t4 * 2 + i % 2 >= of.n) score[i] = -INFINITY;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = -INFINITY;
#pragma unroll
      for (int i = 0; i < 32; i += 4)
        now = fmaxf(now, fmaxf(score[i + half * 2], score[i + half * 2 + 1]));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      factor[half] = exponent_factor(query_scale[half], key_scale * of.scale);
      now = fmaxf(most[half], now * factor[half]);
      kept[half] = power_of_2(most[half] - now);
      most[half] = now;
    }
  };
  // 2^14 times the exponentials, so that low numbers of small ones are exact.
  const auto exponentials = [&]() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float from = 14.0f - most[half];
      float total = 0.0f;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
        const float x0 = power_of_2(fmaf(score[j * 4 + half * 2], factor[half], from)),
                    x1 = power_of_2(fmaf(score[j * 4 + half * 2 + 1], factor[half], from));
        total += x0 + x1;
        const HalfPairs both = split_f16(x0, x1);
        high[j / 2][j % 2 * 2 + half] = both.high;
        low[j / 2][j % 2 * 2 + half] = both.low;
      }
      sum[half] = sum[half] * kept[half] + total;
    }
  };

  // (The read-only path might read them before the kernel that writes them has ended.)
  const float* const key_scale = of.key_scale + first_tile;
  const float* const value_scale = of.value_scale + first_tile;
  const float first_scale = key_scale[0];
  Place at;
  ring.wait(at);
  products_begin();
  multiply_keys(at);
  products_commit();
  products_wait<0>(score);
  ring.release(at);
  at.next();
  new_maxima(0, first_scale);
  exponentials();
  if (TURNS == 1 && mine == 1 && tiles > 1) announce(1, 256);
  // What is multiplied: values of this tile, keys of the next one.
  for (int tile = 0; tile + 1 < tiles; ++tile) {
    const Place values = at;
    at.next();
    const Place keys = at;
    at.next();
    const float of_values = value_scale[tile], of_keys = key_scale[tile + 1];
    ring.wait(values);
    ring.wait(keys);
    if (TURNS == 1) meet(1 + mine, 256);
    products_begin();
    multiply_values(values, 0);
    products_commit();
    multiply_keys(keys);
    products_commit();
    products_wait<1>(part);
    add_part(out[0], kept, of_values);
    products_begin();
    multiply_values(values, 1);
    products_commit();
    if (TURNS == 1 && (mine == 0 || tile + 2 < tiles)) announce(2 - mine, 256);
    products_wait<1>(score);
    ring.release(keys);
    const float kept_before[2] = {kept[0], kept[1]};
    new_maxima(tile + 1, of_keys);
    products_wait<0>(part);
    factors_free(high);
    factors_free(low);
    ring.release(values);
    add_part(out[1], kept_before, of_values);
    exponentials();
  }
  const float of_values = value_scale[tiles - 1];
  ring.wait(at);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    products_begin();
    multiply_values(at, half);
    products_commit();
    products_wait<0>(part);
    add_part(out[half], kept, of_values);
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
    sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
    const float quotient = 1.0f / sum[half];
    const int64_t row = row0 + half * 8;
    if (row >= of.n) continue;
    float* const to = of.y + (blockIdx.y * of.n + row) * of.d;
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) {
      const int column = j * 8 + t4 * 2;
      const float x0 = out[j / 8][j % 8 * 4 + half * 2] * quotient,
                  x1 = out[j / 8][j % 8 * 4 + half * 2 + 1] * quotient;
      if (of.d % 2 == 0) {
        if (column < of.d) *reinterpret_cast<float2*>(to + column) = make_float2(x0, x1);
      } else {
        if (column < of.d) to[column] = x0;
        if (column + 1 < of.d) to[column + 1] = x1;
      }
    }
  }
}

int64_t tiles_of(int64_t n) { return (n + kKeys - 1) / kKeys; }

// Floats between the two kernels: tiles of keys and of values, a scale for each.
int64_t tiles_space(const sculler_problem& problem) {
  return problem.dim[0] * problem.dim[2] * tiles_of(problem.dim[1]) * 2 * (kSlot / 4 + 1);
}

int run(const Call& call) {
  const int64_t batches = call.dim(0), n = call.dim(1), kh = call.dim(2), qh = call.dim(3),
                d = call.dim(4), tiles = tiles_of(n), all = batches * kh * tiles;
  // A head of more than 128 does not fit beside its sums.
  if (d > kHead) return SCULLER_UNSUPPORTED_PROBLEM;
  auto* const keys = reinterpret_cast<char*>(call.space);
  float* const scales = call.space + all * 2 * (kSlot / 4);
  const Heads of{call.buffer(0), call.buffer(1), call.buffer(2), call.buffer(3),
                 keys, keys + all * kSlot, scales, scales + all,
                 n, kh, qh, d, tiles,
                 static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(d)))};
  if (cudaFuncSetAttribute(attend, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared) !=
      cudaSuccess)
    return SCULLER_ERROR;
  Queue queue{call.stream, true};
  queue.launch(split_tiles, dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(batches * kh), 2),
               kSplitThreads, 0, of);
  queue.launch(attend, dim3(blocks_of(n, kQueries), static_cast<unsigned>(batches * qh)),
               (kGroups + 1) * 128, kShared, of);
  return queue.end();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, tiles_space(*problem), state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file hopper.h from ../../shared
// sculler:file tiles.h from ../../shared
