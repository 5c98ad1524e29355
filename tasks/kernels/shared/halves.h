// Float32 matrices as the factors of wgmma.h: v = 2^-e (high + low), e of each row (or of each
// column), high and low in fp16. The largest of a row is brought to [2^14, 2^15): whatever is 2^-16
// of it, or more, keeps 22 bits, and what is smaller is off by 2^-39 of the largest at most.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "entry.h"
#include "wgmma.h"

namespace {

// Memory that is handed out piece by piece; from null it counts only.
struct Room {
  char* begin = nullptr;
  int64_t bytes = 0;
  template <class T>
  T* take(int64_t count) {
    T* const at = begin == nullptr ? nullptr : reinterpret_cast<T*>(begin + bytes);
    bytes += (count * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
    return at;
  }
};

// A factor in memory: of each of a batch two planes, high and low, of `outer` rows of `inner`
// halves, `pitch` apart. inverse: 2^-e of each row (by_rows) or of each column, `inverse_batch` a
// batch.
struct Factor {
  __half* halves;
  float* inverse;
  uint32_t* most;  // of columns: bits of the largest magnitudes
  int64_t batches, outer, inner, pitch, inverse_batch;
  bool by_rows;
};
inline Factor take_factor(Room& room, int64_t batches, int64_t outer, int64_t inner, bool by_rows) {
  const int64_t pitch = (inner + 7) / 8 * 8, lines = by_rows ? outer : pitch;
  auto* const halves = room.take<__half>(batches * 2 * outer * pitch);
  auto* const inverse = room.take<float>(batches * lines);
  auto* const most = by_rows ? nullptr : room.take<uint32_t>(batches * lines);
  return {halves, inverse, most, batches, outer, inner, pitch, lines, by_rows};
}

// EVOLVE-BLOCK-START
__device__ inline void halve(float v, float scale, __half& high, __half& low) {
  const float scaled = v * scale;
  high = __float2half_rn(scaled);
  low = __float2half_rn(scaled - __half2float(high));
}
template <int kN>
struct alignas(2 * kN) Pack {
  __half of[kN];
};
template <int kN>
__device__ inline void write_halves(const float (&v)[kN], const float (&scale)[kN], __half* high,
                                    __half* low) {
  Pack<kN> h, l;
#pragma unroll
  for (int i = 0; i < kN; ++i) halve(v[i], scale[i], h.of[i], l.of[i]);
  *reinterpret_cast<Pack<kN>*>(high) = h;
  *reinterpret_cast<Pack<kN>*>(low) = l;
}

// kN numbers from `from`, zeros behind the first `there`. kWide: from is aligned to 16 bytes.
template <bool kWide, int kN>
__device__ inline void load_some(const float* from, int64_t there, float (&v)[kN]) {
  if (kWide && there >= kN) {
#pragma unroll
    for (int i = 0; i < kN; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from + i));
      v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = i < there ? __ldg(from + i) : 0.0f;
  }
}

// Where numbers come from: the eight (of a row) or four (of columns) from (batch, i, j) on.
struct AsTheyAre {
  const float* data;
  int64_t row, batch;
  template <bool kWide, int kN>
  __device__ void load(int64_t b, int64_t i, int64_t j, int64_t there, float (&v)[kN]) const {
    load_some<kWide>(data + b * batch + i * row + j, there, v);
  }
  [[nodiscard]] bool wide() const {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && row % 4 == 0 && batch % 4 == 0;
  }
};

// Over a block of 128: the largest, or the sum.
constexpr int kRowHalving = 128, kKept = 5;
__device__ inline uint32_t most_of_block(uint32_t bits) {
  __shared__ uint32_t part[kRowHalving / 32];
  bits = __reduce_max_sync(0xffffffffu, bits);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = bits;
  __syncthreads();
  return max(max(part[0], part[1]), max(part[2], part[3]));
}
__device__ inline float sum_of_block(float value) {
  __shared__ float part[kRowHalving / 32];
  for (int far = 16; far > 0; far /= 2) value += __shfl_xor_sync(0xffffffffu, value, far);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  return part[0] + part[1] + (part[2] + part[3]);
}
__device__ inline uint32_t magnitude(float v) { return __float_as_uint(v) & 0x7fffffffu; }

// A block a row: read once where it has at most 128 * 8 * kKept numbers. Where Also::kSquares, one
// thread asks also(i, the sum of the scaled numbers' squares, 2^-e) what the row's sums are to be
// multiplied with, in place of 2^-e.
template <bool kWide, class Source, class Also>
__global__ void __launch_bounds__(kRowHalving) halve_rows(Factor to, Source source, Also also) {
  const int64_t i = blockIdx.x, batch = blockIdx.y;
  float kept[kKept][8];
  uint32_t most = 0;
  const auto columns = [&](int c) { return (int64_t{c} * kRowHalving + threadIdx.x) * 8; };
  const auto chunks = static_cast<int>((to.inner + kRowHalving * 8 - 1) / (kRowHalving * 8));
#pragma unroll
  for (int c = 0; c < kKept; ++c) {
    const int64_t j = columns(c);
    source.template load<kWide>(batch, i, j, to.inner - j, kept[c]);
  }
#pragma unroll
  for (int c = 0; c < kKept; ++c)
#pragma unroll
    for (int e = 0; e < 8; ++e) most = max(most, magnitude(kept[c][e]));
  for (int c = kKept; c < chunks; ++c) {
    float v[8];
    source.template load<kWide>(batch, i, columns(c), to.inner - columns(c), v);
#pragma unroll
    for (int e = 0; e < 8; ++e) most = max(most, magnitude(v[e]));
  }
  const float2 scale = scales_of(most_of_block(most));
  const float all[8] = {scale.x, scale.x, scale.x, scale.x, scale.x, scale.x, scale.x, scale.x};
  __half* const high = to.halves + ((batch * 2) * to.outer + i) * to.pitch;
  __half* const low = high + to.outer * to.pitch;
  float sum = 0;
  const auto write = [&](int64_t j, const float(&v)[8]) {
    if (j < to.inner) write_halves(v, all, high + j, low + j);
    if constexpr (Also::kSquares) {
      float squares = 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) squares += v[e] * scale.x * (v[e] * scale.x);
      sum += squares;
    }
  };
#pragma unroll
  for (int c = 0; c < kKept; ++c) write(columns(c), kept[c]);
  for (int c = kKept; c < chunks; ++c) {
    float v[8];
    source.template load<kWide>(batch, i, columns(c), to.inner - columns(c), v);
    write(columns(c), v);
  }
  if constexpr (Also::kSquares) sum = sum_of_block(sum);
  if (threadIdx.x != 0) return;
  float inverse = scale.y;
  if constexpr (Also::kSquares) inverse = also(i, sum, scale.y);
  to.inverse[batch * to.inverse_batch + i] = inverse;
}
// Rows of at most 64 numbers, eight lanes each.
constexpr int kShort = 64, kShortAtOnce = kRowHalving / 8;
template <bool kWide, class Source>
__global__ void __launch_bounds__(kRowHalving) halve_short_rows(Factor to, Source source) {
  const int64_t i = int64_t{blockIdx.x} * kShortAtOnce + threadIdx.x / 8, batch = blockIdx.y,
                j = threadIdx.x % 8 * 8;
  float v[8];
  source.template load<kWide>(batch, i, j, i < to.outer ? to.inner - j : 0, v);
  uint32_t most = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) most = max(most, magnitude(v[e]));
