// mma.sync, ldmatrix, stmatrix, movmatrix.
#include <immintrin.h>

#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/collective.h"
#include "emu/vm/half.h"

namespace sculler::emu::vm {
namespace {

bool whole_warp(Warp& w, Act* act) {
  if (w.dead != 0) {
    *act = fault(w, Fault::Kind::kIllegalInstruction, 0,
                 "a matrix instruction in a warp of fewer than 32 threads");
    return false;
  }
  if (gathered(w, ~0u)) return true;
  *act = Act::kRetry;
  return false;
}

// ---- Fragments of mma.m16n8kK. A 32-bit register holds kPer elements along k; a lane is group g =
// lane / 4 and t = lane % 4. A register r of A: row g + 8 (r & 1), k from (r >> 1) 4 kPer + t kPer.
// B register r: column g, k from r 4 kPer + t kPer.
struct ElementBf16 {
  static constexpr int kPer = 2;
  static float get(uint32_t v, int e) {
    return bf16_to_float(static_cast<uint16_t>(v >> (16 * e)));
  }
};
struct ElementF16 {
  static constexpr int kPer = 2;
  static float get(uint32_t v, int e) { return f16_to_float(static_cast<uint16_t>(v >> (16 * e))); }
};
struct ElementTf32 {
  static constexpr int kPer = 1;
  static float get(uint32_t v, int) { return std::bit_cast<float>(v & ~0x1fffu); }
};
struct ElementE4 {
  static constexpr int kPer = 4;
  static float get(uint32_t v, int e) {
    const uint32_t b = v >> (8 * e) & 0xff;
    if ((b & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
    const float s = (b & 0x80) != 0 ? -1.0f : 1.0f;
    const int x = static_cast<int>(b >> 3 & 15);
    return x == 0 ? s * std::ldexp(static_cast<float>(b & 7), -9)
                  : s * std::ldexp(static_cast<float>(8 | (b & 7)), x - 10);
  }
};
struct ElementE5 {
  static constexpr int kPer = 4;
  static float get(uint32_t v, int e) { return small_to_float<5, 2>(v >> (8 * e) & 0xff); }
};
struct ElementS8 {
  static constexpr int kPer = 4;
  static int32_t get(uint32_t v, int e) { return static_cast<int8_t>(v >> (8 * e)); }
};
struct ElementU8 {
  static constexpr int kPer = 4;
  static int32_t get(uint32_t v, int e) { return static_cast<uint8_t>(v >> (8 * e)); }
};

template <class E, class T, int kK>
void gather_a(const Warp& w, const Ref* refs, T (&a)[16][kK]) {
  constexpr int kRegisters = 16 * kK / (32 * E::kPer);
  for (int r = 0; r < kRegisters; ++r) {
    const auto* v = lanes<uint32_t>(w, refs[r]);
    const int row = 8 * (r & 1), k0 = (r >> 1) * 4 * E::kPer;
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < E::kPer; ++e)
        a[row + lane / 4][k0 + lane % 4 * E::kPer + e] = E::get(v[lane], e);
  }
}
template <class E, class T, int kK>
void gather_b(const Warp& w, const Ref* refs, T (&b)[kK][8]) {
  constexpr int kRegisters = 8 * kK / (32 * E::kPer);
  for (int r = 0; r < kRegisters; ++r) {
    const auto* v = lanes<uint32_t>(w, refs[r]);
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < E::kPer; ++e)
        b[r * 4 * E::kPer + lane % 4 * E::kPer + e][lane / 4] = E::get(v[lane], e);
  }
}

// op.list: d (4 or 2), a, b, c. T is the accumulator; kHalf: c and d are packed f16.
template <class EA, class EB, class T, int kK, bool kHalf>
Act mma(Warp& w, const Op& op) {
  Act act;
  if (!whole_warp(w, &act)) return act;
  constexpr int kD = kHalf ? 2 : 4, kA = 16 * kK / (32 * EA::kPer), kB = 8 * kK / (32 * EB::kPer);
  const Ref* refs = w.refs + op.list;
  alignas(64) T a[16][kK], b[kK][8], d[16][8];
  gather_a<EA, T, kK>(w, refs + kD, a);
  gather_b<EB, T, kK>(w, refs + kD + kA, b);
  const Ref* c = refs + kD + kA + kB;
  for (int r = 0; r < 4; ++r) {
    for (int lane = 0; lane < 32; ++lane) {
      T& to = d[lane / 4 + 8 * (r >> 1)][lane % 4 * 2 + (r & 1)];
      if constexpr (kHalf)
        to = f16_to_float(
            static_cast<uint16_t>(lanes<uint32_t>(w, c[r >> 1])[lane] >> (16 * (r & 1))));
      else to = lanes<T>(w, c[r])[lane];
    }
  }
  for (int row = 0; row < 16; ++row) {
    T acc[8];
    std::memcpy(acc, d[row], sizeof acc);
    for (int k = 0; k < kK; ++k) {
      const T x = a[row][k];
      for (int n = 0; n < 8; ++n) {
        if constexpr (std::is_same_v<T, float>) acc[n] = __builtin_fmaf(x, b[k][n], acc[n]);
        else
          acc[n] = static_cast<T>(static_cast<uint32_t>(acc[n]) +
                                  static_cast<uint32_t>(x) * static_cast<uint32_t>(b[k][n]));
      }
    }
    std::memcpy(d[row], acc, sizeof acc);
  }
  if constexpr (kHalf) {
    for (int r = 0; r < 2; ++r) {
      auto* out = lanes<uint32_t>(w, refs[r]);
      for (int lane = 0; lane < 32; ++lane) {
        const T* pair = &d[lane / 4 + 8 * r][lane % 4 * 2];
        out[lane] = uint32_t{float_to_f16(pair[0])} | uint32_t{float_to_f16(pair[1])} << 16;
      }
    }
  } else {
    for (int r = 0; r < 4; ++r) {
      T* out = lanes<T>(w, refs[r]);
      for (int lane = 0; lane < 32; ++lane)
        out[lane] = d[lane / 4 + 8 * (r >> 1)][lane % 4 * 2 + (r & 1)];
    }
  }
  w.counters->tensor_flops += 2u * 16 * 8 * kK;
  return Act::kNext;
}

// The usual case, m16n8k16 of 16-bit floats, by hand. Four lanes hold eight neighbours of a row of
// A or a column of B, so that rows are 16-byte loads. Columns of C are kept in the order 0 2 4 6 1
// 3 5 7: half of them is one register's lanes.
template <bool kBf>
inline __m256 widen8(const uint32_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  if constexpr (kBf) return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  else return _mm256_cvtph_ps(v);
}
inline void transpose8(__m256 (&r)[8]) {
  __m256 t[8], u[8];
  for (int k = 0; k < 8; k += 2) {
    t[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
    t[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
  }
  for (int k = 0; k < 8; k += 4) {
    u[k] = _mm256_shuffle_ps(t[k], t[k + 2], 0x44);
    u[k + 1] = _mm256_shuffle_ps(t[k], t[k + 2], 0xee);
    u[k + 2] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0x44);
    u[k + 3] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0xee);
  }
  for (int k = 0; k < 4; ++k) {
    r[k] = _mm256_permute2f128_ps(u[k], u[k + 4], 0x20);
    r[k + 4] = _mm256_permute2f128_ps(u[k], u[k + 4], 0x31);
  }
}
template <bool kBf>
Act mma_16816(Warp& w, const Op& op) {
  Act act;
  if (!whole_warp(w, &act)) return act;
  const Ref* refs = w.refs + op.list;
  const uint32_t *a_rows[4], *b_rows[2];
  for (int r = 0; r < 4; ++r) a_rows[r] = lanes<uint32_t>(w, refs[4 + r]);
  for (int r = 0; r < 2; ++r) b_rows[r] = lanes<uint32_t>(w, refs[8 + r]);
  const float* c[4];
  for (int r = 0; r < 4; ++r) c[r] = lanes<float>(w, refs[10 + r]);
  alignas(32) float a[16][16], acc[16][8];
  for (int r = 0; r < 4; ++r)
    for (int g = 0; g < 8; ++g)
      _mm256_store_ps(&a[8 * (r & 1) + g][8 * (r >> 1)], widen8<kBf>(a_rows[r] + 4 * g));
  for (int g = 0; g < 8; ++g)
    for (int h = 0; h < 2; ++h)
      _mm256_store_ps(acc[8 * h + g], _mm256_set_m128(_mm_load_ps(c[2 * h + 1] + 4 * g),
                                                      _mm_load_ps(c[2 * h] + 4 * g)));
  constexpr int kColumns[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (int half = 0; half < 2; ++half) {
    __m256 b[8];
    for (int n = 0; n < 8; ++n) b[n] = widen8<kBf>(b_rows[half] + 4 * kColumns[n]);
    transpose8(b);  // now b[k], lanes are columns
    for (int row = 0; row < 16; row += 4) {
      __m256 s0 = _mm256_load_ps(acc[row]), s1 = _mm256_load_ps(acc[row + 1]),
             s2 = _mm256_load_ps(acc[row + 2]), s3 = _mm256_load_ps(acc[row + 3]);
      for (int k = 0; k < 8; ++k) {
        s0 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[row][8 * half + k]), b[k], s0);
        s1 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[row + 1][8 * half + k]), b[k], s1);
        s2 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[row + 2][8 * half + k]), b[k], s2);
        s3 = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[row + 3][8 * half + k]), b[k], s3);
      }
      _mm256_store_ps(acc[row], s0);
      _mm256_store_ps(acc[row + 1], s1);
      _mm256_store_ps(acc[row + 2], s2);
      _mm256_store_ps(acc[row + 3], s3);
    }
  }
  for (int h = 0; h < 2; ++h)
    for (int e = 0; e < 2; ++e) {
      float* d = lanes<float>(w, refs[2 * h + e]);
      for (int g = 0; g < 8; ++g) _mm_store_ps(d + 4 * g, _mm_load_ps(acc[8 * h + g] + 4 * e));
    }
  w.counters->tensor_flops += 2u * 16 * 8 * 16;
  return Act::kNext;
}

