// Calls in host code as lines: what addr2line prints, hostile tables, and where lines go.
#include "eval/source_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sculler::eval {
namespace {

const std::vector<std::string> kSources{"candidate.cu"};

TEST(ReadLines, TheFirstPlaceInTheCandidatesOwnFilesIsTaken) {
  const std::string output =
      "0x0000000000001a2b\n/usr/include/cuda_runtime.h:210\n"
      "0x0000000000002c3d\n/tmp/x/candidate.cudafe1.cpp:16 (discriminator 2)\n"
      "/sculler/work/candidate.cu:88 (discriminator 13)\n/sculler/work/candidate.cu:120\n"
      "0x0000000000000010\n??:0\n";
  const auto found = read_lines(output, kSources, {{0x1a2c, 0x2c3e}, {0x11}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], "candidate.cu:88");
  EXPECT_EQ(found[1], "");
}

TEST(ReadLines, ALaunchIsWhereTheKernelIsLaunchedNotWhereItStands) {
  const std::string output =
      "0x01\n/usr/include/crt/device_functions.h:2963\n"
      "0x02\n/tmp/tmpxft_1_candidate.cudafe1.stub.c:16 (discriminator 13)\n"
      "0x03\n/sculler/work/candidate.cu:62\n0x04\n/sculler/work/candidate.cu:99\n";
  EXPECT_EQ(read_lines(output, kSources, {{1, 2, 3, 4}}),
            (std::vector<std::string>{"candidate.cu:99"}));
  // Where the stack was cut: better the kernel than nothing.
  EXPECT_EQ(read_lines(output, kSources, {{1, 2, 3}}),
            (std::vector<std::string>{"candidate.cu:62"}));
}

TEST(ReadLines, NamesAndNumbersOfAHostileTableAreDropped) {
  const std::string output =
      "0x01\n/work/; rm -rf.cu:12\n0x02\ncandidate.cu:0\n0x03\ncandidate.cu:99999999999\n"
      "0x04\ncandidate.cu\n0x05\n:7\n0x06\ncandidate.cu:7x\n";
  const auto found = read_lines(output, kSources, {{1}, {2}, {3}, {4}, {5}, {6}, {7}});
  ASSERT_EQ(found.size(), 7u);
  for (const auto& line : found) EXPECT_EQ(line, "");
}

class ScriptedLines final : public SourceLines {
 public:
  std::vector<std::string> answer;
  std::vector<HostSite> asked;
  std::vector<std::string> find(const std::string&, const std::vector<std::string>&,
                                const std::vector<HostSite>& sites) override {
    asked = sites;
    return answer;
  }
};

RunResult sample() {
  RunResult r;
  r.status = "RACE";
  r.where = "candidate.so+0x1a2b+0x2c3d";
  r.message =
      "rank 1, cudaMemcpyAsync (candidate.so+0x1a2b+0x2c3d) writes what rank 0 reads at ring.cu:7";
  r.findings =
      R"J([{"kind":"race","text":"cudaMemcpyAsync (candidate.so+0x1a2b+0x2c3d) and (candidate.so+0x99)",)J"
      R"J("file":"candidate.so+0x1a2b+0x2c3d","line":0,"other_file":"ring.cu","other_line":7,"rank":1}])J";
  return r;
}

TEST(NameHostCalls, LinesTakeThePlaceOfOffsetsEverywhere) {
  ScriptedLines lines;
  lines.answer = {"candidate.cu:112", ""};  // in the order of sites: {1a2b, 2c3d}, {99} is first
  RunResult r = sample();
  std::swap(lines.answer[0], lines.answer[1]);
  name_host_calls(r, &lines, "/cache/a.so", kSources);
  ASSERT_EQ(lines.asked, (std::vector<HostSite>{{0x99}, {0x1a2b, 0x2c3d}}));
  EXPECT_EQ(r.where, "candidate.cu:112");
  EXPECT_EQ(r.message,
            "rank 1, cudaMemcpyAsync (candidate.cu:112) writes what rank 0 reads at ring.cu:7");
  const auto findings = nlohmann::json::parse(r.findings);
  EXPECT_EQ(findings[0]["text"], "cudaMemcpyAsync (candidate.cu:112) and (host code)");
  EXPECT_EQ(findings[0]["file"], "candidate.cu");
  EXPECT_EQ(findings[0]["line"], 112);
  EXPECT_EQ(findings[0]["other_file"], "ring.cu");
  EXPECT_EQ(findings[0]["other_line"], 7);
}

TEST(NameHostCalls, WithoutLinesNoOffsetIsLeft) {
  RunResult r = sample();
  name_host_calls(r, nullptr, "/cache/a.so", kSources);
  EXPECT_EQ(r.where, "");
  EXPECT_EQ(r.message.find("+0x"), std::string::npos);
  EXPECT_EQ(r.findings.find("+0x"), std::string::npos);
  const auto findings = nlohmann::json::parse(r.findings);
  EXPECT_EQ(findings[0]["file"], "");
  EXPECT_EQ(findings[0]["line"], 0);
}

TEST(NameHostCalls, AFloodOfPlacesIsBounded) {
  ScriptedLines lines;
  RunResult r;
  for (int i = 0; i < 1000; ++i) r.message += "candidate.so+0x" + std::to_string(i) + " ";
  r.message += "candidate.so+0x candidate.so candidate.so+0x123456789";
  name_host_calls(r, &lines, "/cache/a.so", kSources);
  EXPECT_EQ(lines.asked.size(), 256u);
  EXPECT_EQ(r.message.find("+0x1 "), std::string::npos);
  // Not a place: left as it is. Digits beyond eight are no part of an offset.
  EXPECT_TRUE(r.message.ends_with("candidate.so+0x candidate.so host code9")) << r.message;
}

}  // namespace
}  // namespace sculler::eval