#pragma unroll
  for (int far = 4; far > 0; far /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, far));
  if (i >= to.outer) return;
  const float2 scale = scales_of(most);
  const float all[8] = {scale.x, scale.x, scale.x, scale.x, scale.x, scale.x, scale.x, scale.x};
  __half* const high = to.halves + (batch * 2 * to.outer + i) * to.pitch + j;
  if (j < to.inner) write_halves(v, all, high, high + to.outer * to.pitch);
  if (j == 0) to.inverse[batch * to.inverse_batch + i] = scale.y;
}
struct NothingElse {
  static constexpr bool kSquares = false;
};
// Rows are divided by sqrt(mean of their squares + epsilon).
struct DividedByRms {
  static constexpr bool kSquares = true;
  float count, epsilon;
  __device__ float operator()(int64_t, float squares, float inverse) const {
    if (epsilon == 0) return 1.0f / sqrtf(squares / count);
    return inverse / sqrtf(squares * inverse * inverse / count + epsilon);
  }
};

// Columns: a block has 128 of them, four a thread, and 64 rows. kMost: their largest magnitudes are
// found; kWrite: they are written. Both at once only where there are no more rows.
constexpr int kColumnThreads = 256, kRowsAtOnce = kColumnThreads / 32, kDeep = 8,
              kRowsOfBlock = kRowsAtOnce * kDeep;