template <class EA, class EB, class T>
Handler by_k(int k, bool half) {
  constexpr int kPer = EA::kPer;
  if constexpr (std::is_same_v<T, float>) {
    if (half)
      return kPer == 2 ? (k == 16  ? &mma<EA, EB, T, 8 * kPer, true>
                          : k == 8 ? &mma<EA, EB, T, 4 * kPer, true>
                                   : nullptr)
                       : nullptr;
  }
  if (k == 8 * kPer) return &mma<EA, EB, T, 8 * kPer, false>;
  if (k == 4 * kPer) return &mma<EA, EB, T, 4 * kPer, false>;
  return nullptr;
}

void decode_mma(Emit& e) {
  if (!e.take("sync") || !e.take("aligned")) return e.unsupported();
  static constexpr std::array<std::string_view, 4> kShapes{"m16n8k4", "m16n8k8", "m16n8k16",
                                                           "m16n8k32"};
  const int shape = e.choice(kShapes);
  if (shape < 0 || !e.take("row") || !e.take("col")) return e.unsupported();
  const int k = 4 << shape;
  if (e.take("satfinite")) return e.unsupported("satfinite");
  const std::string_view dt = e.peek();
  e.take(dt);
  const std::string_view at = e.peek();
  e.take(at);
  const std::string_view bt = e.peek();
  e.take(bt);
  const std::string_view ct = e.peek();
  e.take(ct);
  if (dt != ct) return e.unsupported("accumulators of two types");
  const bool half = dt == "f16";
  int per = 0;
  if (at == "bf16" && bt == at && dt == "f32")
    e.op.run = by_k<ElementBf16, ElementBf16, float>(k, false), per = 2;
  else if (at == "f16" && bt == at && (half || dt == "f32"))
    e.op.run = by_k<ElementF16, ElementF16, float>(k, half), per = 2;
  else if (at == "tf32" && bt == at && dt == "f32")
    e.op.run = by_k<ElementTf32, ElementTf32, float>(k, false), per = 1;
  else if (at == "e4m3" && bt == "e4m3" && dt == "f32")
    e.op.run = by_k<ElementE4, ElementE4, float>(k, false), per = 4;
  else if (at == "e5m2" && bt == "e5m2" && dt == "f32")
    e.op.run = by_k<ElementE5, ElementE5, float>(k, false), per = 4;
  else if (at == "s8" && bt == "s8" && dt == "s32")
    e.op.run = by_k<ElementS8, ElementS8, int32_t>(k, false), per = 4;
  else if (at == "u8" && bt == "u8" && dt == "s32")
    e.op.run = by_k<ElementU8, ElementU8, int32_t>(k, false), per = 4;
  else if (at == "s8" && bt == "u8" && dt == "s32")
    e.op.run = by_k<ElementS8, ElementU8, int32_t>(k, false), per = 4;
  else if (at == "u8" && bt == "s8" && dt == "s32")
    e.op.run = by_k<ElementU8, ElementS8, int32_t>(k, false), per = 4;
  if (e.op.run == nullptr || !e.operands(4)) return e.unsupported();
  if (k == 16 && per == 2 && !half) e.op.run = at == "bf16" ? &mma_16816<true> : &mma_16816<false>;
  const size_t n[4] = {half ? 2u : 4u, static_cast<size_t>(16 * k / (32 * per)),
                       static_cast<size_t>(8 * k / (32 * per)), half ? 2u : 4u};
  for (size_t o = 0; o < 4; ++o) {
    const auto& x = e.operand(o);
    const bool vector = x.kind == ptx::Operand::Kind::kVector;
    if (vector ? x.elements.size() != n[o] : n[o] != 1) return e.unsupported("fragment size");
    for (size_t i = 0; i < n[o]; ++i) {
      const auto& element = vector ? x.elements[i] : x;
      if (o == 0) e.list_dst(element, 32);
      else e.list_src(element, 32, dt == "f32" && o == 3);
    }
  }
  e.no_overlap();
}

