#include "steer/buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace sculler::steer {

namespace {
Status check(const Knobs& knobs) {
  if (knobs.decay == 0 || (knobs.decay >= 0.01 && knobs.decay <= 1)) return {};
  return fail({ErrorCode::kBadInput, "must be from 0.01 to 1, or 0", {}, "decay", {}});
}
}  // namespace

Buffer::Buffer(const BufferSettings& settings)
    : settings_(settings),
      rows_(settings.capacity,
            settings.max_tracked != 0 ? settings.max_tracked : 32 * settings.capacity),
      metrics_(settings.window),
      features_(settings.capacity * settings.row_bytes) {}

Result<std::unique_ptr<Buffer>> Buffer::make(const BufferSettings& settings) {
  const auto too_large = [](const char* key, const char* most) {
    return fail({ErrorCode::kBadInput, std::string("more than ") + most, {}, key, {}});
  };
  if (settings.capacity > kMaxRows) return too_large("capacity", "2147483648 rows");
  if (settings.window > 1'000'000) return too_large("window", "1000000 minibatches");
  if (settings.max_tracked > kMaxRows * 8) return too_large("max_tracked", "2^34 ids");
  if (settings.row_bytes > (uint64_t{1} << 30)) return too_large("row_bytes", "1 GiB");
  if (settings.row_bytes > 0 && settings.capacity > (uint64_t{1} << 46) / settings.row_bytes)
    return too_large("capacity", "64 TiB of features");
  if (auto ok = check(settings.knobs); !ok) return fail(ok.error());
  // The name is tried on an empty buffer first: a policy's own memory can be large.
  if (auto named = make_policy(settings.policy, 0, settings.knobs); !named)
    return fail(named.error());
  try {
    auto buffer = std::unique_ptr<Buffer>(new Buffer(settings));
    auto policy = make_policy(settings.policy, settings.capacity, settings.knobs);
    if (!policy) return fail(policy.error());
    buffer->policy_ = std::move(*policy);
    buffer->rows_.set_touch(buffer->policy_->touch());
    return buffer;
  } catch (const std::bad_alloc&) {
    return fail({ErrorCode::kBadInput, "there is not so much memory", {}, "capacity", {}});
  }
}

Status Buffer::check_ids(std::span<const uint64_t> ids) const {
  if (ids.size() >= kNone)
    return fail(ErrorCode::kBadInput, "a minibatch of more than 4294967294 ids");
  uint64_t largest = 0;
  for (const uint64_t id : ids) largest = std::max(largest, id);
  if (largest > kMaxId)
    return fail(ErrorCode::kBadInput, "id " + std::to_string(largest) + " is above 2^63");
  return {};
}

Result<const Plan*> Buffer::minibatch(std::span<const uint64_t> ids) {
  if (auto ok = check_ids(ids); !ok) return fail(ok.error());
  rows_.look(ids, plan_);
  policy_->minibatch(rows_, plan_);
  metrics_.add(plan_);
  return &plan_;
}

Result<const Plan*> Buffer::preload(std::span<const uint64_t> ids) {
  if (auto ok = check_ids(ids); !ok) return fail(ok.error());
  Rows::begin_empty(plan_);
  for (const uint64_t id : ids) {
    if (!rows_.has_room()) break;
    if (rows_.holds(id)) continue;
    const uint32_t slot = rows_.free_slot();
    rows_.put_extra(plan_, id, slot);
    policy_->placed(rows_, slot);
  }
  metrics_.add_outside(plan_);
  return &plan_;
}

Status Buffer::schedule(std::span<const uint64_t> ids) {
  if (auto ok = check_ids(ids); !ok) return ok;
  policy_->schedule(rows_, ids);
  return {};
}

uint64_t Buffer::invalidate(std::span<const uint64_t> ids) {
  uint64_t gone = 0;
  for (const uint64_t id : ids) {
    if (id > kMaxId) continue;
    const Entry* e = rows_.find(id);
    if (e == nullptr || e->slot == kNone) continue;
    const uint32_t slot = e->slot;
    policy_->forgotten(slot);
    rows_.drop(slot);
    ++gone;
  }
  metrics_.add_evicted(gone);
  return gone;
}

Status Buffer::set_policy(std::string_view specification) {
  auto policy = make_policy(specification, rows_.capacity(), settings_.knobs);
  if (!policy) return fail(policy.error());
  policy_ = std::move(*policy);
  settings_.policy = specification;
  rows_.set_touch(policy_->touch());
  for (uint64_t s = 0; s < rows_.capacity(); ++s)
    if (rows_.id(static_cast<uint32_t>(s)) != kNoId)
      policy_->placed(rows_, static_cast<uint32_t>(s));
  return {};
}

uint64_t Buffer::set_limit(uint64_t rows) {
  rows_.set_limit(rows);
  uint64_t gone = 0;
  for (; rows_.used() > rows_.limit(); ++gone) {
    const uint32_t slot = policy_->victim(rows_);
    policy_->forgotten(slot);
    rows_.drop(slot);
  }
  metrics_.add_evicted(gone);
  return gone;
}

Status Buffer::set_knobs(const Knobs& knobs) {
  if (auto ok = check(knobs); !ok) return ok;
  settings_.knobs = knobs;
  policy_->adjust(knobs);
  return {};
}

Status Buffer::gather(void* rows) const {
  if (settings_.row_bytes == 0)
    return fail(ErrorCode::kUsage, "the buffer owns no features", "Set row_bytes.");
  auto* to = static_cast<uint8_t*>(rows);
  const auto slots = plan_.slot();
  for (uint64_t i = 0; i < slots.size(); ++i)
    if (slots[i] != kNone)
      std::memcpy(to + i * settings_.row_bytes, &features_[slots[i] * settings_.row_bytes],
                  settings_.row_bytes);
  return {};
}

Status Buffer::store(const void* missed, const void* extra) {
  if (settings_.row_bytes == 0)
    return fail(ErrorCode::kUsage, "the buffer owns no features", "Set row_bytes.");
  const uint64_t n = settings_.row_bytes;
  const auto copy = [&](std::span<const uint32_t> slots, const void* from) {
    const auto* bytes = static_cast<const uint8_t*>(from);
    for (uint64_t i = 0; i < slots.size(); ++i)
      if (slots[i] != kNone) std::memcpy(&features_[slots[i] * n], bytes + i * n, n);
  };
  copy(plan_.into(), missed);
  copy(plan_.extra_slot(), extra);
  return {};
}

}  // namespace sculler::steer
