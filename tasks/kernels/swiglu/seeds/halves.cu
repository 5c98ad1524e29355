// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Three fp16 products of a warp group stand for one of float32; a warp copies tiles ahead."}
//
// Y = (silu(X GATE) (X UP)) DOWN on Hopper's tensor cores, within the tolerance of float32.

// Columns of a block's tile, which has 128 rows.
// sculler:tune TILE_N in {128,256}
#ifndef TILE_N
#define TILE_N 256
#endif
// Tiles in shared memory: one is multiplied while the others arrive.
// sculler:tune STAGES in {2,3,4,6}
#ifndef STAGES
#define STAGES 4
#endif
// Blocks that fetch W together.
// sculler:tune CLUSTER in {1,2}
#ifndef CLUSTER
#define CLUSTER 2
#endif
// Blocks of a multiprocessor; two have TILE_N 128 and three stages.
// sculler:tune BLOCKS in {1,2}
#ifndef BLOCKS
#define BLOCKS 1
#endif
// Depth after which sums are added outside of the tensor cores, which round towards zero; 0: never.
// sculler:tune DEPTH in {0,1024,2048,4096}
#ifndef DEPTH
#define DEPTH 0
#endif
// 1: two stages are one that holds both halves of both factors; each is copied once.
// sculler:tune JOINT in {0,1}
#ifndef JOINT
#define JOINT 0
#endif
// Kernels are brought to the multiprocessors while the ones before them end.
// sculler:tune OVERLAP in {0,1}
#ifndef OVERLAP
#define OVERLAP 1
#endif
#include "entry.h"
#include "halves.h"

