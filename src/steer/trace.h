// Traces: the remote ids of every minibatch of a training run, and what is known of the ids before
// it, so that policies and decisions are compared offline on the same accesses. The format is in
// docs/steer.md; a file that was not closed, is cut or damaged is refused.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::steer {

// What static policies rank rows by.
struct Candidate {
  uint64_t id = 0;
  uint64_t degree = 0;
  float vip = 0;  // probability that a minibatch samples it (vip.h); 0 where nobody knows
};

struct TraceHead {
  uint64_t halo = 0;  // remote nodes next to the partition: what buffer sizes are a share of
  std::vector<Candidate> candidates{};
};

struct Trace {
  TraceHead head;
  // Minibatch b asked for ids[begin[b]] … ids[begin[b + 1] - 1], in epoch epoch[b].
  std::vector<uint64_t> ids, begin{0};
  std::vector<uint32_t> epoch;

  [[nodiscard]] uint64_t minibatches() const { return epoch.size(); }
  [[nodiscard]] std::span<const uint64_t> minibatch(uint64_t b) const {
    return {ids.data() + begin[b], begin[b + 1] - begin[b]};
  }
  void add(std::span<const uint64_t> minibatch, uint32_t in_epoch);
  // How many different ids the minibatches ask for.
  [[nodiscard]] uint64_t distinct() const;
};

// Bytes of a trace, piece by piece: head, minibatches, end.
class TraceEncoder {
 public:
  static constexpr uint64_t kSumStart = 0xcbf29ce484222325u;  // the checksum of no bytes
  void head(const TraceHead& head);
  void minibatch(std::span<const uint64_t> ids, uint32_t epoch);
  void end();
  // What was encoded since the last take().
  [[nodiscard]] std::string take();
  [[nodiscard]] size_t pending() const { return out_.size(); }

 private:
  void byte(uint8_t value) { out_ += static_cast<char>(value); }
  void word(uint64_t value);
  void number(uint64_t value);
  void ids(std::span<const uint64_t> ids);
  std::string out_;
  uint64_t minibatches_ = 0, n_ids_ = 0, sum_ = kSumStart;
};

// kBadInput names where and why; `origin` becomes Error.file.
[[nodiscard]] Result<Trace> parse_trace(std::string_view bytes, std::string_view origin);
[[nodiscard]] Result<Trace> read_trace(const std::string& path);

// Records to a file while training runs. Not thread-safe.
class TraceRecorder {
 public:
  [[nodiscard]] static Result<std::unique_ptr<TraceRecorder>> create(const std::string& path,
                                                                     const TraceHead& head);
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;
  [[nodiscard]] Status minibatch(std::span<const uint64_t> ids, uint32_t epoch);
  // Without it the file is refused as cut.
  [[nodiscard]] Status close();

 private:
  TraceRecorder(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  [[nodiscard]] Status write();
  std::string path_;
  std::FILE* file_;
  TraceEncoder encoder_;
};

}  // namespace sculler::steer
