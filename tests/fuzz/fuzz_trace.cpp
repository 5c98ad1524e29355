// Any bytes as a trace: refused with a reason, or a trace that is written as the same bytes' worth
// and replays. The checksum is made right, or nothing behind it would be reached.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "steer/replay.h"
#include "steer/trace.h"

namespace {
void check(bool ok) {
  if (!ok) std::abort();
}

std::string closed(std::string bytes, uint64_t minibatches, uint64_t ids) {
  const auto word = [&](uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  word(minibatches);
  word(ids);
  uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : bytes) sum = (sum ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  word(sum);
  return bytes + "SCULTEND";
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler::steer;
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (const auto raw = parse_trace(input, "trace"); !raw) {
    check(!raw.error().message.empty() && raw.error().file == "trace");
  }
  if (size < 2) return 0;
  const auto trace = parse_trace(closed("SCULTRC1" + input.substr(2), data[0], data[1]), "trace");
  if (!trace) {
    check(!trace.error().message.empty());
    return 0;
  }
  check(trace->minibatches() == data[0] && trace->ids.size() == data[1]);
  TraceEncoder encoder;
  encoder.head(trace->head);
  for (uint64_t b = 0; b < trace->minibatches(); ++b)
    encoder.minibatch(trace->minibatch(b), trace->epoch[b]);
  encoder.end();
  const auto again = parse_trace(encoder.take(), "again");
  check(again && again->ids == trace->ids && again->begin == trace->begin);
  for (const char* policy : {"free:0.9", "s3fifo", "rudder:1", "known:2"}) {
    const auto counts = replay(*trace, policy, 3);
    check(counts && counts->ids == trace->ids.size() && counts->hits <= counts->ids);
  }
  return 0;
}
