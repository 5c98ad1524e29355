// Traces: what is written is read; what is cut, damaged or lying is refused with the reason.
#include "steer/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "steer/replay.h"
#include "steer/traces.h"
#include "support/temp_folder.h"

namespace {

using namespace sculler;
using namespace sculler::steer;

Trace sample() {
  Trace trace;
  trace.head.halo = 1000;
  trace.head.candidates = {{5, 10, 0.5F}, {3, 0, 0.0F}, {kMaxId, 1'000'000'000'000, 1.0F}};
  trace.add(std::vector<uint64_t>{7, 3, kMaxId, 0}, 0);
  trace.add({}, 0);
  trace.add(std::vector<uint64_t>{7}, UINT32_MAX);
  return trace;
}

std::string bytes_of(const Trace& trace) {
  TraceEncoder encoder;
  encoder.head(trace.head);
  std::string bytes;
  for (uint64_t b = 0; b < trace.minibatches(); ++b) {
    encoder.minibatch(trace.minibatch(b), trace.epoch[b]);
    bytes += encoder.take();  // in pieces, as a recorder writes
  }
  encoder.end();
  return bytes + encoder.take();
}

void expect_equal(const Trace& a, const Trace& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.begin, b.begin);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.head.halo, b.head.halo);
  ASSERT_EQ(a.head.candidates.size(), b.head.candidates.size());
  for (size_t i = 0; i < a.head.candidates.size(); ++i) {
    EXPECT_EQ(a.head.candidates[i].id, b.head.candidates[i].id);
    EXPECT_EQ(a.head.candidates[i].degree, b.head.candidates[i].degree);
    EXPECT_EQ(a.head.candidates[i].vip, b.head.candidates[i].vip);
  }
}

TEST(Traces, AreReadAsTheyWereWritten) {
  const Trace trace = sample();
  const auto read = parse_trace(bytes_of(trace), "t");
  ASSERT_TRUE(read) << read.error().text();
  expect_equal(*read, trace);
  EXPECT_EQ(read->distinct(), 4U);
  const auto empty = parse_trace(bytes_of(Trace()), "t");
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->minibatches(), 0U);
}

TEST(Traces, SortedIdsTakeAboutAByteEach) {
  Trace trace;
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 10000; ++i) ids.push_back(1'000'000'000 + i * 40);
  trace.add(ids, 0);
  EXPECT_LT(bytes_of(trace).size(), 2 * ids.size());
}

TEST(Traces, EveryCutIsRefused) {
  const std::string bytes = bytes_of(sample());
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto cut = parse_trace(std::string_view(bytes).substr(0, n), "file");
    ASSERT_FALSE(cut) << n;
    EXPECT_EQ(cut.error().file, "file");
    if (n >= 8) { EXPECT_THAT(cut.error().message, testing::HasSubstr("cut")); }
  }
}

TEST(Traces, EveryFlippedBitIsRefused) {
  const std::string bytes = bytes_of(sample());
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string flipped = bytes;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    EXPECT_FALSE(parse_trace(flipped, "file")) << "bit " << i;
  }
}