// ---- ldmatrix, stmatrix: lane 8 m + r holds the address of row r of matrix m; rows have 16 bytes.
template <int kN, bool kTranspose, bool kStore>
Act matrix_rows(Warp& w, const Op& op) {
  Act act;
  if (!whole_warp(w, &act)) return act;
  Target t;
  const uint32_t saved = w.exec;
  w.exec = kN == 4 ? ~0u : (1u << (8 * kN)) - 1;
  constexpr Access kAccess = kStore ? Access::kStore : Access::kLoad;
  if (!resolve(w, op, 16, kAccess, t)) return Act::kFault;
  report(w, op, 16, kAccess, t, w.exec);
  bool changed = false;
  for (int m = 0; m < kN; ++m) {
    auto* d = lanes<uint32_t>(w, kN == 1 ? op.o[0] : w.refs[op.list + static_cast<uint32_t>(m)]);
    uint16_t rows[8][8];
    if constexpr (kStore) {
      for (int lane = 0; lane < 32; ++lane) {
        const int r = lane / 4, c = lane % 4 * 2;
        (kTranspose ? rows[c][r] : rows[r][c]) = static_cast<uint16_t>(d[lane]);
        (kTranspose ? rows[c + 1][r] : rows[r][c + 1]) = static_cast<uint16_t>(d[lane] >> 16);
      }
      for (int r = 0; r < 8; ++r) {
        uint8_t* p = lane_pointer(t, 8 * m + r, 16);
        changed = changed || std::memcmp(p, rows[r], 16) != 0;
        std::memcpy(p, rows[r], 16);
      }
    } else {
      for (int r = 0; r < 8; ++r) std::memcpy(rows[r], lane_pointer(t, 8 * m + r, 16), 16);
      if constexpr (kTranspose) {
        for (int lane = 0; lane < 32; ++lane) {
          const int r = lane / 4, c = lane % 4 * 2;
          d[lane] = uint32_t{rows[c][r]} | uint32_t{rows[c + 1][r]} << 16;
        }
      } else {
        std::memcpy(d, rows, sizeof rows);
      }
    }
  }
  w.exec = saved;
  if (kStore) note_store(w, changed);
  return Act::kNext;
}
template <bool kStore>
Handler matrix_handler(int n, bool trans) {
  switch (n) {
    case 1: return trans ? &matrix_rows<1, true, kStore> : &matrix_rows<1, false, kStore>;
    case 2: return trans ? &matrix_rows<2, true, kStore> : &matrix_rows<2, false, kStore>;
    default: return trans ? &matrix_rows<4, true, kStore> : &matrix_rows<4, false, kStore>;
  }
}
void decode_matrix(Emit& e) {
  const bool store = e.in.opcode == "stmatrix";
  if (!e.take("sync") || !e.take("aligned")) return e.unsupported();
  static constexpr std::array<std::string_view, 3> kCounts{"x1", "x2", "x4"};
  int count = e.choice(kCounts);  // compilers take shape and count in either order
  if (!e.take("m8n8")) return e.unsupported();
  if (count < 0) count = e.choice(kCounts);
  const bool trans = e.take("trans");
  MemoryModifiers m;
  m.space = Space::kGeneric;
  if (e.take("shared") || e.take("shared::cta")) m.space = Space::kShared;
  if (count < 0 || !e.take("b16") || !e.operands(2)) return e.unsupported();
  const int n = 1 << count;
  const auto& data = e.operand(store ? 1 : 0);
  const bool vector = data.kind == ptx::Operand::Kind::kVector;
  if (vector ? data.elements.size() != static_cast<size_t>(n) : n != 1)
    return e.unsupported("fragment size");
  if (n == 1) {
    const auto& one = vector ? data.elements[0] : data;
    if (store) e.src(0, one, 32);
    else e.dst(0, one, 32);
  } else {
    for (const auto& x : data.elements) {
      if (store) e.list_src(x, 32);
      else e.list_dst(x, 32);
    }
  }
  address_operand(e, e.operand(store ? 0 : 1), m);
  e.op.run = store ? matrix_handler<true>(n, trans) : matrix_handler<false>(n, trans);
  e.op.bytes = 16;
  e.no_overlap();
}

