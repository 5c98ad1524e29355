#include "steer/replay.h"

#include <algorithm>

#include "base/strings.h"

namespace sculler::steer {

namespace {

enum class Begin { kEmpty, kDegree, kVip };

Begin begin_of(std::string_view policy) {
  const std::string_view name = policy.substr(0, policy.find(':'));
  if (name == "vip") return Begin::kVip;
  return name == "degree" || name == "massivegnn" ? Begin::kDegree : Begin::kEmpty;
}

}  // namespace

std::vector<uint64_t> rows_to_begin_with(std::vector<Candidate> all, std::string_view policy,
                                         uint64_t capacity) {
  const Begin begin = begin_of(policy);
  if (begin == Begin::kEmpty) return {};
  const auto better = [begin](const Candidate& a, const Candidate& b) {
    if (begin == Begin::kVip && a.vip != b.vip) return a.vip > b.vip;
    if (a.degree != b.degree) return a.degree > b.degree;
    return a.id < b.id;
  };
  const auto end = all.begin() + static_cast<int64_t>(std::min<uint64_t>(capacity, all.size()));
  std::partial_sort(all.begin(), end, all.end(), better);
  std::vector<uint64_t> ids;
  for (auto c = all.begin(); c != end; ++c) ids.push_back(c->id);
  return ids;
}

Result<Counts> replay(const Trace& trace, std::string_view policy, uint64_t capacity,
                      Controller* control) {
  BufferSettings settings;
  settings.policy = policy;
  settings.capacity = capacity;
  // The halo that a capacity is a share of is what the file says; rows beyond all its ids are never
  // used and change no count. A maker sees the capacity, so it keeps what was asked for.
  if (control == nullptr && capacity <= kMaxRows)
    settings.capacity =
        std::min<uint64_t>(capacity, trace.ids.size() + trace.head.candidates.size());
  auto made = Buffer::make(settings);
  if (!made) return fail(made.error());
  Buffer& buffer = **made;
  if (const Begin begin = begin_of(policy); begin != Begin::kEmpty) {
    const auto& all = trace.head.candidates;
    const bool vip = begin == Begin::kVip;
    if (std::none_of(all.begin(), all.end(),
                     [vip](const Candidate& c) { return vip ? c.vip > 0 : c.degree > 0; }))
      return fail({ErrorCode::kBadInput,
                   "the trace does not say what to rank rows by",
                   {},
                   "policy " + std::string(policy),
                   "Record it with candidates."});
    if (auto plan = buffer.preload(rows_to_begin_with(all, policy, capacity)); !plan)
      return fail(plan.error());
  }
  uint64_t scheduled = 0;
  std::string running = buffer.policy();
  for (uint64_t b = 0; b < trace.minibatches(); ++b) {
    if (control != nullptr) control->step(buffer, trace.epoch[b]);
    // A policy that a decision has chosen knows of no schedule yet.
    if (buffer.policy() != running) {
      running = buffer.policy();
      scheduled = b;
    }
    while (scheduled < trace.minibatches() && scheduled - b < buffer.lookahead())
      if (auto ok = buffer.schedule(trace.minibatch(scheduled++)); !ok) return fail(ok.error());
    if (auto plan = buffer.minibatch(trace.minibatch(b)); !plan) return fail(plan.error());
  }
  return buffer.metrics().total();
}

Result<uint64_t> capacity_of(uint64_t of, std::string_view text) {
  const auto bad = [&] {
    return fail({ErrorCode::kUsage,
                 "is neither a share (5%) nor a number of rows",
                 {},
                 "buffer " + std::string(text),
                 {}});
  };
  const bool share = text.ends_with('%');
  if (share) text.remove_suffix(1);
  const double value = parse_double(text).value_or(-1);
  if (!(value >= 0)) return bad();
  if (!share) {
    if (value > static_cast<double>(kMaxRows)) return bad();
    return static_cast<uint64_t>(value);
  }
  if (value > 100) return bad();
  const double rows = value / 100 * static_cast<double>(of);
  if (rows > static_cast<double>(kMaxRows)) return bad();  // the halo is what the file says
  return static_cast<uint64_t>(rows);
}

Result<uint64_t> capacity_of(const Trace& trace, std::string_view text) {
  return capacity_of(trace.head.halo > 0 ? trace.head.halo : trace.distinct(), text);
}

}  // namespace sculler::steer
