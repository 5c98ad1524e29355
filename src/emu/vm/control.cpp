// Branches, calls, exits, block barriers, sleeping, printing and assertions.
#include <cstdio>

#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/cluster.h"
#include "emu/vm/collective.h"

namespace sculler::emu::vm {
namespace {

Act branch(Warp&, const Op&) { return Act::kBranch; }
void decode_bra(Emit& e) {
  e.take("uni");
  if (!e.operands(1) || e.operand(0).kind != ptx::Operand::Kind::kLabel) return e.unsupported();
  const int64_t to = e.operand(0).imm;
  if (to < 0 || static_cast<uint64_t>(to) > e.draft.source->code.size())
    return e.unsupported("label");
  e.op.target = e.code.begin + static_cast<uint32_t>(to);
  e.op.run = &branch;
}

Act indexed_branch(Warp& w, const Op& op) {
  const auto* index = lanes<uint32_t>(w, op.o[1]);
  const auto& table = w.program->branch_tables[op.list];
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    if (index[i] >= table.size())
      return fault(
          w, Fault::Kind::kIllegalInstruction, 0,
          "brx.idx with index " + std::to_string(index[i]) + " of " + std::to_string(table.size()));
    w.lane_target[i] = table[index[i]];
  }
  return Act::kSplit;
}
void decode_brx(Emit& e) {
  if (!e.take("idx")) return e.unsupported();
  e.take("uni");
  if (!e.operands(2)) return;
  const ptx::Function& f = *e.draft.source;
  const std::string_view name = e.operand(1).symbol;
  for (size_t k = 0; k < f.branch_tables.size(); ++k) {
    if (f.branch_table_names[k] != name) continue;
    std::vector<uint32_t> table;
    for (uint32_t t : f.branch_tables[k]) table.push_back(e.code.begin + t);
    e.op.list = static_cast<uint32_t>(e.program.branch_tables.size());
    e.program.branch_tables.push_back(std::move(table));
    e.op.run = &indexed_branch;
    e.src(1, size_t{0}, 32);
    return;
  }
  e.unsupported("branch table");
}

Act leave(Warp&, const Op&) { return Act::kExit; }
Act give_back(Warp&, const Op&) { return Act::kReturn; }
Act trap(Warp& w, const Op&) {
  return fault(
      w, Fault::Kind::kTrap, 0,
      "a trap instruction was executed by kernel " + short_name(w.grid->kernel->info.name));
}
Act nothing(Warp&, const Op&) { return Act::kNext; }
Act sleep(Warp&, const Op&) { return Act::kYield; }

// ---- Calls.
Act call(Warp&, const Op&) { return Act::kCall; }

uint64_t frame_value(const Warp& w, int lane, const FunctionCode::Slot& slot) {
  uint64_t v = 0;
  const uint32_t n = slot.bytes < 8 ? slot.bytes : 8;
  for (uint32_t k = 0; k < n; ++k)
    v |= uint64_t{*local_pointer(w, lane, w.local_base + slot.offset + k)} << (8 * k);
  return v;
}

std::string read_string(const Warp& w, int lane, Address at) {
  std::string s;
  for (char c = 0; s.size() < 4096; s += c)
    if (!read_generic(w, lane, at + s.size(), &c, 1) || c == 0) break;
  return s;
}

// The text of one lane's printf; arguments lie packed at their natural alignment.
std::string format_line(const Warp& w, int lane, const std::string& format, Address arguments) {
  std::string out;
  uint64_t at = 0;
  const auto next = [&](uint64_t bytes) {
    at = (at + bytes - 1) / bytes * bytes;
    uint64_t v = 0;
    read_generic(w, lane, arguments + at, &v, bytes);
    at += bytes;
    return v;
  };
  for (size_t k = 0; k < format.size() && out.size() < (1u << 16); ++k) {
    if (format[k] != '%') {
      out += format[k];
      continue;
    }
    std::string spec = "%";
    ++k;
    int longs = 0;
    bool wide = false;
    for (; k < format.size(); ++k) {
      const char c = format[k];
      if (c == '*') {
        int32_t v = static_cast<int32_t>(next(4));
        v = v < -4096 ? -4096 : v > 4096 ? 4096 : v;
        spec += std::to_string(v);
      } else if (c == 'l') {
        ++longs;
      } else if (c == 'z' || c == 'j' || c == 't') {
        wide = true;
      } else if (c == 'h' || c == 'L') {
      } else if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == ' ' || c == '#' ||
                 c == '.') {
        if (spec.size() < 16) spec += c;
      } else {
        break;
      }
    }
    if (k >= format.size()) break;
    const char c = format[k];
    char text[4608];
    text[0] = 0;
    switch (c) {
      case '%': out += '%'; continue;
      case 'd':
      case 'i': {
        const bool long_one = longs > 0 || wide;
        const auto v = long_one ? static_cast<long long>(next(8))
                                : static_cast<long long>(static_cast<int32_t>(next(4)));
        std::snprintf(text, sizeof text, (spec + "lld").c_str(), v);
        break;
      }
      case 'u':
      case 'x':
      case 'X':
      case 'o': {
        const unsigned long long v = longs > 0 || wide ? next(8) : next(4);
        std::snprintf(text, sizeof text, (spec + "ll" + c).c_str(), v);
        break;
      }
      case 'c':
        std::snprintf(text, sizeof text, (spec + "c").c_str(), static_cast<int>(next(4)));
        break;
      case 'p':
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(next(8)));
        break;
      case 's':
        std::snprintf(text, sizeof text, (spec + "s").c_str(),
                      read_string(w, lane, next(8)).c_str());
        break;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        std::snprintf(text, sizeof text, (spec + c).c_str(), std::bit_cast<double>(next(8)));
        break;
      default: std::snprintf(text, sizeof text, "%%%c", c); break;
    }
    out += text;
  }
  return out;
}
Act print(Warp& w, const Op& op) {
  const CallSite& site = w.program->calls[op.target];
  for_mask(w.exec, [&](int i) {
    const std::string format = read_string(w, i, frame_value(w, i, site.arguments[0]));
    const std::string text = format_line(w, i, format, frame_value(w, i, site.arguments[1]));
    if (*w.machine->on_print) (*w.machine->on_print)(w.rank, text);
    if (!site.results.empty()) {
      const uint32_t at = w.local_base + site.results[0].offset;
      const uint32_t n = static_cast<uint32_t>(text.size());
      std::memcpy(local_pointer(w, i, at), &n, 4);
    }
  });
  return Act::kNext;
}
Act assert_failed(Warp& w, const Op& op) {
  const CallSite& site = w.program->calls[op.target];
  const int i = std::countr_zero(w.exec);
  const std::string text = read_string(w, i, frame_value(w, i, site.arguments[0]));
  const std::string file = read_string(w, i, frame_value(w, i, site.arguments[1]));
  const uint64_t line = frame_value(w, i, site.arguments[2]);
  return fault(w, Fault::Kind::kAssert, 0,
               "rank " + std::to_string(w.rank) + ", block " + std::to_string(w.block->linear) +
                   ", thread " + std::to_string(w.index * kWarpSize + static_cast<uint32_t>(i)) +
                   ": assertion `" + text + "` failed at " + file + ":" + std::to_string(line));
}

