// The constructors of the policies, one file each; policy.cpp chooses by name.
#pragma once

#include "steer/policy.h"

namespace sculler::steer {

// Every missed row comes in, in the order of the minibatch. Where there is no room leaving() lets
// go of a row and gives its slot; entered(slot) takes the row in.
template <class Leaving, class Entered>
void admit_all(Rows& rows, Plan& plan, Leaving&& leaving, Entered&& entered) {
  if (rows.limit() == 0) return;
  for (uint64_t miss = 0; miss < plan.missed().size(); ++miss) {
    rows.ahead(plan, miss);
    if (rows.holds(plan.missed_id(miss))) continue;  // twice in the minibatch
    const uint32_t slot = rows.has_room() ? rows.free_slot() : leaving();
    rows.put(plan, miss, slot);
    entered(slot);
  }
}

// Keeps what was put in by preload() and nothing else: by degree or VIP, as the caller ranked it.
[[nodiscard]] std::unique_ptr<Policy> make_static();
[[nodiscard]] std::unique_ptr<Policy> make_lru(uint64_t capacity);
[[nodiscard]] std::unique_ptr<Policy> make_lfu(uint64_t capacity);
[[nodiscard]] std::unique_ptr<Policy> make_clock(uint64_t capacity);
[[nodiscard]] std::unique_ptr<Policy> make_sieve(uint64_t capacity);
[[nodiscard]] std::unique_ptr<Policy> make_s3fifo(uint64_t capacity);
[[nodiscard]] std::unique_ptr<Policy> make_free(uint64_t capacity, double decay,
                                                const Knobs& knobs);
// Wants to know `lookahead` minibatches; UINT64_MAX with the whole trace is Belady's optimum.
[[nodiscard]] std::unique_ptr<Policy> make_known(uint64_t capacity, uint64_t lookahead,
                                                 const Knobs& knobs);
// The rule of MassiveGNN and Rudder: replaces every `interval` minibatches, or when told to where
// it is 0; rows are stale below round(decay^delta, 3).
[[nodiscard]] std::unique_ptr<Policy> make_scores(uint64_t capacity, uint64_t interval,
                                                  uint64_t delta, const Knobs& knobs);

}  // namespace sculler::steer
