// One policy: which missed rows stay, who leaves for them, which rows are fetched unasked.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "steer/rows.h"

namespace sculler::steer {

// What a decision may turn while training runs.
struct Knobs {
  double decay = 0;            // of counts a minibatch, from 0.01 to 1; 0: the policy's own
  uint64_t rows = UINT64_MAX;  // most rows admitted or replaced a minibatch
};

class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual Touch touch() const { return Touch::kNothing; }
  // After the lookup: `plan` has slots and misses. Hits count before misses are admitted, both in
  // the order of the minibatch.
  virtual void minibatch(Rows& rows, Plan& plan) = 0;
  // A row was put into `slot` by another (preload, the policy before).
  virtual void placed(Rows& rows, uint32_t slot) = 0;
  // The row in `slot` is gone (invalidated, or taken as victim()).
  virtual void forgotten(uint32_t slot) = 0;
  // The row that leaves when the buffer shrinks; the buffer is not empty.
  [[nodiscard]] virtual uint32_t victim(Rows& rows) = 0;
  // How many minibatches ahead it wants to be told the schedule.
  [[nodiscard]] virtual uint64_t lookahead() const { return 0; }
  // The ids of the next minibatch that was not scheduled yet.
  virtual void schedule(Rows& /*rows*/, std::span<const uint64_t> /*ids*/) {}
  // Replace in the next minibatch: the decision of policies that wait for one.
  virtual void replace() {}
  virtual void adjust(const Knobs& /*knobs*/) {}
  [[nodiscard]] virtual uint64_t bytes() const = 0;
};

struct PolicyName {
  const char* name;
  const char* parameter;  // what may follow the colon, "" where nothing may
  const char* what;       // one line for people
};
[[nodiscard]] std::span<const PolicyName> policy_names();

// "free", "free:0.99", "known:64", "massivegnn:32", "rudder:1" … for a buffer of `capacity` rows.
// kUsage names what is wrong. `knobs` are what the specification leaves open.
[[nodiscard]] Result<std::unique_ptr<Policy>> make_policy(std::string_view specification,
                                                          uint64_t capacity, const Knobs& knobs);

}  // namespace sculler::steer
