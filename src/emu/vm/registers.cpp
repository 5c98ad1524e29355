#include "emu/vm/registers.h"

#include <algorithm>
#include <queue>

namespace sculler::emu::vm {
namespace {

constexpr uint64_t kMostBits = uint64_t{1} << 31;  // of the liveness table

// Bits of virtual registers.
class Bits {
 public:
  explicit Bits(size_t n) : words_((n + 63) / 64) {}
  void set(uint32_t k) { words_[k / 64] |= uint64_t{1} << (k % 64); }
  void clear(uint32_t k) { words_[k / 64] &= ~(uint64_t{1} << (k % 64)); }
  [[nodiscard]] bool has(uint32_t k) const { return (words_[k / 64] >> (k % 64) & 1) != 0; }
  void merge(const Bits& o) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= o.words_[w];
  }
  bool operator==(const Bits& o) const = default;
  template <class F>
  void each(F f) const {
    for (size_t w = 0; w < words_.size(); ++w)
      for (uint64_t rest = words_[w]; rest != 0; rest &= rest - 1)
        f(static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(rest))));
  }

 private:
  std::vector<uint64_t> words_;
};

struct BasicBlock {
  uint32_t begin = 0, end = 0;  // ops
  std::vector<uint32_t> next;   // blocks
};

// Basic blocks of a function, in order of ops.
std::vector<BasicBlock> blocks_of(const ptx::Function& f) {
  const auto n = static_cast<uint32_t>(f.code.size()) + 1;  // with the return behind the end
  std::vector<bool> leader(n + 1, false);
  leader[0] = true;
  std::vector<std::vector<uint32_t>> targets(n);
  std::vector<bool> falls(n, true);
  for (uint32_t k = 0; k + 1 < n; ++k) {
    const ptx::Instruction& in = f.code[k];
    const bool guarded = in.guard >= 0;
    if (in.opcode == "bra" && !in.operands.empty()) {
      targets[k].push_back(static_cast<uint32_t>(in.operands[0].imm));
      falls[k] = guarded;
    } else if (in.opcode == "brx") {
      for (size_t t = 0; t < f.branch_tables.size(); ++t)
        if (in.operands.size() > 1 && f.branch_table_names[t] == in.operands[1].symbol)
          targets[k] = f.branch_tables[t];
      falls[k] = guarded;
    } else if (in.opcode == "ret" || in.opcode == "exit" || in.opcode == "trap") {
      falls[k] = guarded;
    } else {
      continue;
    }
    leader[k + 1] = true;
    for (uint32_t t : targets[k])
      if (t < n) leader[t] = true;
  }
  falls[n - 1] = false;
  std::vector<BasicBlock> blocks;
  std::vector<uint32_t> block_at(n, 0);
  for (uint32_t k = 0; k < n; ++k) {
    if (leader[k]) {
      if (!blocks.empty()) blocks.back().end = k;
      blocks.push_back({k, n, {}});
    }
    block_at[k] = static_cast<uint32_t>(blocks.size() - 1);
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    const uint32_t last = blocks[b].end - 1;
    for (uint32_t t : targets[last])
      if (t < n) blocks[b].next.push_back(block_at[t]);
    if (falls[last] && b + 1 < blocks.size())
      blocks[b].next.push_back(static_cast<uint32_t>(b + 1));
  }
  return blocks;
}

struct Interval {
  uint32_t vreg = 0;
  uint64_t start = ~uint64_t{0}, end = 0;
};

