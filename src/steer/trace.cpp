#include "steer/trace.h"

#include <bit>
#include <cerrno>
#include <cstring>

#include "steer/table.h"

namespace sculler::steer {

namespace {

constexpr std::string_view kMagic = "SCULTRC1", kEnd = "SCULTEND";
constexpr uint8_t kMinibatch = 1, kLast = 0;
constexpr size_t kFooter = 32;
uint64_t add_to_sum(uint64_t sum, std::string_view bytes) {  // FNV-1a
  constexpr uint64_t kFnvPrime = 0x100000001b3u;
  for (const char c : bytes) sum = (sum ^ static_cast<uint8_t>(c)) * kFnvPrime;
  return sum;
}
uint64_t fold(uint64_t difference) {  // small differences of either sign become small numbers
  return (difference << 1) ^ (0 - (difference >> 63));
}
uint64_t unfold(uint64_t folded) { return (folded >> 1) ^ (0 - (folded & 1)); }

}  // namespace

void Trace::add(std::span<const uint64_t> minibatch, uint32_t in_epoch) {
  ids.insert(ids.end(), minibatch.begin(), minibatch.end());
  begin.push_back(ids.size());
  epoch.push_back(in_epoch);
}

uint64_t Trace::distinct() const {
  Table seen(64);
  for (const uint64_t id : ids) {
    if (seen.full()) seen = seen.rebuilt(2 * seen.most(), [](const Entry&) { return true; });
    Entry& e = seen.probe(seen.line_of(id), id);
    if (e.id == kNoId) seen.take(e, id);
  }
  return seen.size();
}

void TraceEncoder::word(uint64_t value) {
  for (int i = 0; i < 8; ++i) byte(static_cast<uint8_t>(value >> (8 * i)));
}

void TraceEncoder::number(uint64_t value) {
  for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
  byte(static_cast<uint8_t>(value));
}

void TraceEncoder::ids(std::span<const uint64_t> ids) {
  number(ids.size());
  uint64_t before = 0;
  for (const uint64_t id : ids) {
    number(fold(id - before));
    before = id;
  }
}

void TraceEncoder::head(const TraceHead& head) {
  out_ += kMagic;
  word(head.halo);
  number(head.candidates.size());
  uint64_t before = 0;
  for (const auto& c : head.candidates) {
    number(fold(c.id - before));
    before = c.id;
    number(c.degree);
    const auto vip = std::bit_cast<uint32_t>(c.vip);
    for (int i = 0; i < 4; ++i) byte(static_cast<uint8_t>(vip >> (8 * i)));
  }
}

void TraceEncoder::minibatch(std::span<const uint64_t> list, uint32_t epoch) {
  byte(kMinibatch);
  number(epoch);
  ids(list);
  ++minibatches_;
  n_ids_ += list.size();
}

void TraceEncoder::end() {
  byte(kLast);
  word(minibatches_);
  word(n_ids_);
  word(add_to_sum(sum_, out_));
  out_ += kEnd;
}

std::string TraceEncoder::take() {
  sum_ = add_to_sum(sum_, out_);
  return std::exchange(out_, {});
}

namespace {

class Reader {
 public:
  Reader(std::string_view bytes, std::string_view origin) : bytes_(bytes), origin_(origin) {}

  Result<Trace> read() {
    if (bytes_.size() < kMagic.size() || bytes_.substr(0, 7) != kMagic.substr(0, 7))
      return bad("is not a trace", "Record one, or make one with `sculler-gnn trace`.");
    if (bytes_.substr(0, kMagic.size()) != kMagic)
      return fail(
          {ErrorCode::kVersion, "is a trace of another version", std::string(origin_), {}, {}});
    if (bytes_.size() < kMagic.size() + 9 + 1 + kFooter ||
        bytes_.substr(bytes_.size() - kEnd.size()) != kEnd)
      return bad("has no end: it was cut, or its recording was not closed",
                 "Record it again; a cut trace would flatter short-lived policies.");
    footer_ = bytes_.size() - kFooter;
    if (word(footer_ + 16) != add_to_sum(TraceEncoder::kSumStart, bytes_.substr(0, footer_ + 16)))
      return bad("is damaged: its checksum differs", "Copy or record it again.");
    Trace trace;
    at_ = kMagic.size();
    trace.head.halo = word(at_);
    at_ += 8;
    if (!head(trace) || !body(trace)) return bad(why_ + " at byte " + std::to_string(at_), {});
    if (word(footer_) != trace.minibatches() || word(footer_ + 8) != trace.ids.size())
      return bad("counts other minibatches than it has", {});
    return trace;
  }