// call (ret), f, (args); call f, (args); call f;
void decode_call(Emit& e) {
  using Kind = ptx::Operand::Kind;
  e.take("uni");
  size_t k = 0;
  CallSite site;
  const auto slots = [&](const ptx::Operand& list, std::vector<FunctionCode::Slot>* out) {
    for (const auto& x : list.elements) {
      const auto* slot = x.kind == Kind::kSymbol ? e.frame_slot(x.symbol) : nullptr;
      if (slot == nullptr) return e.unsupported("an argument that is not a .param variable");
      out->push_back(*slot);
    }
  };
  if (k < e.count() && e.operand(k).kind == Kind::kList) slots(e.operand(k++), &site.results);
  if (k >= e.count() || (e.operand(k).kind != Kind::kSymbol && e.operand(k).kind != Kind::kLabel))
    return e.unsupported("call through a pointer");
  const std::string_view name = e.operand(k++).symbol;
  if (k < e.count() && e.operand(k).kind == Kind::kList) slots(e.operand(k++), &site.arguments);
  if (k != e.count()) return e.unsupported("call through a pointer");
  if (e.failed()) return;
  e.op.target = static_cast<uint32_t>(e.program.calls.size());
  if (name == "vprintf" && site.arguments.size() == 2) {
    e.op.run = &print;
  } else if (name == "__assertfail" && site.arguments.size() == 5) {
    e.op.run = &assert_failed;
  } else {
    const auto callee = e.callee(name);
    if (!callee) return e.unsupported("call of " + std::string(name));
    site.callee = *callee;
    const FunctionCode& f = e.program.functions[*callee];
    if (f.params.size() != site.arguments.size() || f.returns.size() != site.results.size())
      return e.unsupported("call of " + std::string(name) + " with other parameters");
    for (size_t p = 0; p < f.params.size(); ++p)
      if (site.arguments[p].bytes < f.params[p].bytes)
        return e.unsupported("an argument is too small");
    for (size_t p = 0; p < f.returns.size(); ++p)
      if (site.results[p].bytes < f.returns[p].bytes) return e.unsupported("a result is too small");
    e.op.run = &call;
  }
  e.program.calls.push_back(std::move(site));
}

