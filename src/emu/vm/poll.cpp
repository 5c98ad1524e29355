// Warps that wait for memory. A warp that reads the same values at the same place with the same
// registers as on its last visit, and did nothing in between that others can see, will do so until
// memory changes: it is parked, and looked at again without running it. With all warps parked or at
// barriers the machine is stalled for certain.
#include <cstring>

#include "emu/vm/access.h"
#include "emu/vm/execute.h"

namespace sculler::emu::vm {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}
uint64_t digest(uint64_t h, const uint8_t* p, size_t n) {
  uint64_t a = h, b = mix(h, n + 1);
  size_t k = 0;
  for (; k + 16 <= n; k += 16) {
    uint64_t v[2];
    std::memcpy(v, p + k, 16);
    a = mix(a, v[0]);
    b = mix(b, v[1]);
  }
  for (; k < n; ++k) a = mix(a, p[k]);
  // What came before goes in once more: an empty bank must not make it cancel out.
  return mix(mix(mix(h, n), a), b);
}
uint64_t state_digest(const Warp& w) {
  uint64_t h = digest(1, w.bank32.data(), w.bank32.size());
  h = digest(h, w.bank64.data(), w.bank64.size());
  h = digest(h, reinterpret_cast<const uint8_t*>(w.pred_storage.data()), w.pred_storage.size() * 4);
  h = digest(h, w.local_storage.data(), w.local_storage.size());
  h = mix(mix(mix(h, w.pc), w.mask), mix(w.frame, w.carry));
  for (uint32_t g = 0; g < w.n_groups; ++g) {
    if (g == w.current) continue;
    const Group& x = w.groups[g];
    h = mix(mix(h, x.pc), uint64_t{x.mask} << 8 | uint64_t(x.state));
  }
  return h | 1;
}

}  // namespace

namespace {

// What is read now equals what was recorded.
bool same_as_recorded(const Warp& w, uint32_t bytes, const Target& t) {
  const Spin& s = w.spin;
  uint64_t apart = 0;
  for (int i = 0; i < 32; ++i) apart |= (w.exec >> i & 1u) != 0 ? s.address[i] ^ t.address[i] : 0;
  if (apart != 0) return false;
  if (t.contiguous && w.exec == ~0u)
    return std::memcmp(s.data, t.base, size_t{bytes} * kWarpSize) == 0;
  bool same = true;
  for_mask(w.exec, [&](int i) {
    same = same && std::memcmp(s.data + static_cast<uint32_t>(i) * bytes, lane_pointer(t, i, bytes),
                               bytes) == 0;
  });
  return same;
}
void record(Warp& w, uint32_t bytes, const Target& t) {
  Spin& s = w.spin;
  std::memcpy(s.address, t.address, sizeof s.address);
  for_mask(w.exec, [&](int i) {
    s.pointer[i] = lane_pointer(t, i, bytes);
    std::memcpy(s.data + static_cast<uint32_t>(i) * bytes, s.pointer[i], bytes);
  });
  s.bytes = bytes;
  s.block = t.contiguous && w.exec == ~0u ? t.base : nullptr;
  s.repeats = 0;
  s.next_try = 2;
  s.state = 0;
  s.armed = true;
}

}  // namespace

void note_poll(Warp& w, uint32_t bytes, const Target& t, bool likely) {
  Spin& s = w.spin;
  w.last_poll = w.block->last_poll = w.machine->instructions;
  w.spinning = w.soft = false;
  if (s.pc != w.pc || s.mask != w.exec ||
      s.interactions != w.interactions) {  // cheap: most strong loads spin on nothing
    s.pc = w.pc;
    s.mask = w.exec;
    s.interactions = w.interactions;
    s.loads = w.loads;
    s.repeats = 0;
    s.armed = false;
    if (likely) record(w, bytes, t);
    return;
  }
  const bool only_this = w.loads - s.loads <= 1;
  s.loads = w.loads;
  if (!s.armed || s.bytes != bytes || !same_as_recorded(w, bytes, t)) return record(w, bytes, t);
  ++s.repeats;
  w.spinning = true;
  w.soft = only_this;
  // A clock is another input, and need not be in any register now.
  if (w.last_clock > s.time) {
    s.time = w.last_clock;
    s.state = 0;
    return;
  }
  if (s.repeats < s.next_try || runnable_groups(w) != 1) return;
  const uint64_t state = state_digest(w);
  if (state == s.state && (only_this || s.epoch == w.machine->epoch)) {
    w.park = true;
    w.watch_only = only_this;
  } else if (s.state != 0 && state != s.state) {  // a counter or a clock: look again later
    s.next_try = s.repeats * 2;
    s.state = 0;
    return;
  }
  s.state = state;
  s.epoch = w.machine->epoch;
}

bool still_parked(const Warp& w) {
  const Spin& s = w.spin;
  if (w.park && !w.watch_only && s.epoch != w.machine->epoch) return false;
  if (s.block != nullptr) return std::memcmp(s.block, s.data, size_t{s.bytes} * kWarpSize) == 0;
  uint64_t apart = 0;
  if (s.bytes == 4) {
    for_mask(s.mask, [&](int i) {
      uint32_t now, then;
      std::memcpy(&now, s.pointer[i], 4);
      std::memcpy(&then, s.data + i * 4, 4);
      apart |= now ^ then;
    });
    return apart == 0;
  }
  bool same = true;
  for_mask(s.mask, [&](int i) {
    same = same &&
           std::memcmp(s.pointer[i], s.data + static_cast<uint32_t>(i) * s.bytes, s.bytes) == 0;
  });
  return same;
}

}  // namespace sculler::emu::vm
