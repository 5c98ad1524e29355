// Float32 matrices as the factors of wgmma.h: v = 2^-e (high + low), e of each row (or of each
// column), high and low in fp16. The largest of a row is brought to [2^14, 2^15): whatever is 2^-16
// of it, or more, keeps 22 bits, and what is smaller is off by 2^-39 of the largest at most.
//
// A row is read once. Columns would be read twice, but e need not be that exact: it is guessed from
// some rows, which are brought to [2^9, 2^10); columns where a number turns out to be too large for
// fp16 are written again, with their e from all rows.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

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
  template <class T>
  T* take_zeros(int64_t count) {
    T* const at = take<T>(count);
    fine = fine && (at == nullptr ||
                    cudaMemset(at, 0, static_cast<size_t>(count) * sizeof(T)) == cudaSuccess);
    return at;
  }
  bool fine = true;
};

// A factor in memory: of each of a batch two planes, high and low, of `outer` rows of `inner`
// halves, `pitch` apart. inverse: 2^-e of each row (by_rows) or of each column, `inverse_batch` a
// batch.
struct Factor {
  __half* halves;
  float* inverse;
  uint32_t* mend;  // a 128 columns: not 0, where they are to be written again
  int64_t batches, outer, inner, pitch, inverse_batch;
  bool by_rows;
  int64_t tail = 0;  // so many last rows are of another size than those before
};
inline Factor take_factor(Room& room, int64_t batches, int64_t outer, int64_t inner, bool by_rows) {
  const int64_t pitch = (inner + 7) / 8 * 8, lines = by_rows ? outer : pitch;
  auto* const halves = room.take<__half>(batches * 2 * outer * pitch);
  auto* const inverse = room.take<float>(batches * lines);
  auto* const mend = by_rows ? nullptr : room.take_zeros<uint32_t>(batches * ((inner + 127) / 128));
  return {halves, inverse, mend, batches, outer, inner, pitch, lines, by_rows};
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
  static constexpr bool kInput = true;  // of columns: no kernel of the run writes it
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
  behind_previous();
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
  behind_previous();
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
  __device__ void operator()(int64_t, uint4) const {}
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

// ---- Columns: a block has 128 of them, four a thread, its warps take rows in turn.
constexpr int kColumnThreads = 256, kRowsAtOnce = kColumnThreads / 32, kDeep = 8,
              kRowsOfRound = kRowsAtOnce * kDeep, kRounds = 2, kSampled = 2 * kRowsAtOnce;
using Rows = float[kDeep][4];
struct Columns {
  int lane, warp;
  int64_t j, batch, line;
  __device__ explicit Columns(const Factor& to)
      : lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32),
        j((int64_t{blockIdx.x} * 32 + lane) * 4),
        batch(blockIdx.z),
        line(batch * to.inverse_batch + j) {}
};
__device__ inline uint4 larger(uint4 a, uint4 b) {
  return {max(a.x, b.x), max(a.y, b.y), max(a.z, b.z), max(a.w, b.w)};
}
__device__ inline uint4 larger(uint4 most, const float (&v)[4]) {
  return larger(most, uint4{magnitude(v[0]), magnitude(v[1]), magnitude(v[2]), magnitude(v[3])});
}
// Of all warps.
__device__ inline uint4 over_warps(uint4 most) {
  __shared__ uint4 part[kRowsAtOnce][32];
  part[threadIdx.x / 32][threadIdx.x % 32] = most;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kRowsAtOnce; ++w) most = larger(most, part[w][threadIdx.x % 32]);
  return most;
}
template <bool kWide, class Source>
__device__ inline void load_rows(const Factor& to, const Source& source, const Columns& c,
                                 int64_t i0, Rows& v) {
#pragma unroll
  for (int r = 0; r < kDeep; ++r) {
    const int64_t i = i0 + r * kRowsAtOnce;
    source.template load<kWide>(c.batch, i, c.j, i < to.outer ? to.inner - c.j : 0, v[r]);
  }
}
__device__ inline uint4 most_of_rows(uint4 most, const Rows& v) {
#pragma unroll
  for (int r = 0; r < kDeep; ++r) most = larger(most, v[r]);
  return most;
}
struct FourScales {
  float scale[4], inverse[4];
  __device__ explicit FourScales(uint4 most) {
    const uint32_t bits[4] = {most.x, most.y, most.z, most.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 both = scales_of(bits[e]);
      scale[e] = both.x, inverse[e] = both.y;
    }
  }
  // The pitch is a multiple of eight: four are there where one is.
  __device__ void keep(const Factor& to, const Columns& c) const {
    if (c.j < to.inner)
      *reinterpret_cast<float4*>(to.inverse + c.line) = {inverse[0], inverse[1], inverse[2],
                                                         inverse[3]};
  }
};
__device__ inline void write_rows(const Factor& to, const Columns& c, int64_t i0, const Rows& v,
                                  const FourScales& s) {
  __half* const high = to.halves + c.batch * 2 * to.outer * to.pitch;
#pragma unroll
  for (int r = 0; r < kDeep; ++r) {
    const int64_t i = i0 + r * kRowsAtOnce;
    if (i < to.outer && c.j < to.inner)
      write_halves(v[r], s.scale, high + i * to.pitch + c.j,
                   high + (to.outer + i) * to.pitch + c.j);
  }
}

