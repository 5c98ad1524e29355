// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor, tile mode.
#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/bulk.h"
#include "emu/vm/tensor_map.h"

namespace sculler::emu::vm {
namespace {

constexpr uint32_t kSharedAlign = 128;
constexpr uint32_t kChunk = 16;       // bytes that a swizzle moves together
constexpr double kMostSpan = 0x1p50;  // bytes of a tensor that are no mistake

// One lane's box of a tensor.
struct Box {
  TensorMap map;
  int64_t at[5] = {};                  // coordinates
  uint32_t low[5] = {}, high[5] = {};  // indices in the box that lie within the tensor
  uint32_t row_bytes = 0, rows = 1;
  uint32_t swizzle = 0;  // bits of an offset that are changed
  bool whole = true, empty = false;
  [[nodiscard]] uint32_t bytes() const { return row_bytes * rows; }
  [[nodiscard]] uint32_t place(uint32_t offset) const { return offset ^ (offset >> 3 & swizzle); }
};

// A map comes from the candidate, and so need not be one.
const char* wrong_with(const TensorMap& m) {
  if (m.magic != kTensorMapMagic) return "it was not made by cuTensorMapEncodeTiled";
  static constexpr uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  if (m.dims < 1 || m.dims > 5 || m.data_type >= std::size(kBytes) ||
      m.element_bytes != kBytes[m.data_type] || m.swizzle > 3 || m.address % 16 != 0)
    return "it is damaged";
  for (int d = 0; d < m.dims; ++d)
    if (m.box[d] < 1 || m.box[d] > 256 || m.size[d] < 1 || m.size[d] > uint64_t{1} << 32)
      return "it is damaged";
  for (int d = 0; d + 1 < m.dims; ++d)
    if (m.stride[d] % 16 != 0 || m.stride[d] >= uint64_t{1} << 40) return "it is damaged";
  if (m.box[0] * m.element_bytes % kChunk != 0) return "its rows are no multiple of 16 bytes";
  return nullptr;
}
const char* unknown_in(const TensorMap& m) {
  if (m.interleave != 0) return "interleaved tensor maps";
  for (int d = 0; d < m.dims; ++d)
    if (m.element_stride[d] != 1) return "tensor maps with element strides";
  const uint32_t row = uint32_t{m.box[0]} * m.element_bytes;
  if (m.swizzle != 0 && row != 16u << m.swizzle)
    return "swizzled boxes whose rows are narrower than the swizzle";
  return nullptr;
}

bool take_box(Warp& w, const BulkSite& s, const BulkSite::Part& map, int lane, Box* box) {
  const uint64_t at = value_of(w, map, lane);
  TensorMap& m = box->map;
  if (at % 64 != 0 || !read_generic(w, lane, at, &m, sizeof m)) {
    fault(w, Fault::Kind::kIllegalAddress, at,
          at % 64 != 0 ? "a tensor map is not aligned to 64 bytes"
                       : "a tensor map that cannot be read: pass it as a __grid_constant__ "
                         "parameter, or in global or constant memory");
    return false;
  }
  if (const char* wrong = wrong_with(m)) {
    fault(w, Fault::Kind::kIllegalInstruction, at, std::string("a tensor map is wrong: ") + wrong);
    return false;
  }
  if (const char* unknown = unknown_in(m)) {
    fault(w, Fault::Kind::kUnsupported, at, std::string("the emulator does not know ") + unknown);
    return false;
  }
  if (m.dims != s.dims) {
    fault(w, Fault::Kind::kIllegalInstruction, at,
          "a tensor map of " + std::to_string(m.dims) + " dimensions in a copy of " +
              std::to_string(s.dims));
    return false;
  }
  box->swizzle = m.swizzle == 0 ? 0 : ((1u << m.swizzle) - 1) << 4;
  box->row_bytes = uint32_t{m.box[0]} * m.element_bytes;
  uint64_t rows = 1;
  for (uint32_t d = 0; d < m.dims; ++d) {
    box->at[d] = static_cast<int32_t>(static_cast<uint32_t>(value_of(w, s.coordinates[d], lane)));
    const int64_t begin = std::clamp<int64_t>(-box->at[d], 0, m.box[d]);
    const int64_t end =
        std::clamp<int64_t>(static_cast<int64_t>(m.size[d]) - box->at[d], begin, m.box[d]);
    box->low[d] = static_cast<uint32_t>(begin);
    box->high[d] = static_cast<uint32_t>(end);
    box->whole = box->whole && begin == 0 && end == m.box[d];
    box->empty = box->empty || begin == end;
    if (d > 0) rows *= m.box[d];
  }
  if (rows * box->row_bytes > kSharedWindow) {
    fault(w, Fault::Kind::kIllegalInstruction, at,
          "the box of a tensor map is larger than shared memory");
    return false;
  }
  box->rows = static_cast<uint32_t>(rows);
  return true;
}

// f(row in the box, address, first byte of the row, bytes) for every row that lies in the tensor.
template <class F>
void each_row(const Box& b, F f) {
  if (b.empty) return;
  const TensorMap& m = b.map;
  uint32_t index[5] = {};
  const uint32_t first = b.low[0] * m.element_bytes, n = (b.high[0] - b.low[0]) * m.element_bytes;
  for (uint32_t row = 0; row < b.rows; ++row) {
    bool inside = true;
    Address at = m.address + static_cast<uint64_t>(b.at[0] * m.element_bytes) + first;
    for (uint32_t d = 1; d < m.dims; ++d) {
      inside = inside && index[d] >= b.low[d] && index[d] < b.high[d];
      at += static_cast<uint64_t>(b.at[d] + index[d]) * m.stride[d - 1];
    }
    if (inside) f(row, at, first, n);
    for (uint32_t d = 1; d < m.dims && ++index[d] == m.box[d]; ++d) index[d] = 0;
  }
}

// Whether the part within the tensor can be touched. One look for all rows where they lie in one
// allocation, else row by row, to name the one that does not.
bool reachable(Warp& w, const Box& b, Access access, int lane) {
  if (b.empty) return true;
  const TensorMap& m = b.map;
  const uint64_t columns = uint64_t{b.high[0] - b.low[0]} * m.element_bytes;
  Address low = m.address + static_cast<uint64_t>(b.at[0] + b.low[0]) * m.element_bytes;
  uint64_t span = columns, inside = columns;
  bool wild = false;
  for (uint32_t d = 1; d < m.dims; ++d) {
    const auto index = static_cast<uint64_t>(b.at[d] + b.low[d]);
    wild = wild ||
           static_cast<double>(index + m.box[d]) * static_cast<double>(m.stride[d - 1]) > kMostSpan;
    low += index * m.stride[d - 1];
    span += (b.high[d] - b.low[d] - 1) * m.stride[d - 1];
    inside *= b.high[d] - b.low[d];
  }
  if (!wild) {
    if (const Allocation* a = w.memory->reach(w.rank, low, span)) {
      count_bytes(w, *a, access, inside);
      w.counters->global_transactions += (inside + 31) / 32;
      return true;
    }
  }
  bool ok = true;
  each_row(b, [&](uint32_t, Address at, uint32_t, uint32_t n) {
    ok = ok && global_place(w, at, n, 1, access, lane) != nullptr;
  });
  return ok;
}

// Tells the observer of all rows; those that follow each other are one range.
void tell_rows(Warp& w, const Box& b, AsyncKind kind, Access access, Address barrier) {
  if (w.observer == nullptr) return;
  Address begin = 0, end = 0;
  each_row(b, [&](uint32_t, Address at, uint32_t, uint32_t n) {
    if (at != end) {
      if (end != begin) tell_async(w, kind, access, begin, end - begin, barrier);
      begin = at;
      end = at;
    }
    end += n;
  });
  if (end != begin) tell_async(w, kind, access, begin, end - begin, barrier);
}

// f(offset in the box's shared memory, offset in the row, bytes) for pieces that stay together.
template <class F>
void each_piece(const Box& b, uint32_t start, uint32_t row, uint32_t first, uint32_t n, F f) {
  if (b.swizzle == 0) return f(row * b.row_bytes + first, first, n);
  while (n > 0) {
    const uint32_t offset = start + row * b.row_bytes + first;
    const uint32_t piece = std::min(n, kChunk - offset % kChunk);
    f(b.place(offset) - start, first, piece);
    first += piece;
    n -= piece;
  }
}

// What is read beyond the tensor: zeros, or the NaN that floats may ask for.
void fill(const TensorMap& m, Bytes& to) {
  std::fill(to.begin(), to.end(), uint8_t{0});
  if (m.nan_fill == 0 || m.data_type < 6) return;
  for (size_t k = 0; k < to.size(); ++k)
    to[k] = k % m.element_bytes == m.element_bytes - 1u ? 0x7f : 0xff;
}

bool load(Warp& w, const BulkSite& s, int lane) {
  Box b;
  if (!take_box(w, s, s.from, lane, &b)) return false;
  Destinations d;
  if (!find_destinations(w, s, lane, b.bytes(), kSharedAlign, &d)) return false;
  if (!reachable(w, b, Access::kLoad, lane)) return false;
  tell_rows(w, b, AsyncKind::kTransaction, Access::kLoad, d.barrier[0].generic);
  Bytes& data = w.machine->scratch;
  data.resize(b.bytes());
  if (!b.whole) fill(b.map, data);
  // The same offset in every block: one image serves all.
  const uint32_t start = d.to[0].offset;
  each_row(b, [&](uint32_t row, Address at, uint32_t first, uint32_t n) {
    const auto* p = reinterpret_cast<const uint8_t*>(at) - first;
    each_piece(b, start, row, first, n, [&](uint32_t to, uint32_t from, uint32_t bytes) {
      std::memcpy(data.data() + to, p + from, bytes);
    });
  });
  return deliver(w, d, data.data(), b.bytes());
}

BulkSite::Element element_of(const TensorMap& m) {
  using S = BulkSite;
  static constexpr S::Element kTo[] = {S::kNoElement, S::kNoElement, S::kU32, S::kS32, S::kU64,
                                       S::kS64,       S::kF16,       S::kF32, S::kF64, S::kBf16,
                                       S::kF32,       S::kF32,       S::kF32};
  return kTo[m.data_type];
}

bool store(Warp& w, const BulkSite& s, int lane) {
  Box b;
  if (!take_box(w, s, s.to, lane, &b)) return false;
  const BulkSite::Element element = element_of(b.map);
  const bool reduces = s.reduce != BulkSite::kCopy;
  if (reduces && !can_reduce(s.reduce, element)) {
    fault(w, Fault::Kind::kIllegalInstruction, b.map.address,
          "this reduction is not there for the tensor map's data type");
    return false;
  }
  const Access access = reduces ? Access::kAtomic : Access::kStore;
  SharedPlace source;
  if (!shared_place(w, value_of(w, s.from, lane), b.bytes(), kSharedAlign, Access::kLoad, lane,
                    &source) ||
      !reachable(w, b, access, lane))
    return false;
  const uint32_t start = source.offset;
  if (b.whole) {
    tell_async(w, AsyncKind::kBulkRead, Access::kLoad, source.generic, b.bytes());
  } else {
    each_row(b, [&](uint32_t row, Address, uint32_t first, uint32_t n) {
      each_piece(b, start, row, first, n, [&](uint32_t at, uint32_t, uint32_t bytes) {
        tell_async(w, AsyncKind::kBulkRead, Access::kLoad, source.generic + at, bytes);
      });
    });
  }
  tell_rows(w, b, AsyncKind::kBulkWrite, access, 0);
  each_row(b, [&](uint32_t row, Address at, uint32_t first, uint32_t n) {
    auto* p = reinterpret_cast<uint8_t*>(at) - first;
    each_piece(b, start, row, first, n, [&](uint32_t from, uint32_t to, uint32_t bytes) {
      if (reduces) reduce_bytes(s.reduce, element, p + to, source.pointer + from, bytes);
      else std::memcpy(p + to, source.pointer + from, bytes);
    });
  });
  w.counters->shared_bytes += b.bytes();
  note_store(w, true);
  return true;
}

// The same store as that of another lane. A warp that issues one as a whole, as CUTLASS's epilogue
// does, moves its bytes once: the copy engine takes one order a warp, not one a thread (measured:
// 134 MB over the link in 0.5 ms, as much as once takes). Reductions are no such case.
bool same_store(Warp& w, const BulkSite& s, int lane, int other) {
  if (s.reduce != BulkSite::kCopy || value_of(w, s.to, lane) != value_of(w, s.to, other) ||
      value_of(w, s.from, lane) != value_of(w, s.from, other))
    return false;
  for (uint32_t d = 0; d < s.dims; ++d)
    if (value_of(w, s.coordinates[d], lane) != value_of(w, s.coordinates[d], other)) return false;
  return true;
}

template <bool kLoad>
Act tensor_copy(Warp& w, const Op& op) {
  const BulkSite& site = w.program->bulks[op.target];
  const int first = std::countr_zero(w.exec);
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (!kLoad && lane != first && same_store(w, site, lane, first)) continue;
    if (!(kLoad ? load(w, site, lane) : store(w, site, lane))) return Act::kFault;
  }
  return Act::kNext;
}

bool tensor_operand(Emit& e, const ptx::Operand& o, BulkSite& s, BulkSite::Part* map) {
  if (o.elements.size() != s.dims) {
    e.unsupported("as many coordinates as dimensions are expected");
    return false;
  }
  *map = address_part(e, o);
  for (size_t d = 0; d < o.elements.size(); ++d)
    s.coordinates[d] = value_part(e, o.elements[d], 32);
  return !e.failed();
}

}  // namespace

