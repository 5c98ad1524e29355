// The prefetch buffer: rows of remote features by id, filled by a policy. It says which rows to
// fetch and where to keep them; the caller moves the bytes, or the buffer owns the memory and
// gather() and store() move them. Not thread-safe: one thread at a time (the C library locks).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "steer/metrics.h"
#include "steer/policy.h"
#include "steer/rows.h"

namespace sculler::steer {

struct BufferSettings {
  uint64_t capacity = 0;        // rows; 0 is a buffer that never hits
  std::string policy = "free";  // make_policy()
  Knobs knobs{};
  uint64_t max_tracked = 0;  // ids whose counts are kept; 0: 32 times the capacity
  uint64_t row_bytes = 0;    // of the features that the buffer owns; 0: the caller owns them
  uint64_t window = 32;      // minibatches over which metrics().window() counts
};

class Buffer {
 public:
  // kUsage for a policy that is none, kBadInput for sizes that no machine holds.
  [[nodiscard]] static Result<std::unique_ptr<Buffer>> make(const BufferSettings& settings);

  // The ids of a minibatch's remote rows, each up to 2^63 and best asked for once. The plan is good
  // until the next call. kBadInput for an id out of range: nothing has changed then.
  [[nodiscard]] Result<const Plan*> minibatch(std::span<const uint64_t> ids);
  // Rows to begin with, the best first; what does not fit or lies there is left out. The plan's
  // extra rows are to be fetched.
  [[nodiscard]] Result<const Plan*> preload(std::span<const uint64_t> ids);
  // The ids of the next minibatch that was not scheduled yet, for policies with lookahead().
  [[nodiscard]] Status schedule(std::span<const uint64_t> ids);
  [[nodiscard]] uint64_t lookahead() const { return policy_->lookahead(); }
  // Rows that must not be served any more (a fetch failed, features changed). Unknown ids are
  // nothing. Returns how many lay in the buffer.
  uint64_t invalidate(std::span<const uint64_t> ids);

  // Another policy takes over what lies in the buffer. kUsage leaves everything as it was.
  [[nodiscard]] Status set_policy(std::string_view specification);
  [[nodiscard]] const std::string& policy() const { return settings_.policy; }
  // How many of the slots may be used, at most the capacity; rows beyond it leave at once. Returns
  // how many left.
  uint64_t set_limit(uint64_t rows);
  [[nodiscard]] uint64_t limit() const { return rows_.limit(); }
  // kBadInput leaves them as they were.
  [[nodiscard]] Status set_knobs(const Knobs& knobs);
  [[nodiscard]] const Knobs& knobs() const { return settings_.knobs; }
  // Policies that wait for a decision replace in the next minibatch.
  void replace() { policy_->replace(); }

  [[nodiscard]] const Metrics& metrics() const { return metrics_; }
  // Over how many minibatches metrics().window() counts.
  [[nodiscard]] uint64_t window() const { return settings_.window; }
  [[nodiscard]] uint64_t capacity() const { return rows_.capacity(); }
  [[nodiscard]] uint64_t used() const { return rows_.used(); }
  // The id in a slot, kNoId in a free one.
  [[nodiscard]] uint64_t id(uint32_t slot) const { return rows_.id(slot); }
  [[nodiscard]] bool holds(uint64_t id) { return rows_.holds(id); }
  // All memory but the features and the plan.
  [[nodiscard]] uint64_t bytes() const { return rows_.bytes() + policy_->bytes(); }

  [[nodiscard]] uint64_t plan_bytes() const { return plan_.bytes(); }

  // With row_bytes > 0. `rows` has one row a position of the minibatch: the hits are written.
  [[nodiscard]] Status gather(void* rows) const;
  // The missed rows, in the order of plan.missed(), and the extra ones are kept as the plan says.
  [[nodiscard]] Status store(const void* missed, const void* extra);

 private:
  explicit Buffer(const BufferSettings& settings);
  [[nodiscard]] Status check_ids(std::span<const uint64_t> ids) const;

  BufferSettings settings_;
  Rows rows_;
  std::unique_ptr<Policy> policy_;
  Plan plan_;
  Metrics metrics_;
  Block<uint8_t> features_;
};

}  // namespace sculler::steer