__device__ inline uint4 larger(uint4 a, uint4 b) {
  return {max(a.x, b.x), max(a.y, b.y), max(a.z, b.z), max(a.w, b.w)};
}
template <bool kMost, bool kWrite, bool kWide, class Source>
__global__ void __launch_bounds__(kColumnThreads) columns_kernel(Factor to, Source source) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  // The writer begins with the last rows: they are what the second-level cache still has.
  const int64_t j = (int64_t{blockIdx.x} * 32 + lane) * 4, batch = blockIdx.z,
                chunk = kWrite ? int64_t{gridDim.y} - 1 - blockIdx.y : blockIdx.y,
                i0 = chunk * kRowsOfBlock + warp, line = batch * to.inverse_batch + j;
  float v[kDeep][4];
#pragma unroll
  for (int r = 0; r < kDeep; ++r) {
    const int64_t i = i0 + r * kRowsAtOnce;
    source.template load<kWide>(batch, i, j, i < to.outer ? to.inner - j : 0, v[r]);
  }
  uint4 most = {};
  if constexpr (kMost) {
    __shared__ uint4 part[kRowsAtOnce][32];
#pragma unroll
    for (int r = 0; r < kDeep; ++r)
      most = larger(
          most, {magnitude(v[r][0]), magnitude(v[r][1]), magnitude(v[r][2]), magnitude(v[r][3])});
    part[warp][lane] = most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kRowsAtOnce; ++w) most = larger(most, part[w][lane]);
    if constexpr (!kWrite) {
      const uint32_t each[4] = {most.x, most.y, most.z, most.w};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (warp == e && j + e < to.inner) atomicMax(to.most + line + e, each[e]);
    }
  }
  if constexpr (kWrite) {
    // The pitch is a multiple of eight: four are there.
    if (j >= to.inner) return;
    if constexpr (!kMost) most = __ldg(reinterpret_cast<const uint4*>(to.most + line));
    const float2 s0 = scales_of(most.x), s1 = scales_of(most.y), s2 = scales_of(most.z),
                 s3 = scales_of(most.w);
    if (chunk == 0 && warp == 0) {
      *reinterpret_cast<float4*>(to.inverse + line) = {s0.y, s1.y, s2.y, s3.y};
      if constexpr (kMost) *reinterpret_cast<uint4*>(to.most + line) = most;
    }
    const float scale[4] = {s0.x, s1.x, s2.x, s3.x};
    __half* const high = to.halves + batch * 2 * to.outer * to.pitch;
#pragma unroll
    for (int r = 0; r < kDeep; ++r) {
      const int64_t i = i0 + r * kRowsAtOnce;
      if (i < to.outer)
        write_halves(v[r], scale, high + i * to.pitch + j, high + (to.outer + i) * to.pitch + j);
    }
  }
}
// EVOLVE-BLOCK-END

