// One warp instruction's memory operands: addresses resolved, checked and turned into host
// pointers.
#pragma once

#include <cstdint>
#include <string>

#include "emu/vm/emit.h"
#include "emu/vm/lanes.h"
#include "emu/vm/space.h"

namespace sculler::emu::vm {

// Op::a of memory operations: what Op::o[4] is.
enum Base : uint8_t { kBaseWide = 0, kBaseNarrow = 1, kBaseNone = 2 };

struct Target {
  alignas(64) Address address[kWarpSize];  // generic
  uint8_t* pointer[kWarpSize];             // unset where contiguous
  uint8_t* base = nullptr;                 // contiguous: lane i is at base + i * bytes
  bool contiguous = false;
  MemorySpace space = MemorySpace::kGlobal;
  bool shared_or_global = true;  // false: local or parameters, nobody else sees them
  uint32_t other_shared = 0;     // lanes in shared memory where the spaces differ between lanes
  uint32_t other_private = 0;    // and in local memory or parameters
};

// False: a fault, w.machine->fault says which. `bytes` a lane, a power of two.
bool resolve(Warp& w, const Op& op, uint32_t bytes, Access access, Target& t);
// Same for addresses that are given (copies whose operands are elsewhere).
bool resolve_addresses(Warp& w, const Op& op, Space space, uint32_t bytes, Access access,
                       Target& t);
// Tells the observer and the spin detector.
void report(Warp& w, const Op& op, uint32_t bytes, Access access, const Target& t, uint32_t wrote);
// A strong load or failed atomic: does this warp go in circles?
// `likely`: record at once, not only when it comes back.
void note_poll(Warp& w, uint32_t bytes, const Target& t, bool likely = false);
void note_store(Warp& w, bool changed);

[[nodiscard]] inline uint8_t* lane_pointer(const Target& t, int lane, uint32_t bytes) {
  return t.contiguous ? t.base + static_cast<uint32_t>(lane) * bytes : t.pointer[lane];
}

// Counts bytes of an allocation that an instruction touches.
void count_bytes(Warp& w, const Allocation& a, Access access, uint64_t bytes);
// Says that a lane's access is wrong; false. `align`: what it has to be aligned to.
bool access_fault(Warp& w, Finding::Kind kind, Access access, Address address, uint32_t bytes,
                  int lane, std::string place, uint32_t align);
Act fault(Warp& w, Fault::Kind kind, Address address, std::string message);
[[nodiscard]] CodeRef code_ref(const Warp& w);

// Bytes of local memory of a lane, by offset in it.
[[nodiscard]] inline uint8_t* local_pointer(const Warp& w, int lane, uint32_t offset) {
  return w.local + (offset / kLocalUnit) * (kLocalUnit * kWarpSize) +
         static_cast<uint32_t>(lane) * kLocalUnit + offset % kLocalUnit;
}
// Copies out of the generic address space of a lane; false where that is not readable.
bool read_generic(const Warp& w, int lane, Address from, void* to, uint64_t bytes);

// ---- Decoding shared by ld, st, atom, red, cp.async.
struct MemoryModifiers {
  Order order = Order::kWeak;
  Scope scope = Scope::kSys;
  Space space = Space::kGeneric;
  bool cache_hint = false;  // an extra operand
  bool nc = false;
};
// One modifier of ordering, scope, space or caching; false where the next is none of these.
bool take_memory_modifier(Emit& e, MemoryModifiers& m);
// [reg+imm], [symbol+imm] into op.o[4], op.a, op.imm; may narrow the space (a local symbol).
void address_operand(Emit& e, const ptx::Operand& o, MemoryModifiers& m);

}  // namespace sculler::emu::vm
