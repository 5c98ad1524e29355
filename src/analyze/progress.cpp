#include "analyze/progress.h"

#include <algorithm>
#include <optional>

namespace sculler::analyze {
namespace {

constexpr uint64_t kGrain = 256;  // of the emulator's records (emu/check/footprint.h)

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void widen(std::optional<Progress>& all, double first, double last) {
  first = std::clamp(first, 0.0, 1.0);
  last = std::clamp(last, 0.0, 1.0);
  if (!all) all = Progress{first, last};
  all->first = std::min(all->first, first);
  all->last = std::max(all->last, last);
}

// Where `bytes` lie within [begin, end).
void even(std::optional<Progress>& all, uint64_t begin, uint64_t end, const Bytes& bytes) {
  const uint64_t from = std::max(begin, bytes.begin), to = std::min(end, bytes.end);
  if (from < to) widen(all, ratio(from - begin, end - begin), ratio(to - begin, end - begin));
}

void of_call(std::optional<Progress>& all, const CollectiveCall& call, bool written,
             const Bytes& bytes) {
  const Bytes& range = written ? call.recv : call.send;
  if (!range.touches(bytes)) return;
  const bool chunked = call.bytes > 0 && range.size() > call.bytes;  // a part for each rank
  const uint64_t step = chunked ? call.bytes : range.size();
  for (uint64_t at = range.begin; at < range.end; at += step)
    even(all, at, std::min(at + step, range.end), bytes);
}

void of_kernel(std::optional<Progress>& all, const Operation& op, const Span& span,
               const Bytes& bytes) {
  const uint64_t from = span.begin / kGrain, grains = (span.end - 1) / kGrain - from + 1;
  const auto n = static_cast<uint64_t>(span.parts.size());
  const double blocks = static_cast<double>(std::max<int64_t>(1, op.blocks));
  const double steps = static_cast<double>(std::max<int64_t>(1, op.steps));
  for (uint64_t k = 0; k < n; ++k) {
    // The grains g with g * n / grains == k.
    const uint64_t begin = (k * grains + n - 1) / n, end = ((k + 1) * grains + n - 1) / n;
    const uint64_t first = std::max(span.begin, (from + begin) * kGrain),
                   last = std::min(span.end, (from + end) * kGrain);
    if (first >= bytes.end || last <= bytes.begin) continue;
    const Span::Part& part = span.parts[k];
    const auto step = [&](int64_t number) { return static_cast<double>(number) / steps; };
    widen(all, (static_cast<double>(part.first_block) + step(part.first_step - 1)) / blocks,
          (static_cast<double>(part.last_block) + std::min(1.0, step(part.last_step))) / blocks);
  }
}

Progress when(const Operation& op, bool written, const Bytes& bytes) {
  std::optional<Progress> all;
  const auto& spans = written ? op.writes : op.reads;
  if (op.kind == "collective") {
    for (const CollectiveCall& call : op.calls) of_call(all, call, written, bytes);
  } else if (op.kind == "kernel") {
    for (const Span& span : spans)
      if (span.touches(bytes)) of_kernel(all, op, span, bytes);
  } else if (op.kind == "copy" || op.kind == "memset") {
    // One span after the other: rows.
    uint64_t total = 0, before = 0;
    for (const Span& span : spans) total += span.size();
    for (const Span& span : spans) {
      if (span.touches(bytes)) {
        const uint64_t from = std::max(span.begin, bytes.begin) - span.begin,
                       to = std::min(span.end, bytes.end) - span.begin;
        widen(all, ratio(before + from, total), ratio(before + to, total));
      }
      before += span.size();
    }
  }
  return all.value_or(Progress{});
}

// 1: ascending, -1: descending, 0: neither. Both ends of the parts move, and never back. A range
// may hold two or four arrays through which the kernel walks side by side (keys and values).
template <class First, class Last>
int direction(const std::vector<Span::Part>& parts, First first, Last last) {
  for (const std::size_t arrays : {1u, 2u, 4u}) {
    const std::size_t n = parts.size() / arrays;
    if (parts.size() % arrays != 0 || n < 2) continue;
    for (const int sign : {1, -1}) {
      bool monotone = true;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Span::Part &part = parts[i], &before = parts[i - std::min<std::size_t>(i, 1)],
                         &front = parts[i / n * n];
        if (i % n != 0)
          monotone = monotone && sign * (first(part) - first(before)) >= 0 &&
                     sign * (last(part) - last(before)) >= 0;
        if (i % n == n - 1)
          monotone = monotone && sign * (first(part) - first(front)) > 0 &&
                     sign * (last(part) - last(front)) > 0;
      }
      if (monotone) return sign;
    }
  }
  return 0;
}

}  // namespace

Progress when_read(const Operation& op, const Bytes& bytes) { return when(op, false, bytes); }
Progress when_written(const Operation& op, const Bytes& bytes) { return when(op, true, bytes); }

Walk walk_of(const Span& span) {
  if (span.parts.size() < 2) return Walk::kNone;
  const int blocks = direction(
      span.parts, [](const Span::Part& p) { return p.first_block; },
      [](const Span::Part& p) { return p.last_block; });
  if (blocks != 0) return blocks > 0 ? Walk::kBlocks : Walk::kBlocksDescending;
  const int steps = direction(
      span.parts, [](const Span::Part& p) { return p.first_step; },
      [](const Span::Part& p) { return p.last_step; });
  if (steps != 0) return steps > 0 ? Walk::kSteps : Walk::kStepsDescending;
  return Walk::kAny;
}

const char* walk_name(Walk walk) {
  switch (walk) {
    case Walk::kNone: return "none";
    case Walk::kBlocks: return "blocks";
    case Walk::kBlocksDescending: return "blocks_descending";
    case Walk::kSteps: return "steps";
    case Walk::kStepsDescending: return "steps_descending";
    case Walk::kAny: return "any";
  }
  return "none";
}

}  // namespace sculler::analyze
