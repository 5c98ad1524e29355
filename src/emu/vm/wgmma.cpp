// wgmma: matrices of 64 x N x K, K being 32 bytes, by the four warps of a warp group. Each warp
// computes its own 16 rows when it executes the instruction: they need nothing of each other. The
// accumulators are written at once, which one of the orders of hardware is; what is read of shared
// memory is under way until wgmma.wait_group, for the checker.
#include <immintrin.h>

#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/bulk.h"
#include "emu/vm/collective.h"
#include "emu/vm/half.h"

namespace sculler::emu::vm {
namespace {

constexpr uint32_t kRows = 16;  // of a warp
constexpr uint32_t kMostColumns = 256, kMostK = 32;
constexpr uint32_t kUnit = 16;  // bytes; a core matrix is eight of them

// Op: o[0], o[1] descriptors (A, B), o[2] the predicate scale-d (op.c: 0 there is none and it is
// op.space), op.imm N, op.list D and, where op.a has kFromRegisters, A.
enum Flag : uint8_t {
  kFromRegisters = 1,
  kTransposeA = 2,
  kTransposeB = 4,
  kNegateA = 8,
  kNegateB = 16
};

// A descriptor of a matrix in shared memory: PTX ISA, asynchronous warpgroup level matrix.
struct Descriptor {
  uint32_t start = 0, leading = 0, stride = 0;  // bytes
  uint32_t swizzle = 0;                         // bits of an address that are changed
  uint32_t row = 0;                             // bytes from one row of a core matrix to the next
  uint32_t base = 0;
};
Descriptor unpack(uint64_t v) {
  static constexpr uint32_t kSwizzle[] = {0, 0x70, 0x30, 0x10}, kRow[] = {16, 128, 64, 32};
  const auto mode = static_cast<uint32_t>(v >> 62);
  return {static_cast<uint32_t>(v & 0x3fff) << 4,
          static_cast<uint32_t>(v >> 16 & 0x3fff) << 4,
          static_cast<uint32_t>(v >> 32 & 0x3fff) << 4,
          kSwizzle[mode],
          kRow[mode],
          static_cast<uint32_t>(v >> 49 & 7)};
}

// Offsets of the units that are read, for the bounds check and the checker.
class Units {
 public:
  explicit Units(const Warp& w) : end_(w.shared_end) {}
  // Where the unit at `offset` lies; false: outside of the block's shared memory.
  bool add(const Descriptor& d, uint32_t offset, uint32_t* at) {
    const uint32_t a = (d.start + offset) & 0x3ffffu;
    *at = a ^ (a >> 3 & d.swizzle);
    if (*at < kSharedReserved || *at + kUnit > end_) return false;
    used_[*at / kUnit / 64] |= uint64_t{1} << (*at / kUnit % 64);
    return true;
  }
  // f(offset, bytes) for each run.
  template <class F>
  void runs(F f) const {
    uint32_t begin = 0, n = 0;
    for (uint32_t word = 0; word < std::size(used_); ++word) {
      for (uint64_t rest = used_[word]; rest != 0;) {
        const auto low = static_cast<uint32_t>(std::countr_zero(rest));
        const auto length = static_cast<uint32_t>(std::countr_one(rest >> low));
        rest = low + length == 64 ? 0 : rest & (~uint64_t{0} << (low + length));
        const uint32_t first = word * 64 + low;
        if (first != begin + n) {
          if (n != 0) f(begin * kUnit, n * kUnit);
          begin = first;
          n = 0;
        }
        n += length;
      }
    }
    if (n != 0) f(begin * kUnit, n * kUnit);
  }

