// What bulk copies (TMA) of bytes and of tensors share. They are done when they are issued, which
// is one of the orders that hardware may take; that somebody waited for them is the checker's
// matter.
#pragma once

#include "emu/vm/async.h"
#include "emu/vm/cluster.h"

namespace sculler::emu::vm {

[[nodiscard]] uint64_t value_of(const Warp& w, const BulkSite::Part& part, int lane);
// Operands, when decoding.
BulkSite::Part address_part(Emit& e, const ptx::Operand& o);
BulkSite::Part value_part(Emit& e, const ptx::Operand& o, unsigned bits);
// add min max ..., and whether an element can be reduced so.
bool take_reduction(Emit& e, BulkSite& site);
[[nodiscard]] bool can_reduce(BulkSite::Reduce op, BulkSite::Element element);
uint32_t element_bytes(BulkSite::Element element);
// [to] = op([to], [from]), element by element.
void reduce_bytes(BulkSite::Reduce op, BulkSite::Element element, uint8_t* to, const uint8_t* from,
                  uint64_t bytes);

// A range of global memory for one lane; null: a fault.
uint8_t* global_place(Warp& w, Address address, uint64_t bytes, uint32_t align, Access access,
                      int lane);
void tell_async(Warp& w, AsyncKind kind, Access access, Address begin, uint64_t bytes,
                Address barrier = 0);

// Where a copy with an mbarrier goes: the block that its address names or those of a multicast
// mask, with the mbarrier of each.
struct Destinations {
  uint32_t n = 0;
  SharedPlace to[kMaxClusterBlocks], barrier[kMaxClusterBlocks];
};
bool find_destinations(Warp& w, const BulkSite& site, int lane, uint64_t bytes, uint32_t align,
                       Destinations* out);
// Writes `data` to all of them and tells their mbarriers.
bool deliver(Warp& w, const Destinations& to, const uint8_t* data, uint32_t bytes);

}  // namespace sculler::emu::vm