// Behind `tensor`: .dim.dst.src{.tile}.completion{.multicast}{.cache_hint} and, of a reduction,
// .op in front of the mode.
void decode_tensor(Emit& e, bool reduces) {
  BulkSite s;
  static constexpr std::array<std::string_view, 5> kDims{"1d", "2d", "3d", "4d", "5d"};
  const int dims = e.choice(kDims);
  if (dims < 0) return e.unsupported();
  s.dims = static_cast<uint8_t>(dims + 1);
  const bool loads = e.take("shared::cluster") || e.take("shared::cta");
  if (loads ? reduces || !e.take("global") : !e.take("global") || !e.take("shared::cta"))
    return e.unsupported();
  if (reduces && !take_reduction(e, s)) return e.unsupported();
  e.take("tile");
  if (!e.take(loads ? "mbarrier::complete_tx::bytes" : "bulk_group"))
    return e.unsupported("a mode other than .tile");
  const bool multicast = loads && e.take("multicast::cluster");
  const bool cached = e.take("L2::cache_hint");
  const size_t n = 2 + (loads ? 1u : 0u) + (multicast ? 1u : 0u) + (cached ? 1u : 0u);
  if (!e.operands(n)) return;
  size_t k = 0;
  if (loads) {
    s.to = address_part(e, e.operand(k++));
    if (!tensor_operand(e, e.operand(k++), s, &s.from)) return;
    s.barrier = address_part(e, e.operand(k++));
    s.from_global = true;
  } else {
    if (!tensor_operand(e, e.operand(k++), s, &s.to)) return;
    s.from = address_part(e, e.operand(k++));
    s.to_global = true;
  }
  if (multicast) s.mask = value_part(e, e.operand(k++), 16);
  if (e.failed()) return;
  e.op.target = static_cast<uint32_t>(e.program.bulks.size());
  e.program.bulks.push_back(s);
  e.op.run = loads ? &tensor_copy<true> : &tensor_copy<false>;
}

}  // namespace sculler::emu::vm