 private:
  uint64_t used_[kSharedWindow / kUnit / 64] = {};
  uint32_t end_;
};

// Elements as they lie in shared memory and in A's registers.
struct WgmmaBf16 {
  static constexpr uint32_t kBytes = 2;
  static float get(const uint8_t* p) {
    uint16_t v;
    std::memcpy(&v, p, 2);
    return bf16_to_float(v);
  }
};
struct WgmmaF16 {
  static constexpr uint32_t kBytes = 2;
  static float get(const uint8_t* p) {
    uint16_t v;
    std::memcpy(&v, p, 2);
    return f16_to_float(v);
  }
};
struct WgmmaTf32 {
  static constexpr uint32_t kBytes = 4;
  static float get(const uint8_t* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return std::bit_cast<float>(v & ~0x1fffu);
  }
};
struct WgmmaE4 {
  static constexpr uint32_t kBytes = 1;
  static float get(const uint8_t* p) {
    if ((*p & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
    const float s = (*p & 0x80) != 0 ? -1.0f : 1.0f;
    const int x = *p >> 3 & 15, m = *p & 7;
    return x == 0 ? s * std::ldexp(static_cast<float>(m), -9)
                  : s * std::ldexp(static_cast<float>(8 | m), x - 10);
  }
};
struct WgmmaE5 {
  static constexpr uint32_t kBytes = 1;
  static float get(const uint8_t* p) { return small_to_float<5, 2>(*p); }
};

// Reads `n` rows from `first` of an operand of K columns (32 bytes): put(row, k, value).
template <class E, class Put>
bool read_matrix(const Warp& w, Units& units, const Descriptor& d, bool transposed, uint32_t first,
                 uint32_t n, Put put) {
  constexpr uint32_t kPer = kUnit / E::kBytes;  // elements a unit
  uint32_t at = 0;
  if (!transposed) {
    // Units along K: two of them a row; eight rows are a core matrix.
    for (uint32_t row = first; row < first + n; ++row) {
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t step = d.swizzle == 0 ? d.leading : kUnit;
        if (!units.add(d, row / 8 * d.stride + row % 8 * d.row + half * step, &at)) return false;
        const uint8_t* p = w.shared + at;
        for (uint32_t k = 0; k < kPer; ++k)
          put(row - first, half * kPer + k, E::get(p + k * E::kBytes));
      }
    }
    return true;
  }
  // Units along the rows: of each k, d.row / 16 neighbours, then the next repeat of the pattern.
  const uint32_t wide = d.row / kUnit;
  for (uint32_t unit = first / kPer; unit < (first + n) / kPer; ++unit) {
    for (uint32_t k = 0; k < 2 * kPer; ++k) {
      const uint32_t offset = d.swizzle == 0 ? unit * d.stride + k % 8 * kUnit + k / 8 * d.leading
                                             : unit % wide * kUnit + unit / wide * d.leading +
                                                   k % 8 * d.row + k / 8 * d.stride;
      if (!units.add(d, offset, &at)) return false;
      const uint8_t* p = w.shared + at;
      for (uint32_t i = 0; i < kPer; ++i)
        put(unit * kPer + i - first, k, E::get(p + i * E::kBytes));
    }
  }
  return true;
}

// A's fragment: register r holds kPer elements of row g + 8 (r & 1), from column (r >> 1) 4 kPer +
// t kPer on, where g = lane / 4 and t = lane % 4.
template <class E>
void read_registers(const Warp& w, const Ref* refs, float (&a)[kRows][kMostK]) {
  constexpr uint32_t kPer = 4 / E::kBytes;
  for (uint32_t r = 0; r < 4; ++r) {
    const auto* v = lanes<uint32_t>(w, refs[r]);
    const uint32_t row = 8 * (r & 1), k0 = (r >> 1) * 4 * kPer;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint8_t bytes[4];
      std::memcpy(bytes, &v[lane], 4);
      for (uint32_t e = 0; e < kPer; ++e)
        a[row + lane / 4][k0 + lane % 4 * kPer + e] = E::get(bytes + e * E::kBytes);
    }
  }
}

// Columns of a group of eight in the order 0 2 4 6 1 3 5 7: a half is then one register's lanes.
constexpr uint32_t permuted(uint32_t column) {
  return (column & ~7u) | (column & 1u) << 2 | (column >> 1 & 3u);
}

// acc += a b for kGroups groups of eight columns, eight rows at a time.
template <uint32_t kK, uint32_t kGroups>
inline void multiply(const float (*a)[kMostK], const float* b, uint32_t pitch,
                     __m256 (&acc)[4][kGroups]) {
  for (uint32_t k = 0; k < kK; ++k) {
    __m256 column[kGroups];
    for (uint32_t g = 0; g < kGroups; ++g) column[g] = _mm256_load_ps(b + k * pitch + 8 * g);
    for (uint32_t row = 0; row < 4; ++row) {
      const __m256 x = _mm256_broadcast_ss(&a[row][k]);
      for (uint32_t g = 0; g < kGroups; ++g)
        acc[row][g] = _mm256_fmadd_ps(x, column[g], acc[row][g]);
    }
  }
}

// D in f32: registers 4 j + e hold columns 8 j + 2 t + (e & 1) of rows g + 8 (e >> 1).
template <uint32_t kK, uint32_t kGroups>
void accumulate_f32(const Warp& w, const Ref* d, const float (*a)[kMostK], const float* b,
                    uint32_t pitch, uint32_t j, bool keep) {
  for (uint32_t row = 0; row < kRows; row += 4) {
    const uint32_t e = row / 8 * 2, at = row % 8 * 4;  // lanes of these four rows
    __m256 acc[4][kGroups];
    for (uint32_t g = 0; g < kGroups; ++g) {
      const float* even = lanes<float>(w, d[4 * (j + g) + e]) + at;
      const float* odd = lanes<float>(w, d[4 * (j + g) + e + 1]) + at;
      for (uint32_t i = 0; i < 4; ++i)
        acc[i][g] = keep ? _mm256_set_m128(_mm_load_ps(odd + 4 * i), _mm_load_ps(even + 4 * i))
                         : _mm256_setzero_ps();
    }
    multiply<kK, kGroups>(a + row, b + 8 * j, pitch, acc);
    for (uint32_t g = 0; g < kGroups; ++g) {
      float* even = lanes<float>(w, d[4 * (j + g) + e]) + at;
      float* odd = lanes<float>(w, d[4 * (j + g) + e + 1]) + at;
      for (uint32_t i = 0; i < 4; ++i) {
        _mm_store_ps(even + 4 * i, _mm256_castps256_ps128(acc[i][g]));
        _mm_store_ps(odd + 4 * i, _mm256_extractf128_ps(acc[i][g], 1));
      }
    }
  }
}

// D in f16: registers 2 j + h hold columns 8 j + 2 t and the next one of rows g + 8 h.
template <uint32_t kK>
void accumulate_f16(const Warp& w, const Ref* d, const float (*a)[kMostK], const float* b,
                    uint32_t pitch, uint32_t j, bool keep) {
  for (uint32_t h = 0; h < 2; ++h) {
    auto* v = lanes<uint32_t>(w, d[2 * j + h]);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      float sum[2] = {0, 0};
      if (keep) {
        sum[0] = f16_to_float(static_cast<uint16_t>(v[lane]));
        sum[1] = f16_to_float(static_cast<uint16_t>(v[lane] >> 16));
      }
      const float* row = a[lane / 4 + 8 * h];
      for (uint32_t k = 0; k < kK; ++k)
        for (uint32_t i = 0; i < 2; ++i)
          sum[i] =
              __builtin_fmaf(row[k], b[k * pitch + permuted(8 * j + lane % 4 * 2 + i)], sum[i]);
      v[lane] = uint32_t{float_to_f16(sum[0])} | uint32_t{float_to_f16(sum[1])} << 16;
    }
  }
}

Act outside(Warp& w, const char* which) {
  return fault(w, Fault::Kind::kIllegalAddress, 0,
               std::string("the descriptor of wgmma's matrix ") + which +
                   " reaches outside of the block's shared memory (" +
                   std::to_string(w.shared_end - kSharedReserved) + " bytes)");
}

Act unknown(Warp& w) {
  return fault(w, Fault::Kind::kUnsupported, 0,
               "the emulator does not know matrix descriptors with a base offset: align the "
               "matrix to the swizzle's pattern, 1024 bytes of 128-byte rows");
}

template <class E, bool kHalf>
Act multiply_accumulate(Warp& w, const Op& op) {
  constexpr uint32_t kK = 32 / E::kBytes;
  if (w.dead != 0)
    return fault(w, Fault::Kind::kIllegalInstruction, 0,
                 "wgmma in a warp of fewer than 32 threads");
  if (!gathered(w, ~0u)) return Act::kRetry;
  const auto columns = static_cast<uint32_t>(op.imm);
  const Ref* d = w.refs + op.list;
  const uint32_t n_d = kHalf ? columns / 4 : columns / 2;
  alignas(32) float a[kRows][kMostK];
  alignas(32) static thread_local float b[kMostK * kMostColumns];
  Units units(w);
  const bool from_registers = (op.a & kFromRegisters) != 0;
  if (from_registers) {
    read_registers<E>(w, d + n_d, a);
  } else {
    const Descriptor at = unpack(lanes<uint64_t>(w, op.o[0])[0]);
    if (at.base != 0) return unknown(w);
    if (!read_matrix<E>(w, units, at, (op.a & kTransposeA) != 0, w.index % 4 * kRows, kRows,
                        [&](uint32_t row, uint32_t k, float v) { a[row][k] = v; }))
      return outside(w, "A");
  }
  const Descriptor at = unpack(lanes<uint64_t>(w, op.o[1])[0]);
  if (at.base != 0) return unknown(w);
  if (!read_matrix<E>(w, units, at, (op.a & kTransposeB) != 0, 0, columns,
                      [&](uint32_t column, uint32_t k, float v) {
                        b[k * kMostColumns + permuted(column)] = v;
                      }))
    return outside(w, "B");
  if (((op.a & kNegateA) != 0) != ((op.a & kNegateB) != 0))
    for (auto& row : a)
      for (uint32_t k = 0; k < kK; ++k) row[k] = -row[k];
  if (w.observer != nullptr)
    units.runs([&](uint32_t offset, uint32_t bytes) {
      tell_async(w, AsyncKind::kMatrix, Access::kLoad, w.shared_window + offset, bytes);
    });
  const bool keep = op.c != 0 ? (pred(w, op.o[2]) & 1u) != 0 : op.space != 0;
  uint32_t j = 0;
  if constexpr (kHalf) {
    for (; j < columns / 8; ++j) accumulate_f16<kK>(w, d, a, b, kMostColumns, j, keep);
  } else {
    for (; j + 2 <= columns / 8; j += 2) accumulate_f32<kK, 2>(w, d, a, b, kMostColumns, j, keep);
    if (j < columns / 8) accumulate_f32<kK, 1>(w, d, a, b, kMostColumns, j, keep);
  }
  w.counters->tensor_flops += uint64_t{2} * kRows * columns * kK;
  w.counters->wgmma_flops += uint64_t{2} * kRows * columns * kK;
  w.counters->shared_bytes += (from_registers ? 0 : kRows * 32) + columns * 32 / 4;
  return Act::kNext;
}

template <class E>
Handler handler_of(bool half) {
  return half ? &multiply_accumulate<E, true> : &multiply_accumulate<E, false>;
}

// wgmma.mma_async.sync.aligned.m64nNkK.d.a.b d, a, b-desc, scale-d, imm-scale-a, imm-scale-b{,
// imm-trans-a}{, imm-trans-b};
void decode_multiply(Emit& e) {
  if (!e.take("sync") || !e.take("aligned")) return e.unsupported();
  const std::string_view shape = e.peek();
  e.take(shape);
  uint32_t n = 0, k = 0;
  if (!shape.starts_with("m64n")) return e.unsupported("shape");
  size_t at = 4;
  const auto number = [&](uint32_t* out) {
    for (; at < shape.size() && shape[at] >= '0' && shape[at] <= '9' && *out < 1000; ++at)
      *out = *out * 10 + static_cast<uint32_t>(shape[at] - '0');
  };
  number(&n);
  if (at >= shape.size() || shape[at++] != 'k') return e.unsupported("shape");
  number(&k);
  if (at != shape.size() || n < 8 || n > kMostColumns || n % 8 != 0) return e.unsupported("shape");
  const bool half = e.peek() == "f16";
  if (!half && e.peek() != "f32") return e.unsupported("accumulator");
  e.take(e.peek());
  const std::string_view ta = e.peek();
  e.take(ta);
  const std::string_view tb = e.peek();
  e.take(tb);
  uint32_t bytes = 2;
  if (ta == "bf16" && tb == ta && !half) e.op.run = handler_of<WgmmaBf16>(false);
  else if (ta == "f16" && tb == ta) e.op.run = handler_of<WgmmaF16>(half);
  else if (ta == "tf32" && tb == ta && !half) e.op.run = handler_of<WgmmaTf32>(false), bytes = 4;
  else if (ta == "e4m3" && tb == ta) e.op.run = handler_of<WgmmaE4>(half), bytes = 1;
  else if (ta == "e5m2" && tb == ta) e.op.run = handler_of<WgmmaE5>(half), bytes = 1;
  else return e.unsupported("types");
  if (k * bytes != 32) return e.unsupported("shape");
  using Kind = ptx::Operand::Kind;
  const auto vector = [&](const ptx::Operand& o, size_t count) {
    if (o.kind == Kind::kVector && o.elements.size() == count) return true;
    e.unsupported("fragment size");
    return false;
  };
  if (e.count() < 6) return e.unsupported();
  const uint32_t n_d = half ? n / 4 : n / 2;
  if (!vector(e.operand(0), n_d)) return;
  for (const auto& x : e.operand(0).elements) e.list_inout(x, 32);
  const auto& a = e.operand(1);
  const bool from_registers = a.kind == Kind::kVector;
  if (from_registers) {
    e.op.a |= kFromRegisters;
    if (!vector(a, 4)) return;
    for (const auto& x : a.elements) e.list_src(x, 32);
  } else {
    e.src(0, a, 64);
  }
  e.src(1, 2, 64);
  int64_t value = 0;
  if (e.immediate(e.operand(3), &value)) {
    e.op.space = value != 0;
  } else {
    e.op.c = 1;
    e.pred_src(2, e.operand(3));
  }
  const auto flag = [&](size_t operand, int64_t off, int64_t on, uint8_t bit) {
    if (!e.immediate(e.operand(operand), &value) || (value != off && value != on))
      return e.unsupported("immediate");
    if (value == on) e.op.a |= bit;
  };
  flag(4, 1, -1, kNegateA);
  flag(5, 1, -1, kNegateB);
  const size_t transposes = bytes != 2 ? 0 : from_registers ? 1 : 2;
  if (!e.operands(6 + transposes)) return;
  if (transposes == 2) flag(6, 0, 1, kTransposeA);
  if (transposes != 0) flag(5 + transposes, 0, 1, kTransposeB);
  e.op.imm = n;
  e.no_overlap();
}

Act fence(Warp&, const Op&) { return Act::kNext; }
Act commit(Warp& w, const Op&) {
  if (w.observer != nullptr) w.observer->async_commit(w.actor, AsyncKind::kMatrix);
  return Act::kNext;
}
Act wait(Warp& w, const Op& op) {
  if (w.observer != nullptr)
    w.observer->async_wait(w.actor, AsyncKind::kMatrix, static_cast<uint32_t>(op.imm));
  return Act::kNext;
}

void decode_wgmma(Emit& e) {
  if (e.take("mma_async")) return decode_multiply(e);
  static constexpr std::array<std::string_view, 3> kOps{"fence", "commit_group", "wait_group"};
  const int what = e.choice(kOps);
  if (what < 0 || !e.take("sync") || !e.take("aligned")) return e.unsupported();
  int64_t n = 0;
  if (what == 2 ? !e.operands(1) || !e.immediate(e.operand(0), &n) || n < 0 || n > INT32_MAX
                : e.count() != 0)
    return e.unsupported();
  e.op.imm = n;
  e.op.run = what == 0 ? &fence : what == 1 ? &commit : &wait;
}

}  // namespace

void register_wgmma(DecodeTable& t) { t["wgmma"] = &decode_wgmma; }

}  // namespace sculler::emu::vm