template <class Source, class Also = NothingElse>
void halves_of_rows(const Factor& to, const Source& source, cudaStream_t stream, Also also = {}) {
  const auto batches = static_cast<unsigned>(to.batches);
  if constexpr (!Also::kSquares) {
    if (to.inner <= kShort) {
      const dim3 grid(blocks_of(to.outer, kShortAtOnce), batches);
      auto* const kernel =
          source.wide() ? halve_short_rows<true, Source> : halve_short_rows<false, Source>;
      kernel<<<grid, kRowHalving, 0, stream>>>(to, source);
      return;
    }
  }
  const dim3 grid(static_cast<unsigned>(to.outer), batches);
  auto* const kernel =
      source.wide() ? halve_rows<true, Source, Also> : halve_rows<false, Source, Also>;
  kernel<<<grid, kRowHalving, 0, stream>>>(to, source, also);
}
template <bool kMost, bool kWrite, class Source>
void launch_columns(const Factor& to, const Source& source, cudaStream_t stream) {
  const dim3 grid(blocks_of(to.inner, 128), blocks_of(to.outer, kRowsOfBlock),
                  static_cast<unsigned>(to.batches));
  auto* const kernel = source.wide() ? columns_kernel<kMost, kWrite, true, Source>
                                     : columns_kernel<kMost, kWrite, false, Source>;
  kernel<<<grid, kColumnThreads, 0, stream>>>(to, source);
}
template <class Source>
bool halves_of_columns(const Factor& to, const Source& source, cudaStream_t stream) {
  if (to.outer <= kRowsOfBlock) {
    launch_columns<true, true>(to, source, stream);
    return true;
  }
  if (cudaMemsetAsync(to.most, 0, static_cast<size_t>(to.batches * to.inverse_batch) * 4, stream) !=
      cudaSuccess)
    return false;
  launch_columns<true, false>(to, source, stream);
  launch_columns<false, true>(to, source, stream);
  return true;
}

// x times y (y K x N in memory; x M x K, or where not kAAlong its transpose), of each of a batch;
// or where they are one, `splits` parts of the depth as a batch of sums.
template <bool kAAlong>
bool make_product(Room& room, const Factor& x, const Factor& y, Product& out, int splits = 1) {
  const auto tiles = [](int64_t n, int64_t tile) {
    return static_cast<int>((n + tile - 1) / tile);
  };
  const int64_t m = kAAlong ? x.outer : x.inner;
  Shape& s = out.shape;
  s.m = static_cast<int>(m);
  s.n = static_cast<int>(y.inner);
  s.depths = tiles(y.outer, int64_t{kTileK} * splits);
  s.down = tiles(m, kTileM * CLUSTER);
  s.across = tiles(y.inner, TILE_N);
  s.batches = splits == 1 ? static_cast<int>(y.batches) : splits;
  s.planes = splits == 1 ? 2 : 0;
  s.apart = splits == 1 ? 0 : s.depths * kTileK;
  out.blocks = blocks_at_once();
  if (out.blocks == 0) return false;
  const auto all = static_cast<unsigned>(s.tiles()) * CLUSTER;
  if (all < out.blocks) out.blocks = all;
  out.aside = room.take<float>(aside_floats(out.blocks));
  return room.begin == nullptr ||
         (make_map(&out.x, x.halves, x.inner, x.outer, x.pitch, x.batches * 2, 64,
                   kAAlong ? kTileM : 64) &&
          make_map(&out.y, y.halves, y.inner, y.outer, y.pitch, y.batches * 2, 64, kTileK));
}
inline Scales scales_of(const Factor& x, const Factor& y) {
  return {x.inverse, y.inverse, x.inverse_batch, y.inverse_batch};
}

// What a seed keeps between runs: its memory and a Plan, whose make(problem, room) takes memory and
// makes tensor maps. It is called twice, first to count.
template <class Plan>
struct Planned {
  void* kernel;  // of make_state
  Plan plan;
};
template <class Plan>
int make_planned(const sculler_rank* rank, const sculler_problem* problem, const sculler_pool* pool,
                 void** state) {
  auto* self = new Planned<Plan>{};
  *state = self;
  Room room;
  if (!self->plan.make(*problem, room)) return SCULLER_ERROR;
  if (const int code = make_state(rank, pool, room.bytes / 4, &self->kernel)) return code;
  room = {reinterpret_cast<char*>(static_cast<State*>(self->kernel)->space), 0};
  return self->plan.make(*problem, room) ? SCULLER_OK : SCULLER_ERROR;
}
template <class Plan>
const Plan& plan_of(void* state) {
  return static_cast<Planned<Plan>*>(state)->plan;
}
template <class Plan>
Call planned_call(void* state, const sculler_problem* problem, int set) {
  return call_of(static_cast<Planned<Plan>*>(state)->kernel, problem, set);
}
template <class Plan>
int end_planned(void* state) {
  auto* self = static_cast<Planned<Plan>*>(state);
  const int code = end_state(self->kernel);
  delete self;
  return code;
}

}  // namespace