// Where there are no more than 64 rows. also(j, bits) is told the largest magnitudes of four
// columns.
template <bool kWide, class Source, class Also>
__global__ void __launch_bounds__(kColumnThreads) halve_few(Factor to, Source source, Also also) {
  behind_previous();
  const Columns c(to);
  Rows v;
  load_rows<kWide>(to, source, c, c.warp, v);
  const uint4 most = over_warps(most_of_rows({}, v));
  const FourScales scales(most);
  write_rows(to, c, c.warp, v, scales);
  if (c.warp != 0) return;
  scales.keep(to, c);
  also(c.j, most);
}

// Row s of kSampled: half of them in the tail, where there is one.
__device__ inline int64_t sampled(const Factor& to, int s) {
  if (to.tail == 0) return s * (to.outer - 1) / (kSampled - 1);
  constexpr int kHalf = kSampled / 2;
  const int64_t before = to.outer - to.tail;
  return s < kHalf ? s * (before - 1) / (kHalf - 1)
                   : before + (s - kHalf) * (to.tail - 1) / (kHalf - 1);
}
__device__ inline bool fits(uint32_t most, uint32_t guess, float scale) {
  return guess == 0 ? most == 0 : __uint_as_float(most) * scale <= 61440.0f;
}
// kApart: it reads what no kernel before it writes.
template <bool kApart, bool kWide, class Source, class Also>
__global__ void __launch_bounds__(kColumnThreads)
    guess_columns(Factor to, Source source, Also also) {
  if constexpr (kApart) next_may_come();
  else behind_previous();
  const Columns c(to);
  int64_t i0 = int64_t{blockIdx.y} * kRowsOfRound * kRounds + c.warp;
  Rows v;
  load_rows<kWide>(to, source, c, i0, v);
  uint4 guess = {};
#pragma unroll
  for (int s = 0; s < kSampled / kRowsAtOnce; ++s) {
    const int64_t i = sampled(to, c.warp + s * kRowsAtOnce);
    float w[4];
    source.template load<kWide>(c.batch, i, c.j, to.inner - c.j, w);
    guess = larger(guess, w);
  }
  guess = over_warps(guess);
  constexpr uint32_t kLower = 5u << 23;
  const FourScales scales({guess.x + kLower, guess.y + kLower, guess.z + kLower, guess.w + kLower});
  uint4 most = {};
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) load_rows<kWide>(to, source, c, i0, v);
    most = most_of_rows(most, v);
    write_rows(to, c, i0, v, scales);
    i0 += kRowsOfRound;
  }
  if (blockIdx.y == 0 && c.warp == 0) scales.keep(to, c);
  also(c.j, most);
  const bool fine =
      fits(most.x, guess.x, scales.scale[0]) && fits(most.y, guess.y, scales.scale[1]) &&
      fits(most.z, guess.z, scales.scale[2]) && fits(most.w, guess.w, scales.scale[3]);
  if (__syncthreads_or(!fine) != 0 && threadIdx.x == 0)
    atomicMax(to.mend + c.batch * gridDim.x + blockIdx.x, 1u);
  if constexpr (kApart) until_previous_ended();
}
template <bool kWide, class Source>
__global__ void __launch_bounds__(kColumnThreads) mend_columns(Factor to, Source source) {
  behind_previous();
  const Columns c(to);
  uint32_t* const mend = to.mend + c.batch * gridDim.x + blockIdx.x;
  if (*mend == 0) return;
  Rows v;
  uint4 most = {};
  for (int64_t i0 = c.warp; i0 < to.outer; i0 += kRowsOfRound) {
    load_rows<kWide>(to, source, c, i0, v);
    most = most_of_rows(most, v);
  }
  const FourScales scales(over_warps(most));
  for (int64_t i0 = c.warp; i0 < to.outer; i0 += kRowsOfRound) {
    load_rows<kWide>(to, source, c, i0, v);
    write_rows(to, c, i0, v, scales);
  }
  if (c.warp == 0) scales.keep(to, c);
  if (threadIdx.x == 0) *mend = 0;  // for the next run
}
// EVOLVE-BLOCK-END