// ---- Block barriers. op.a: 0 sync, 1 arrive, 2 red.popc, 3 red.and, 4 red.or. o[1] id, o[2] count
// (op.b), o[3] predicate.
bool barrier_operands(Warp& w, const Op& op, uint32_t* id, uint32_t* expected, Act* act) {
  const auto* ids = lanes<uint32_t>(w, op.o[1]);
  const auto* counts = op.b != 0 ? lanes<uint32_t>(w, op.o[2]) : nullptr;
  const int first = std::countr_zero(w.exec);
  *id = ids[first];
  *expected = counts != nullptr ? counts[first] : 0;
  bool same = true;
  for_mask(w.exec, [&](int i) {
    same = same && ids[i] == *id && (counts == nullptr || counts[i] == *expected);
  });
  if (!same || *id >= kBarriers || *expected % kWarpSize != 0 || *expected > 1024) {
    *act = fault(w, Fault::Kind::kIllegalInstruction, 0,
                 "kernel " + short_name(w.grid->kernel->info.name) + ": a block barrier with id " +
                     std::to_string(*id) + " and count " + std::to_string(*expected) +
                     (same ? "" : ", which differ between lanes") +
                     "; ids are 0 to 15, counts multiples of 32");
    return false;
  }
  return true;
}
Act block_barrier(Warp& w, const Op& op) {
  uint32_t id = 0, expected = 0;
  Act act;
  if (!barrier_operands(w, op, &id, &expected, &act)) return act;
  // The aligned form is for whole warps: lanes that come apart are gathered first.
  w.wait.barrier = id;
  w.wait.members = expected;
  w.wait.state = GroupState::kBarrier;
  BarrierState& b = w.block->barriers[id];
  const auto n = static_cast<uint32_t>(std::popcount(w.exec));
  if (op.a >= 2)
    b.true_count += static_cast<uint32_t>(std::popcount(pred(w, op.o[3]) & w.exec)), b.seen += n;
  b.arrived += n;
  b.expected = expected;
  b.warps_arrived |= 1u << w.index;
  ++w.interactions;
  ++w.counters->barriers;
  if (op.a == 1) return Act::kArrive;
  b.warps_waiting |= 1u << w.index;
  return Act::kWait;
}
void decode_barrier(Emit& e) {
  if (decode_warp_barrier(e)) return;
  const bool named = e.in.opcode == "barrier";
  e.take("cta");
  if (named && e.take("cluster")) return decode_cluster_barrier(e);
  static constexpr std::array<std::string_view, 3> kKinds{"sync", "arrive", "red"};
  const int kind = e.choice(kKinds);
  if (kind < 0) return e.unsupported();
  if (kind == 2) {
    static constexpr std::array<std::string_view, 3> kReductions{"popc", "and", "or"};
    const int r = e.choice(kReductions);
    if (r < 0) return e.unsupported();
    if (named) e.take("aligned");
    if (!e.take(r == 0 ? "u32" : "pred")) return e.unsupported();
    if (e.count() != 3 && e.count() != 4) return e.unsupported();
    e.op.a = static_cast<uint8_t>(2 + r);
    if (r == 0) e.dst(0, size_t{0}, 32);
    else e.pred_dst(0, e.operand(0));
    e.src(1, 1, 32);
    if (e.count() == 4) {
      e.src(2, 2, 32);
      e.op.b = 1;
    }
    e.pred_src(3, e.operand(e.count() - 1));
    e.no_overlap();
  } else {
    if (named) e.take("aligned");
    if (e.count() < 1 || e.count() > 2 || (kind == 1 && e.count() != 2)) return e.unsupported();
    e.op.a = static_cast<uint8_t>(kind);
    e.src(1, size_t{0}, 32);
    if (e.count() == 2) {
      e.src(2, 1, 32);
      e.op.b = 1;
    }
  }
  e.op.run = &block_barrier;
}

}  // namespace

void finish_reduction(Warp& w, const Group& g, const BarrierState& b) {
  const Op& op = w.program->ops[g.pc];
  if (op.a < 2) return;
  const uint32_t saved = w.write;
  w.write = g.mask;
  if (op.a == 2) each_lane(g.mask, lanes<uint32_t>(w, op.o[0]), [&](int) { return b.true_count; });
  else set_pred(w, op.o[0], (op.a == 3 ? b.true_count == b.seen : b.true_count > 0) ? ~0u : 0u);
  w.write = saved;
}

void register_control(DecodeTable& t) {
  t["bra"] = &decode_bra;
  t["brx"] = &decode_brx;
  t["call"] = &decode_call;
  t["ret"] = [](Emit& e) {
    e.take("uni");
    e.op.run = e.draft.source->is_entry ? &leave : &give_back;
  };
  t["exit"] = [](Emit& e) { e.op.run = &leave; };
  t["trap"] = [](Emit& e) { e.op.run = &trap; };
  t["brkpt"] = [](Emit& e) { e.op.run = &nothing; };
  t["bar"] = &decode_barrier;
  t["barrier"] = &decode_barrier;
  t["nanosleep"] = [](Emit& e) {
    if (!e.take("u32") || !e.operands(1)) return e.unsupported();
    e.op.run = &sleep;
    e.src(1, size_t{0}, 32);
  };
  t["setmaxnreg"] = [](Emit& e) {
    if ((!e.take("inc") && !e.take("dec")) || !e.take("sync") || !e.take("aligned") ||
        !e.take("u32"))
      return e.unsupported();
    e.op.run = &nothing;
  };
  t["griddepcontrol"] = [](Emit& e) {
    if (!e.take("launch_dependents") && !e.take("wait")) return e.unsupported();
    e.op.run = &nothing;
  };
  t["pmevent"] = [](Emit& e) {
    e.take("mask");
    e.op.run = &nothing;
  };
}

}  // namespace sculler::emu::vm