namespace {
// EVOLVE-BLOCK-START
// X times GATE and UP, whose columns alternate in groups of eight: a thread has the sums of both. The
// gate's outputs H are written as halves at once. Their scale must be known by then: no |H| of a row is
// above |x|^2 K G U, the row's length, the largest of GATE and of UP.
struct Plan {
  Factor x, both, h, down;
  float* lengths;  // of X's rows
  uint32_t* most;  // of GATE and of UP
  Product first, second;
  bool make(const sculler_problem& problem, Room& room) {
    const int64_t m = problem.dim[0], n = problem.dim[1], k = problem.dim[2];
    x = take_factor(room, 1, m, k, true);
    both = take_factor(room, 1, k, (n + 7) / 8 * 16, false);
    h = take_factor(room, 1, m, n, true);
    down = take_factor(room, 1, n, k, false);
    lengths = room.take<float>(m);
    most = room.take<uint32_t>(2);
    return make_product<true>(room, x, both, first) && make_product<true>(room, h, down, second);
  }
};

struct Lengths {
  static constexpr bool kSquares = true;
  float* to;
  uint32_t* most;  // begins anew
  __device__ float operator()(int64_t i, float squares, float inverse) const {
    to[i] = sqrtf(squares) * inverse;
    if (i == 0) most[0] = most[1] = 0;
    return inverse;
  }
};
struct MostOfBoth {
  uint32_t* most;
  __device__ void operator()(int64_t j, uint4 four) const {
    const uint32_t bits = max(max(four.x, four.y), max(four.z, four.w));
    const bool up = j / 8 % 2 == 1;
    const uint32_t of_gate = __reduce_max_sync(0xffffffffu, up ? 0 : bits),
                   of_up = __reduce_max_sync(0xffffffffu, up ? bits : 0);
    if (threadIdx.x % 32 == 0) {
      atomicMax(most, of_gate);
      atomicMax(most + 1, of_up);
    }
  }
};
struct Alternating {
  static constexpr bool kInput = true;
  AsTheyAre gate, up;
  int64_t n;
  template <bool kWide, int kN>
  __device__ void load(int64_t, int64_t i, int64_t j, int64_t there, float (&v)[kN]) const {
    const int64_t column = j / 16 * 8 + j % 8, left = there > 0 ? n - column : 0;
    (j / 8 % 2 == 0 ? gate : up).load<kWide>(0, i, column, left, v);
  }
  [[nodiscard]] bool wide() const { return gate.wide() && up.wide(); }
};

// A lane has two neighbours of each group of eight of H; two groups are a sector of memory, and lanes
// change places within pairs so that each writes four neighbours.
struct Gate {
  Factor h;
  Scales scales;
  const float* lengths;
  const uint32_t* most;
  float k;
  __device__ void operator()(const Place& p, const float (&sums)[kSums]) const {
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
    const bool odd = lane % 2 == 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = p.row + thread / 32 * 16 + lane / 4 + half * 8;
      const bool there = row < p.m;
      const float of_row = there ? scales.rows[row] : 0.0f,
                  length = there ? lengths[row] * sqrtf(k) : 0.0f;
      const float2 of_h = scales_of(__float_as_uint(length * __uint_as_float(most[0]) *
                                                    (length * __uint_as_float(most[1]))));
      if (there && p.column == 0 && lane % 4 == 0) h.inverse[row] = of_h.y;
      const auto gated = [&](int group, uint32_t& high, uint32_t& low) {
        const int column = p.column + group * 16 + lane % 4 * 2;
        float2 gate{}, up{};
        if (column < p.n) {
          gate = __ldg(reinterpret_cast<const float2*>(scales.columns + column));
          up = __ldg(reinterpret_cast<const float2*>(scales.columns + column + 8));
        }
        __half2 both[2];
        const auto one = [&](int e, float of_gate, float of_up, __half& to_high, __half& to_low) {
          const float g = scaled(sums[group * 8 + half * 2 + e], of_row, of_gate),
                      u = scaled(sums[group * 8 + 4 + half * 2 + e], of_row, of_up);
          halve(u * __fdividef(g, 1.0f + __expf(-g)), of_h.x, to_high, to_low);
        };
        one(0, gate.x, up.x, both[0].x, both[1].x);
        one(1, gate.y, up.y, both[0].y, both[1].y);
        high = *reinterpret_cast<const uint32_t*>(&both[0]);
        low = *reinterpret_cast<const uint32_t*>(&both[1]);
      };
#pragma unroll
      for (int group = 0; group < TILE_N / 16; group += 2) {
        uint32_t high, low, next_high, next_low;
        gated(group, high, low);
        gated(group + 1, next_high, next_low);
        const uint32_t other_high = __shfl_xor_sync(0xffffffffu, odd ? high : next_high, 1),
                       other_low = __shfl_xor_sync(0xffffffffu, odd ? low : next_low, 1);
        const int column = p.column / 2 + (group + odd) * 8 + lane % 4 / 2 * 4;
        if (!there || column >= h.inner) continue;
        __half* const to = h.halves + row * h.pitch + column;
        *reinterpret_cast<uint2*>(to) =
            odd ? uint2{other_high, next_high} : uint2{high, other_high};
        *reinterpret_cast<uint2*>(to + h.outer * h.pitch) =
            odd ? uint2{other_low, next_low} : uint2{low, other_low};
      }
    }
  }
};

int run(const Call& call, const Plan& plan) {
  Queue queue{call.stream, OVERLAP != 0};
  const int64_t n = call.dim(1), k = call.dim(2);
  halves_of_rows(plan.x, AsTheyAre{call.buffer(0), k, 0}, queue,
                 Lengths{plan.lengths, plan.most});
  halves_of_columns(plan.both, Alternating{{call.buffer(3), n, 0}, {call.buffer(1), n, 0}, n}, queue,
                    MostOfBoth{plan.most});
  halves_of_columns(plan.down, AsTheyAre{call.buffer(2), k, 0}, queue);
  multiply<true>(plan.first, queue,
                 Gate{plan.h, scales_of(plan.x, plan.both), plan.lengths, plan.most,
                      static_cast<float>(k)});
  multiply<true>(plan.second, queue,
                 StoreTile<AsItIs>{{call.buffer(4), k, 0}, scales_of(plan.h, plan.down), {}});
  return queue.end();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_planned<Plan>(rank, problem, pool, state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(planned_call<Plan>(state, problem, set), plan_of<Plan>(state));
}

extern "C" int sculler_teardown(void* state) { return end_planned<Plan>(state); }
// sculler:file entry.h from ../../shared
// sculler:file hopper.h from ../../shared
// sculler:file wgmma.h from ../../shared
// sculler:file halves.h from ../../shared