template <class Source, class Also = NothingElse>
void halves_of_rows(const Factor& to, const Source& source, Queue& queue, const Also& also = {}) {
  const auto batches = static_cast<unsigned>(to.batches);
  if constexpr (!Also::kSquares) {
    if (to.inner <= kShort) {
      queue.launch(source.wide() ? halve_short_rows<true, Source> : halve_short_rows<false, Source>,
                   dim3(blocks_of(to.outer, kShortAtOnce), batches), kRowHalving, 0, to, source);
      return;
    }
  }
  queue.launch(source.wide() ? halve_rows<true, Source, Also> : halve_rows<false, Source, Also>,
               dim3(static_cast<unsigned>(to.outer), batches), kRowHalving, 0, to, source, also);
}
template <class Source, class Also = NothingElse>
void halves_of_columns(const Factor& to, const Source& source, Queue& queue,
                       const Also& also = {}) {
  const auto batches = static_cast<unsigned>(to.batches), across = blocks_of(to.inner, 128);
  const bool wide = source.wide();
  if (to.outer <= kRowsOfRound) {
    queue.launch(wide ? halve_few<true, Source, Also> : halve_few<false, Source, Also>,
                 dim3(across, 1, batches), kColumnThreads, 0, to, source, also);
    return;
  }
  constexpr bool kApart = Source::kInput && std::is_same_v<Also, NothingElse>;
  queue.launch(wide ? guess_columns<kApart, true, Source, Also>
                    : guess_columns<kApart, false, Source, Also>,
               dim3(across, blocks_of(to.outer, kRowsOfRound * kRounds), batches), kColumnThreads,
               0, to, source, also);
  queue.launch(wide ? mend_columns<true, Source> : mend_columns<false, Source>,
               dim3(across, 1, batches), kColumnThreads, 0, to, source);
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
  room = Room{reinterpret_cast<char*>(static_cast<State*>(self->kernel)->space)};
  // What was set to zero is so before the first run, on whatever stream that is.
  const bool fine = self->plan.make(*problem, room) && room.fine;
  return fine && cudaDeviceSynchronize() == cudaSuccess ? SCULLER_OK : SCULLER_ERROR;
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