 private:
  [[nodiscard]] tl::unexpected<Error> bad(std::string message, std::string cure) const {
    return fail(
        {ErrorCode::kBadInput, std::move(message), std::string(origin_), {}, std::move(cure)});
  }
  [[nodiscard]] uint64_t word(size_t at) const {
    uint64_t value = 0;
    for (size_t i = 0; i < 8; ++i)
      value |= uint64_t{static_cast<uint8_t>(bytes_[at + i])} << (8 * i);
    return value;
  }
  [[nodiscard]] size_t left() const { return footer_ - at_; }
  bool wrong(const char* why) {
    why_ = why;
    return false;
  }
  bool number(uint64_t* to) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left() == 0) return wrong("ends within a number");
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        *to = value;
        return true;
      }
    }
    return wrong("holds a number of more than 64 bits");
  }
  bool next_id(uint64_t* id) {
    uint64_t folded = 0;
    if (!number(&folded)) return false;
    *id += unfold(folded);
    return *id <= kMaxId || wrong("holds an id above 2^63");
  }
  bool head(Trace& trace) {
    uint64_t n = 0;
    if (!number(&n)) return false;
    if (n > left() / 6) return wrong("promises more candidates than it has");
    trace.head.candidates.reserve(n);
    uint64_t id = 0;
    for (uint64_t i = 0; i < n; ++i) {
      Candidate c;
      if (!next_id(&id) || !number(&c.degree)) return false;
      if (left() < 4) return wrong("ends within a candidate");
      uint32_t vip = 0;
      for (int b = 0; b < 4; ++b) vip |= uint32_t{static_cast<uint8_t>(bytes_[at_++])} << (8 * b);
      c.vip = std::bit_cast<float>(vip);
      if (!(c.vip >= 0 && c.vip <= 1)) return wrong("holds a probability outside 0 to 1");
      c.id = id;
      trace.head.candidates.push_back(c);
    }
    return true;
  }
  bool body(Trace& trace) {
    for (;;) {
      if (left() == 0) return wrong("ends between minibatches");
      const auto kind = static_cast<uint8_t>(bytes_[at_++]);
      if (kind == kLast) return left() == 0 || wrong("goes on after its last minibatch");
      if (kind != kMinibatch) return wrong("holds a record of an unknown kind");
      uint64_t epoch = 0, n = 0, id = 0;
      if (!number(&epoch) || !number(&n)) return false;
      if (epoch > UINT32_MAX) return wrong("holds an epoch above 2^32");
      if (n > left()) return wrong("promises more ids than it has");
      for (uint64_t i = 0; i < n; ++i) {
        if (!next_id(&id)) return false;
        trace.ids.push_back(id);
      }
      trace.begin.push_back(trace.ids.size());
      trace.epoch.push_back(static_cast<uint32_t>(epoch));
    }
  }

  std::string_view bytes_, origin_;
  size_t at_ = 0, footer_ = 0;
  std::string why_;
};

Error io(const std::string& path, const char* what) {
  return {errno == ENOSPC ? ErrorCode::kDiskFull : ErrorCode::kIo,
          std::string(what) + ": " + std::strerror(errno),
          path,
          {},
          {}};
}

}  // namespace

Result<Trace> parse_trace(std::string_view bytes, std::string_view origin) {
  return Reader(bytes, origin).read();
}

Result<Trace> read_trace(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    Error error = io(path, "cannot be opened");
    if (errno == ENOENT) error.code = ErrorCode::kNotFound;
    return fail(std::move(error));
  }
  std::string bytes;
  std::string part(size_t{1} << 20, 0);
  for (size_t n; (n = std::fread(part.data(), 1, part.size(), file)) > 0;) bytes.append(part, 0, n);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return fail(io(path, "cannot be read"));
  return parse_trace(bytes, path);
}

Result<std::unique_ptr<TraceRecorder>> TraceRecorder::create(const std::string& path,
                                                             const TraceHead& head) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return fail(io(path, "cannot be created"));
  auto recorder = std::unique_ptr<TraceRecorder>(new TraceRecorder(path, file));
  recorder->encoder_.head(head);
  if (auto ok = recorder->write(); !ok) return fail(ok.error());
  return recorder;
}

TraceRecorder::~TraceRecorder() {
  if (file_ != nullptr) std::fclose(file_);
}

Status TraceRecorder::write() {
  const std::string bytes = encoder_.take();
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size()) return {};
  return fail(io(path_, "cannot be written"));
}

Status TraceRecorder::minibatch(std::span<const uint64_t> ids, uint32_t epoch) {
  if (file_ == nullptr) return fail({ErrorCode::kIo, "is closed", path_, {}, {}});
  encoder_.minibatch(ids, epoch);
  return encoder_.pending() < (size_t{1} << 18) ? Status() : write();
}

Status TraceRecorder::close() {
  if (file_ == nullptr) return {};
  encoder_.end();
  Status ok = write();
  if (std::fclose(std::exchange(file_, nullptr)) != 0 && ok)
    return fail(io(path_, "cannot be written"));
  return ok;
}

}  // namespace sculler::steer
