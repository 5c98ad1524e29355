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
  uint64_t a = h, b = ~h;
  size_t k = 0;
  for (; k + 16 <= n; k += 16) {
    uint64_t v[2];
    std::memcpy(v, p + k, 16);
    a = mix(a, v[0]);
    b = mix(b, v[1]);
  }
  for (; k < n; ++k) a = mix(a, p[k]);
  return mix(a, b);
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

void note_poll(Warp& w, uint32_t bytes, const Target& t) {
  Spin& s = w.spin;
  uint64_t h = bytes;
  for_mask(w.exec, [&](int i) {
    uint64_t v[2] = {0, 0};
    std::memcpy(v, lane_pointer(t, i, bytes), bytes < 16 ? bytes : 16);
    h = mix(mix(h, t.address[i]), v[0] ^ (v[1] << 1));
  });
  if (s.pc != w.pc || s.mask != w.exec || s.value != h || s.interactions != w.interactions) {
    s.pc = w.pc;
    s.mask = w.exec;
    s.bytes = bytes < 16 ? bytes : 16;
    s.value = h;
    s.interactions = w.interactions;
    s.repeats = 0;
    s.next_try = 3;
    s.state = 0;
    s.loads = w.loads;
    w.spinning = false;
    for_mask(w.exec, [&](int i) {
      s.address[i] = t.address[i];
      s.pointer[i] = lane_pointer(t, i, bytes);
      std::memcpy(s.data[i], s.pointer[i], s.bytes);
    });
    return;
  }
  ++s.repeats;
  w.spinning = true;
  if (s.repeats >= s.next_try && runnable_groups(w) == 1) {
    const uint64_t state = state_digest(w);
    const bool only_this = w.loads - s.loads <= 1;
    if (state == s.state && (only_this || s.epoch == w.machine->epoch)) {
      w.park = true;
      w.watch_only = only_this;
    } else if (s.state != 0 && state != s.state) {
      s.next_try = s.repeats * 2;
      s.state = 0;
      s.loads = w.loads;
      return;
    }
    s.state = state;
    s.epoch = w.machine->epoch;
  }
  s.loads = w.loads;
}

bool still_parked(const Warp& w) {
  const Spin& s = w.spin;
  if (!w.watch_only && s.epoch != w.machine->epoch) return false;
  bool same = true;
  for_mask(s.mask,
           [&](int i) { same = same && std::memcmp(s.pointer[i], s.data[i], s.bytes) == 0; });
  return same;
}

}  // namespace sculler::emu::vm