// One interval a register, from its first to its last live place; positions are 2 op for reads and
// 2 op + 1 for writes. A write under a guard keeps what was there, so it does not end the life of
// the old value.
std::vector<Interval> intervals_of(const FunctionCode& code, const FunctionDraft& draft) {
  const auto blocks = blocks_of(*code.source);
  const size_t n = draft.kinds.size();
  const auto& fixups = draft.fixups;
  std::vector<Interval> all(n);
  for (uint32_t v = 0; v < n; ++v) all[v].vreg = v;
  const auto extend = [&](uint32_t v, uint64_t from, uint64_t to) {
    all[v].start = std::min(all[v].start, from);
    all[v].end = std::max(all[v].end, to);
  };
  const uint64_t whole = 2 * (uint64_t{code.source->code.size()} + 1);
  if (static_cast<uint64_t>(n) * blocks.size() * 2 > kMostBits) {
    for (const Fixup& f : fixups) extend(f.vreg, 0, whole);
    return all;
  }
  // Fixups of each op.
  std::vector<uint32_t> first(code.source->code.size() + 2, 0);
  for (const Fixup& f : fixups) ++first[f.op + 1];
  for (size_t k = 1; k < first.size(); ++k) first[k] += first[k - 1];
  std::vector<bool> guarded(code.source->code.size() + 1, false);
  for (size_t k = 0; k < code.source->code.size(); ++k)
    guarded[k] = code.source->code[k].guard >= 0;
  const auto backwards = [&](const BasicBlock& b, Bits& live, auto&& visit) {
    for (uint32_t op = b.end; op-- > b.begin;) {
      for (uint32_t k = first[op]; k < first[op + 1]; ++k) {
        if (!fixups[k].is_dst) continue;
        visit(fixups[k], op);
        if (!guarded[op]) live.clear(fixups[k].vreg);
      }
      for (uint32_t k = first[op]; k < first[op + 1]; ++k) {
        if (fixups[k].is_dst) continue;
        visit(fixups[k], op);
        live.set(fixups[k].vreg);
      }
    }
  };
  std::vector<Bits> in(blocks.size(), Bits(n)), out(blocks.size(), Bits(n));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;) {
      for (uint32_t s : blocks[b].next) out[b].merge(in[s]);
      Bits live = out[b];
      backwards(blocks[b], live, [](const Fixup&, uint32_t) {});
      if (live == in[b]) continue;
      in[b] = std::move(live);
      changed = true;
    }
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    const uint64_t begin = 2 * uint64_t{blocks[b].begin}, end = 2 * uint64_t{blocks[b].end};
    in[b].each([&](uint32_t v) { extend(v, begin, begin); });
    out[b].each([&](uint32_t v) { extend(v, end - 1, end - 1); });
    Bits live = out[b];
    backwards(blocks[b], live, [&](const Fixup& f, uint32_t op) {
      const uint64_t at = 2 * uint64_t{op} + (f.is_dst && !draft.overlapping[op] ? 1 : 0);
      extend(f.vreg, at, f.is_dst ? 2 * uint64_t{op} + 1 : at);
    });
  }
  return all;
}

}  // namespace

void assign_registers(Program& program, FunctionCode& code, const FunctionDraft& draft) {
  auto intervals = intervals_of(code, draft);
  std::erase_if(intervals, [](const Interval& i) { return i.start > i.end; });
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return a.start < b.start || (a.start == b.start && a.vreg < b.vreg);
  });
  struct Active {
    uint64_t end;
    uint32_t vreg;
    bool operator<(const Active& o) const { return end > o.end; }
  };
  std::priority_queue<Active> active;
  std::vector<uint32_t> free_rows[4];
  uint32_t next[4] = {0, 0, 0, 0}, weight = 0;
  constexpr uint32_t kWeights[4] = {1, 2, 0, 4};
  std::vector<uint32_t> row(draft.kinds.size(), 0);
  for (const Interval& i : intervals) {
    while (!active.empty() && active.top().end < i.start) {
      const uint32_t gone = active.top().vreg;
      active.pop();
      free_rows[draft.kinds[gone]].push_back(row[gone]);
      weight -= kWeights[draft.kinds[gone]];
    }
    const uint8_t kind = draft.kinds[i.vreg];
    if (free_rows[kind].empty()) {
      row[i.vreg] = next[kind]++;
    } else {
      row[i.vreg] = free_rows[kind].back();
      free_rows[kind].pop_back();
    }
    active.push({i.end, i.vreg});
    weight += kWeights[kind];
    code.live32 = std::max(code.live32, weight);
  }
  code.rows32 = next[0] * kRow32;
  const uint32_t wide = next[1] * kRow64;
  code.rows64 = wide + next[3] * kRow128;
  code.preds = next[2];
  for (const Fixup& f : draft.fixups) {
    Op& op = program.ops[code.begin + f.op];
    uint32_t& field = f.slot == kGuardSlot  ? op.guard
                      : f.slot == kListSlot ? program.refs[f.index]
                                            : op.o[f.slot];
    const uint32_t r = row[f.vreg];
    switch (f.kind) {
      case 0: field = r * kRow32; break;
      case 1: field = kBank64 << kBankShift | r * kRow64; break;
      case 3: field = kBank64 << kBankShift | (wide + r * kRow128); break;
      default: field = r << 1 | (field & 1); break;
    }
  }
}

}  // namespace sculler::emu::vm