Act move_matrix(Warp& w, const Op& op) {
  Act act;
  if (!whole_warp(w, &act)) return act;
  const auto* a = lanes<uint32_t>(w, op.o[1]);
  uint16_t m[8][8];
  for (int lane = 0; lane < 32; ++lane) {
    m[lane / 4][lane % 4 * 2] = static_cast<uint16_t>(a[lane]);
    m[lane / 4][lane % 4 * 2 + 1] = static_cast<uint16_t>(a[lane] >> 16);
  }
  auto* d = lanes<uint32_t>(w, op.o[0]);
  for (int lane = 0; lane < 32; ++lane)
    d[lane] = uint32_t{m[lane % 4 * 2][lane / 4]} | uint32_t{m[lane % 4 * 2 + 1][lane / 4]} << 16;
  return Act::kNext;
}

}  // namespace

void register_matrix(DecodeTable& t) {
  t["mma"] = &decode_mma;
  t["ldmatrix"] = &decode_matrix;
  t["stmatrix"] = &decode_matrix;
  t["movmatrix"] = [](Emit& e) {
    if (!e.take("sync") || !e.take("aligned") || !e.take("m8n8") || !e.take("trans") ||
        !e.take("b16"))
      return e.unsupported();
    e.op.run = &move_matrix;
    same_operands(e, 2, 32);
    e.no_overlap();
  };
}

}  // namespace sculler::emu::vm