// A body with a right checksum that lies: made by replacing the body and summing again.
std::string with_body(const std::string& body, uint64_t minibatches, uint64_t ids) {
  std::string bytes = "SCULTRC1" + std::string(8, '\0') + body;
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

TEST(Traces, LiesBehindARightChecksumAreRefused) {
  using std::string_literals::operator""s;
  EXPECT_TRUE(parse_trace(with_body("\0\0"s, 0, 0), "t"));
  EXPECT_TRUE(parse_trace(with_body("\0\1\0\1\4\0"s, 1, 1), "t"));
  const struct {
    std::string body, says;
    uint64_t minibatches, ids;
  } cases[] = {
      {"\xff\xff\xff\x7f\0"s, "more candidates", 0, 0},
      {"\0\1\0\xff\xff\x7f\4\0"s, "more ids", 1, 1},
      {"\0\2\0"s, "unknown kind", 0, 0},
      {"\0\1\0\0"s, "between minibatches", 1, 0},
      {"\0\0\0"s, "goes on", 0, 0},
      {"\0\1\0\1\1\0"s, "above 2^63", 1, 1},
      {"\0\1\0\1\4\0"s, "other minibatches", 2, 1},
      {"\0\1\0\1\4\0"s, "other minibatches", 1, 2},
      {"\0\1\xff\xff\xff\xff\x7f\0\0"s, "epoch", 1, 0},
      {"\0\1\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\0"s, "64 bits", 1, 1},
      {"\1\2\1\0\0\0\x40\0"s, "probability", 0, 0},
      {"\1\2\1\0\0\xc0\x7f\0"s, "probability", 0, 0},
      {"\0\1\0\1\xff"s, "within a number", 1, 1},
  };
  for (const auto& c : cases) {
    const auto read = parse_trace(with_body(c.body, c.minibatches, c.ids), "t");
    ASSERT_FALSE(read) << c.says;
    EXPECT_THAT(read.error().message, testing::HasSubstr(c.says));
  }
  std::string later = bytes_of(sample());
  later[7] = '2';
  EXPECT_EQ(parse_trace(later, "t").error().code, ErrorCode::kVersion);
}

TEST(Traces, AreRecordedToAFileAndRefusedUntilClosed) {
  const test::TempFolder folder("steer_trace");
  const std::string path = folder.path("t");
  const Trace trace = sample();
  {
    auto recorder = TraceRecorder::create(path, trace.head);
    ASSERT_TRUE(recorder);
    for (uint64_t b = 0; b < trace.minibatches(); ++b)
      ASSERT_TRUE((*recorder)->minibatch(trace.minibatch(b), trace.epoch[b]));
    ASSERT_TRUE((*recorder)->close());
    EXPECT_TRUE((*recorder)->close()) << "twice is once";
    EXPECT_FALSE((*recorder)->minibatch(trace.minibatch(0), 0));
    const auto read = read_trace(path);
    ASSERT_TRUE(read) << read.error().text();
    expect_equal(*read, trace);
  }
  {
    auto killed = TraceRecorder::create(path, trace.head);
    ASSERT_TRUE(killed);
    ASSERT_TRUE((*killed)->minibatch(trace.minibatch(0), 0));
  }
  EXPECT_FALSE(read_trace(path));
  std::filesystem::remove(path);
  EXPECT_EQ(read_trace(path).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(TraceRecorder::create("/nowhere/t", TraceHead()).error().code, ErrorCode::kIo);
}

TEST(Replay, SizesAreSharesOfTheHaloOrRows) {
  Trace trace = sample();
  EXPECT_EQ(capacity_of(trace, "25%"), 250U);
  EXPECT_EQ(capacity_of(trace, "0%"), 0U);
  EXPECT_EQ(capacity_of(trace, "7"), 7U);
  trace.head.halo = 0;
  EXPECT_EQ(capacity_of(trace, "50%"), 2U) << "of four distinct ids";
  for (const char* wrong : {"", "%", "x", "5 %", "-1", "1e99", "nan", "101%"})
    EXPECT_FALSE(capacity_of(trace, wrong)) << wrong;
}

TEST(Replay, StaticPoliciesTakeTheBestCandidates) {
  Trace trace;
  trace.head.candidates = {{1, 10, 0.1F}, {2, 30, 0.2F}, {3, 20, 0.9F}};
  for (int i = 0; i < 3; ++i) trace.add(std::vector<uint64_t>{2, 3}, 0);
  const auto degree = replay(trace, "degree", 1), vip = replay(trace, "vip", 2);
  ASSERT_TRUE(degree && vip);
  EXPECT_EQ(degree->hits, 3U);
  EXPECT_EQ(degree->fetched, 4U) << "one preloaded, 3 missed three times";
  EXPECT_EQ(vip->hits, 6U);
  EXPECT_EQ(vip->fetched, 2U);
  trace.head.candidates.clear();
  EXPECT_EQ(replay(trace, "degree", 1).error().code, ErrorCode::kBadInput);
  EXPECT_FALSE(replay(trace, "what", 1));
}

}  // namespace
