// The three forms in which an analysis is shown: approved text, JSON by its schema, SVG that is
// XML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "analyze/analysis.h"
#include "iteration.h"
#include "llm/schema.h"
#include "xml.h"

namespace sculler::analyze {
namespace {

using test::gather_program;
using test::json;
using test::TraceBuilder;
using test::Xml;
using testing::HasSubstr;
using testing::Not;

const About kAbout{"gather.cu", "gather", "emu", "h200x2", "default"};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The text as it was approved in data/NAME. SCULLER_APPROVE=1 takes what is there now.
void approve(const std::string& name, const std::string& text) {
  const std::string path = std::string(SCULLER_SOURCE_DIR) + "/tests/analyze/data/" + name;
  if (std::getenv("SCULLER_APPROVE") != nullptr) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, read_file(path)) << "if it is right: SCULLER_APPROVE=1, and look at the diff";
}

Analysis analysis_of(const TraceBuilder& t) {
  auto out = read_iteration(t.text(), kAbout.file);
  EXPECT_TRUE(out) << out.error().text();
  return make_analysis(out ? std::move(*out) : Iteration{});
}

void expect_by_schema(const Analysis& a) {
  static const auto schema =
      json::parse(read_file(std::string(SCULLER_SOURCE_DIR) + "/docs/analyze.schema.json"));
  const std::string text = analysis_json(a, kAbout);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto checked = llm::check_schema(schema, json::parse(text));
  EXPECT_TRUE(checked) << checked.error().text();
}
void expect_drawn(const Analysis& a, const About& about = kAbout) {
  const std::string svg = draw_analysis(a, about);
  const Xml xml(svg);
  EXPECT_EQ(xml.error, "") << svg;
  for (const auto& [name, count] : xml.counts)
    EXPECT_TRUE(name == "svg" || name == "marker" || name == "path" || name == "rect" ||
                name == "text" || name == "title" || name == "g")
        << name;
  EXPECT_EQ(draw_analysis(a, about), svg);
}

// One program with most of what there is: a group, a peer copy, a memset, events, no times.
TraceBuilder mixed_program() {
  TraceBuilder t(2);
  std::vector<int> in, out;
  for (int r = 0; r < 2; ++r) {
    in.push_back(t.space(r, "set 0 buffer X", 6000));
    out.push_back(t.space(r, "ncclMemAlloc", 6000));
  }
  for (int r = 0; r < 2; ++r) {
    const auto own = static_cast<std::size_t>(r), peer = 1 - own;
    t.add(r, 1, "memset", "cudaMemsetAsync");
    t.at("candidate.cu:10").writes(out[own], 0, 6000);
    t.add(r, 1, "collective", "NCCL group");
    t.at("candidate.cu:14").reads(in[own], 0, 1500).writes(out[own], 1500, 3000);
    t.last()["meeting"] = 0;
    t.call({{"name", "ncclSend"},
            {"bytes", 1500},
            {"peer", 1 - r},
            {"at", "candidate.cu:12"},
            {"send", TraceBuilder::range(in[own], 0, 1500)}});
    t.call({{"name", "ncclRecv"},
            {"bytes", 1500},
            {"peer", 1 - r},
            {"at", "candidate.cu:13"},
            {"recv", TraceBuilder::range(out[own], 1500, 3000)}});
    const int64_t copy = t.add(r, 3, "copy", "cudaMemcpyAsync");
    t.at("candidate.cu:16").reads(in[own], 3000, 6000).writes(out[peer], 3000, 6000);
    t.add(r, 1, "kernel", "(anonymous namespace)::sum(float*)");
    t.at("candidate.cu:18").after({copy}).grid(3, 4).reads(out[own], 0, 6000);
    t.last()["reads"][0]["sparse"] = true;
    t.writes(out[own], 0, 6000);
  }
  return t;
}

TEST(AnalyzeShow, Text) {
  const Analysis a = analysis_of(gather_program());
  approve("gather.txt", print_analysis(a, kAbout, 0));
  approve("mixed.txt", print_analysis(analysis_of(mixed_program()), kAbout, 1));
}

TEST(AnalyzeShow, Json) {
  const Analysis a = analysis_of(gather_program());
  approve("gather.json", json::parse(analysis_json(a, kAbout)).dump(1) + "\n");
  expect_by_schema(a);
  expect_by_schema(analysis_of(mixed_program()));
}

TEST(AnalyzeShow, Svg) {
  const Analysis a = analysis_of(gather_program());
  approve("gather.svg", draw_analysis(a, kAbout));
  expect_drawn(a);
  approve("mixed.svg", draw_analysis(analysis_of(mixed_program()), kAbout));
  expect_drawn(analysis_of(mixed_program()));
}

TEST(AnalyzeShow, NothingOfTheProgramBecomesMarkup) {
  const std::string evil =
      "k</title><script>alert(1)</script>&amp;\"'<![CDATA[x]]><!-- \xff\xfe \xef\xbf\xbf "
      "\xed\xa0\x80";
  auto t = gather_program();
  for (auto& op : t.trace["operations"]) op["name"] = "k</text><script>alert(1)</script>&'\"";
  t.trace["operations"][2]["at"] = "candidate.cu:</title><script>";
  t.trace["operations"][2]["bound"] = "<b>";
  t.trace["spaces"][0]["name"] = "<script>";
  const Analysis a = analysis_of(t);
  const About about{evil, evil, evil, evil, evil};
  expect_drawn(a, about);
  const std::string svg = draw_analysis(a, about);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  const Xml xml(svg);
  EXPECT_THAT(xml.texts, testing::Contains(HasSubstr("<script>alert(1)</script>")));
  expect_by_schema(a);
}

// Random traces: whatever the emulator may have seen, the three forms are sound, and what they say
// is within what is possible.
TEST(AnalyzeShow, RandomTracesHoldTheInvariants) {
  std::mt19937 random(7);
  const auto below = [&](uint64_t n) { return n == 0 ? 0 : random() % n; };
  for (int round = 0; round < 60; ++round) {
    const int ranks = 1 + static_cast<int>(below(3));
    TraceBuilder t(ranks);
    std::vector<int> spaces;
    for (int i = 0; i < 4 * ranks; ++i)
      spaces.push_back(t.space(i % ranks, "s", 256 * (1 + below(40))));
    const char* kinds[] = {"kernel", "kernel",     "gemm",        "copy",
                           "memset", "collective", "event_record"};
    double clock = 0;
    for (uint64_t i = 0; i < 5 + below(30); ++i) {
      const auto id = t.add(static_cast<int>(below(static_cast<uint64_t>(ranks))),
                            static_cast<int64_t>(below(3)), kinds[below(7)], "op");
      t.grid(static_cast<int64_t>(below(20)), static_cast<int64_t>(below(20)));
      if (below(4) != 0) t.takes(clock, clock + static_cast<double>(below(50)));
      clock += static_cast<double>(below(20));
      if (below(3) == 0) t.after({static_cast<int64_t>(below(static_cast<uint64_t>(id)))});
      if (below(4) == 0) t.last()["meeting"] = below(4);
      for (uint64_t k = 0; k < below(4); ++k) {
        const int s = spaces[below(spaces.size())];
        const uint64_t all = t.trace["spaces"][static_cast<std::size_t>(s)]["bytes"];
        const uint64_t begin = below(all), end = begin + 1 + below(all - begin);
        std::vector<std::vector<int64_t>> parts;
        for (uint64_t p = 0; p < below(9); ++p)
          parts.push_back({static_cast<int64_t>(below(20)), static_cast<int64_t>(below(20)),
                           static_cast<int64_t>(below(20)), static_cast<int64_t>(below(20))});
        t.touch(below(2) == 0 ? "reads" : "writes", s, begin, std::min(end, all), parts);
      }
    }
    const Analysis a = analysis_of(t);
    expect_by_schema(a);
    expect_drawn(a);
    for (int r = 0; r < ranks; ++r) EXPECT_FALSE(print_analysis(a, kAbout, r).empty());
    for (const Edge& e : a.edges) EXPECT_NE(e.from, e.to);
    if (a.headroom) {
      EXPECT_LE(a.headroom->bound, a.headroom->now + 1e-6);
      EXPECT_LE(a.headroom->bound, a.headroom->pieces + 1e-6);
      EXPECT_LE(a.headroom->pieces, a.headroom->now + 1e-6);
    }
    for (const Transfer& one : a.transfers) {
      for (const auto& o : one.overlaps) {
        EXPECT_GE(o.gain_us, 0);
        EXPECT_LE(o.gain_us, std::min(a.iteration.operations[one.op].duration(),
                                      a.iteration.operations[o.op].duration()) +
                                 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace sculler::analyze
