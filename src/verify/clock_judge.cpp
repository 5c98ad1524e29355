#include "verify/clock_judge.h"

#include <algorithm>

namespace sculler::verify {

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<std::string> ClockJudge::impossible(uint64_t sent_ns,
                                                  const std::vector<RankClock>& ranks, int& rank) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankClock& c = ranks[r];
    rank = static_cast<int>(r);
    if (c.announced_ns < sent_ns) return "says that its region opened before Run was sent";
    if (c.announced_ns > c.opened_received_ns)
      return "says that its region opened after the message about it arrived";
    if (c.start_ns < c.announced_ns) return "says that it started before its region opened";
    if (c.end_ns < c.start_ns) return "says that it ended before it started";
    if (c.end_ns > c.done_received_ns)
      return "says that it ended after the message about it arrived";
  }
  rank = -1;
  return std::nullopt;
}

ClockJudge::Spans ClockJudge::spans(uint64_t sent_ns, const std::vector<RankClock>& ranks) {
  uint64_t start = UINT64_MAX, end = 0, first_opened = UINT64_MAX, last_opened = 0, last_done = 0;
  for (const RankClock& c : ranks) {
    start = std::min(start, c.start_ns);
    end = std::max(end, c.end_ns);
    first_opened = std::min(first_opened, c.opened_received_ns);
    last_opened = std::max(last_opened, c.opened_received_ns);
    last_done = std::max(last_done, c.done_received_ns);
  }
  return {end - start, last_opened - sent_ns, last_done - first_opened};
}

uint64_t ClockJudge::slack(uint64_t latency_ns) const {
  const double relative = rule_.slack_fraction * static_cast<double>(latency_ns);
  return std::max(rule_.slack_ns, static_cast<uint64_t>(std::max(relative, 0.0)));
}

void ClockJudge::calibrate(uint64_t sent_ns, const std::vector<RankClock>& ranks) {
  const Spans s = spans(sent_ns, ranks);
  open_offset_ns_ = std::max(open_offset_ns_, s.open);
  const uint64_t offset = s.close - std::min(s.close, s.latency);
  close_offset_ns_ = std::max(close_offset_ns_, offset);
  offsets_.push_back(static_cast<double>(offset));
}

void ClockJudge::judge(uint64_t sent_ns, bool delayed, const std::vector<RankClock>& ranks,
                       IterationResult& result) {
  const Spans s = spans(sent_ns, ranks);
  uint64_t start = UINT64_MAX, last_done = 0;
  for (const RankClock& c : ranks) {
    start = std::min(start, c.start_ns);
    last_done = std::max(last_done, c.done_received_ns);
  }
  result.latency_ns = s.latency;
  result.checker_ns = last_done - sent_ns;
  result.region_ns = s.close;
  result.clocks_agree = true;
  result.ranks.clear();
  for (const RankClock& c : ranks)
    result.ranks.push_back({c.start_ns - start, c.end_ns - start, c.event_ns});
  if (delayed || offsets_.empty()) return;

  // Done that claims to be earlier than it came, and work that was done before the region was said
  // to be open.
  const uint64_t allowed = slack(s.latency);
  const uint64_t close_limit = s.latency + close_offset_ns_ + allowed;
  const uint64_t open_limit = open_offset_ns_ + allowed;
  const uint64_t close_excess = s.close > close_limit ? s.close - s.latency - close_offset_ns_ : 0;
  const uint64_t open_excess = s.open > open_limit ? s.open - open_offset_ns_ : 0;
  const uint64_t excess = close_excess + open_excess;
  result.clocks_agree = excess == 0;
  result.latency_ns = s.latency + excess;
  if (!result.warm_up) {
    excess_ns_.push_back(static_cast<double>(excess));
    claimed_ns_.push_back(static_cast<double>(s.latency));
  }
}

uint64_t ClockJudge::typical_offset_ns() const {
  return offsets_.empty() ? 0 : static_cast<uint64_t>(median(offsets_));
}

std::optional<std::string> ClockJudge::systematic() const {
  // Preemption makes single iterations disagree, a loaded machine makes all short ones disagree by
  // the time slices of those who wait for the same processors; every one of them was corrected
  // already, so that a lie gains nothing. Only a median beyond both is called one.
  constexpr double kTimeSlices = 20e6;
  if (excess_ns_.size() < 5) return std::nullopt;
  const double excess = median(excess_ns_), claimed = median(claimed_ns_);
  const double crowd = crowd_.empty() ? 1.0 : std::max(1.0, median(crowd_));
  if (excess <= std::max(claimed, kTimeSlices * crowd)) return std::nullopt;
  return "the ranks claim " + std::to_string(static_cast<uint64_t>(claimed / 1000)) +
         " us a run, the checker's clock shows " +
         std::to_string(static_cast<uint64_t>(excess / 1000)) + " us more in most of " +
         std::to_string(excess_ns_.size()) + " iterations";
}

}  // namespace sculler::verify
