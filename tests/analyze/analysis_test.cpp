// What `sculler analyze` derives from a trace.
#include "analyze/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "iteration.h"

namespace sculler::analyze {
namespace {

using test::by_blocks;
using test::by_steps;
using test::gather_program;
using test::TraceBuilder;
using testing::ElementsAre;

Iteration iteration_of(const TraceBuilder& t) {
  auto out = read_iteration(t.text(), "gather.cu");
  EXPECT_TRUE(out) << out.error().text();
  return out ? std::move(*out) : Iteration{};
}
Analysis analysis_of(const TraceBuilder& t) { return make_analysis(iteration_of(t)); }

const Edge* edge(const Analysis& a, Edge::Kind kind, int64_t from, int64_t to) {
  for (const Edge& e : a.edges) {
    if (e.kind == kind && a.iteration.operations[e.from].id == from &&
        a.iteration.operations[e.to].id == to)
      return &e;
  }
  return nullptr;
}
std::size_t index_of(const Iteration& it, int64_t id) {
  for (std::size_t i = 0; i < it.operations.size(); ++i)
    if (it.operations[i].id == id) return i;
  ADD_FAILURE() << "no operation " << id;
  return 0;
}
const Transfer& transfer(const Analysis& a, int64_t id) {
  for (const Transfer& t : a.transfers)
    if (a.iteration.operations[t.op].id == id) return t;
  ADD_FAILURE() << "no transfer " << id;
  return a.transfers.front();
}
const Transfer::Overlap* overlap(const Analysis& a, int64_t transfer_id, int64_t with) {
  for (const auto& o : transfer(a, transfer_id).overlaps)
    if (a.iteration.operations[o.op].id == with) return &o;
  return nullptr;
}

// Of rank 0 in gather_program(); rank 1's are 6 higher.
constexpr int64_t kProduce = 2, kRecord = 3, kWait = 4, kGather = 5, kConsume = 6, kAside = 7;

TEST(AnalyzeTrace, NamesAndLinesAreTheUsers) {
  const Iteration it = iteration_of(gather_program());
  EXPECT_EQ(it.n_ranks, 2);
  ASSERT_EQ(it.operations.size(), 12u);  // without the harness's
  const Operation& produce = it.operations[index_of(it, kProduce)];
  EXPECT_EQ(produce.at, "gather.cu:40");
  EXPECT_EQ(short_name(produce), "produce");
  EXPECT_EQ(label(it.operations[index_of(it, kConsume)]), "#6 consume (gather.cu:46)");
  EXPECT_EQ(produce.writes[0].at, "gather.cu:12");
  EXPECT_EQ(it.spaces[0].name, "A of set 3");
  EXPECT_EQ(it.spaces[1].name, "cudaMalloc 1");
  EXPECT_EQ(it.spaces[2].name, "cudaMalloc 2");
}

TEST(AnalyzeTrace, HostileTracesAreRefusedOrBounded) {
  for (const char* text :
       {"", "[]", "{}", "{\"operations\":[]}", "{\"operations\":7}", "{\"operations\":[1,2,{}]}",
        R"({"operations":[{"rank":0,"kind":"host_wait"}]})"})
    EXPECT_FALSE(read_iteration(text, "f.cu")) << text;
  auto t = gather_program();
  auto& ops = t.trace["operations"];
  ops[3]["rank"] = 1 << 30;  // no such rank: left out
  ops[4]["reads"] = {{{"space", 99}, {"begin", 0}, {"end", 8}}, 5, "x"};
  ops[5]["writes"] = {{{"space", 0}, {"begin", 8}, {"end", 1 << 20}}};  // behind the allocation
  ops[6]["start_us"] = -5;
  ops[7]["parts"] = "many";
  ops[7]["after"] = {1, "x", -1, 1e300};
  t.trace["spaces"][0]["rank"] = -4;
  const Analysis a = analysis_of(t);
  EXPECT_EQ(a.iteration.operations.size(), 11u);
  for (const Operation& op : a.iteration.operations)
    for (const Span& s : op.writes)
      EXPECT_LE(s.end, a.iteration.spaces[static_cast<std::size_t>(s.space)].bytes);
  EXPECT_FALSE(print_analysis(a, {"f.cu", "task", "emu", "p", "default"}, 0).empty());
}

TEST(AnalyzeTrace, TheHarnessEventsAreLeftOut) {
  TraceBuilder t(1);
  t.add(0, 1, "event_record", "cudaEventRecord");
  t.add(0, 1, "kernel", "k");
  t.add(0, 1, "event_record", "cudaEventRecord");
  t.at("candidate.cu:5");
  t.add(0, 1, "event_record", "cudaEventRecord");
  const Iteration it = iteration_of(t);
  ASSERT_EQ(it.operations.size(), 2u);
  EXPECT_EQ(it.operations[1].at, "gather.cu:5");
}

TEST(AnalyzeTrace, TooManyOperationsAreCutAndSaid) {
  TraceBuilder t(1);
  const int s = t.space(0, "cudaMalloc", 4096);
  for (int i = 0; i < 1500; ++i) {
    t.add(0, 1, "kernel", "k");
    t.reads(s, 0, 4096).writes(s, 0, 4096);
  }
  const Analysis a = analysis_of(t);
  EXPECT_TRUE(a.iteration.truncated);
  EXPECT_EQ(a.iteration.operations.size(), 1024u);
  EXPECT_THAT(print_analysis(a, {}, 0), testing::HasSubstr("smaller size"));
}

TEST(AnalyzeProgress, KernelsByBlocksOrStepsAndCollectivesEvenly) {
  const Iteration it = iteration_of(gather_program());
  const Operation& produce = it.operations[index_of(it, kProduce)];
  const Operation& gather = it.operations[index_of(it, kGather)];
  const Operation& consume = it.operations[index_of(it, kConsume)];
  const int s = produce.writes[0].space, g = gather.writes[0].space;
  EXPECT_DOUBLE_EQ(when_written(produce, {s, 0, 512}).last, 0.125);
  EXPECT_DOUBLE_EQ(when_written(produce, {s, 512, 1024}).first, 0.125);
  EXPECT_DOUBLE_EQ(when_written(produce, {s, 3584, 4096}).last, 1);
  EXPECT_DOUBLE_EQ(when_written(gather, {g, 0, 2048}).last, 0.5);
  EXPECT_DOUBLE_EQ(when_written(gather, {g, 4096, 6144}).last, 0.5);  // the other rank's part
  EXPECT_DOUBLE_EQ(when_read(gather, {s, 2048, 4096}).first, 0.5);
  EXPECT_DOUBLE_EQ(when_read(consume, {g, 4096, 5120}).first, 0.5);
  EXPECT_DOUBLE_EQ(when_written(consume, {s, 0, 512}).first, 0);  // not its bytes
  EXPECT_DOUBLE_EQ(when_written(consume, {s, 0, 512}).last, 1);
}

TEST(AnalyzeProgress, TheOrderOfAWalkIsNamed) {
  Span span;
  span.end = 4096;
  const auto walk = [&](const std::vector<std::vector<int64_t>>& parts) {
    span.parts.clear();
    for (const auto& p : parts) span.parts.push_back({p[0], p[1], p[2], p[3]});
    return walk_of(span);
  };
  EXPECT_EQ(walk(by_blocks(4)), Walk::kBlocks);
  EXPECT_EQ(walk(by_blocks(4, true)), Walk::kBlocksDescending);
  EXPECT_EQ(walk(by_steps(4)), Walk::kSteps);
  auto back = by_steps(4);
  std::reverse(back.begin(), back.end());
  EXPECT_EQ(walk(back), Walk::kStepsDescending);
  EXPECT_EQ(walk({{0, 3, 1, 9}, {0, 3, 1, 9}}), Walk::kAny);
  EXPECT_EQ(walk({{0, 1, 1, 4}, {4, 5, 1, 4}, {2, 3, 1, 4}}), Walk::kAny);
  // Two arrays side by side.
  EXPECT_EQ(walk({{0, 3, 1, 1}, {0, 3, 3, 3}, {0, 3, 2, 2}, {0, 3, 4, 4}}), Walk::kSteps);
  EXPECT_EQ(walk({{0, 0, 1, 4}, {1, 1, 1, 4}, {0, 0, 1, 4}, {1, 1, 1, 4}}), Walk::kBlocks);
  EXPECT_EQ(walk({{0, 3, 1, 1}, {0, 3, 3, 3}, {0, 3, 4, 4}, {0, 3, 2, 2}}), Walk::kAny);
  EXPECT_EQ(walk({{0, 3, 1, 9}}), Walk::kNone);
  EXPECT_EQ(walk({}), Walk::kNone);
}

TEST(AnalyzeGraph, DataFlowsThroughTheCollectiveFromBothRanks) {
  const Analysis a = analysis_of(gather_program());
  const Edge* sent = edge(a, Edge::Kind::kFlow, kProduce, kGather);
  ASSERT_NE(sent, nullptr);
  EXPECT_EQ(sent->size(), 4096u);
  const Edge* read = edge(a, Edge::Kind::kFlow, kGather, kConsume);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->size(), 8192u);
  const Edge* carried = edge(a, Edge::Kind::kCarry, kGather + 6, kGather);
  ASSERT_NE(carried, nullptr);
  ASSERT_EQ(carried->bytes.size(), 1u);
  EXPECT_EQ(carried->bytes[0].begin, 4096u);  // rank 1's part
  EXPECT_EQ(carried->bytes[0].end, 8192u);
  EXPECT_NE(edge(a, Edge::Kind::kOrder, kRecord, kWait), nullptr);
  EXPECT_NE(edge(a, Edge::Kind::kOrder, kConsume, kAside), nullptr);
  EXPECT_EQ(edge(a, Edge::Kind::kFlow, kProduce, kConsume), nullptr);
  EXPECT_EQ(edge(a, Edge::Kind::kFlow, kProduce, kProduce), nullptr);
}

TEST(AnalyzeGraph, ARangeBelongsToWhoWroteItLastAndOverwritingIsReuse) {
  TraceBuilder t(1);
  const int s = t.space(0, "cudaMalloc", 1000), d = t.space(0, "cudaMalloc", 1000);
  const auto first = t.add(0, 1, "memset", "m");
  t.writes(s, 0, 1000);
  const auto second = t.add(0, 1, "kernel", "k");
  t.writes(s, 200, 400);
  const auto reader = t.add(0, 1, "copy", "c");
  t.reads(s, 100, 500).writes(d, 0, 400);
  const auto third = t.add(0, 1, "kernel", "k");
  t.writes(s, 300, 600);
  const Analysis a = analysis_of(t);
  const Edge* from_first = edge(a, Edge::Kind::kFlow, first, reader);
  ASSERT_NE(from_first, nullptr);
  ASSERT_EQ(from_first->bytes.size(), 2u);
  EXPECT_EQ(from_first->bytes[0].end, 200u);
  EXPECT_EQ(from_first->bytes[1].begin, 400u);
  ASSERT_NE(edge(a, Edge::Kind::kFlow, second, reader), nullptr);
  EXPECT_EQ(edge(a, Edge::Kind::kFlow, second, reader)->size(), 200u);
  ASSERT_NE(edge(a, Edge::Kind::kReuse, reader, third), nullptr);
  EXPECT_EQ(edge(a, Edge::Kind::kReuse, reader, third)->size(), 200u);
  EXPECT_EQ(edge(a, Edge::Kind::kReuse, second, third)->size(), 100u);
  EXPECT_EQ(edge(a, Edge::Kind::kFlow, third, reader), nullptr);
}

TEST(AnalyzeGraph, SendsReachTheirReceiversAlone) {
  TraceBuilder t(3);
  std::vector<int64_t> group(3);
  for (int r = 0; r < 3; ++r) {
    const int s = t.space(r, "cudaMalloc", 512), d = t.space(r, "cudaMalloc", 512);
    group[static_cast<std::size_t>(r)] = t.add(r, 1, "collective", "NCCL group");
    t.reads(s, 0, 512).writes(d, 0, 512);
    t.last()["meeting"] = 4;
    t.call({{"name", "ncclSend"},
            {"bytes", 512},
            {"peer", (r + 1) % 3},
            {"send", TraceBuilder::range(s, 0, 512)}});
    t.call({{"name", "ncclRecv"},
            {"bytes", 512},
            {"peer", (r + 2) % 3},
            {"recv", TraceBuilder::range(d, 0, 512)}});
  }
  const Analysis a = analysis_of(t);
  EXPECT_NE(edge(a, Edge::Kind::kCarry, group[0], group[1]), nullptr);
  EXPECT_EQ(edge(a, Edge::Kind::kCarry, group[1], group[0]), nullptr);
  EXPECT_NE(edge(a, Edge::Kind::kCarry, group[2], group[0]), nullptr);
  EXPECT_EQ(short_name(a.iteration.operations[0]), "ncclSend + ncclRecv");
}

TEST(AnalyzeGraph, RootsSendOrReceiveAlone) {
  for (const bool broadcast : {true, false}) {
    TraceBuilder t(3);
    std::vector<int64_t> ids;
    for (int r = 0; r < 3; ++r) {
      const int s = t.space(r, "cudaMalloc", 512);
      ids.push_back(t.add(r, 1, "collective", broadcast ? "ncclBroadcast" : "ncclReduce"));
      t.reads(s, 0, 512).writes(s, 0, 512);
      t.last()["meeting"] = 1;
      t.call({{"name", broadcast ? "ncclBroadcast" : "ncclReduce"},
              {"bytes", 512},
              {"peer", 1},
              {"members", {0, 1, 2}},
              {"send", TraceBuilder::range(s, 0, 512)},
              {"recv", TraceBuilder::range(s, 0, 512)}});
    }
    const Analysis a = analysis_of(t);
    EXPECT_EQ(edge(a, Edge::Kind::kCarry, ids[1], ids[0]) != nullptr, broadcast);
    EXPECT_EQ(edge(a, Edge::Kind::kCarry, ids[0], ids[1]) != nullptr, !broadcast);
    EXPECT_EQ(edge(a, Edge::Kind::kCarry, ids[0], ids[2]), nullptr);
  }
}

TEST(AnalyzeTransfers, WhoMakesAndWhoNeedsWhatACollectiveCarries) {
  const Analysis a = analysis_of(gather_program());
  ASSERT_EQ(a.transfers.size(), 2u);
  const Transfer& t = transfer(a, kGather);
  EXPECT_EQ(t.sent, 4096u);
  EXPECT_EQ(t.received, 8192u);
  ASSERT_EQ(t.producers.size(), 1u);
  EXPECT_EQ(a.iteration.operations[t.producers[0].op].id, kProduce);
  EXPECT_EQ(t.producers[0].walk, Walk::kBlocks);
  EXPECT_EQ(t.producers[0].at, "gather.cu:12");
  ASSERT_EQ(t.producers[0].pieces.size(), 8u);
  EXPECT_DOUBLE_EQ(t.producers[0].pieces[0].when.last, 0.125);
  ASSERT_EQ(t.readers.size(), 1u);
  EXPECT_EQ(a.iteration.operations[t.readers[0].op].id, kConsume);
  EXPECT_EQ(t.readers[0].walk, Walk::kSteps);
  EXPECT_EQ(t.readers[0].at, "gather.cu:21");
}

TEST(AnalyzeTransfers, WhatCouldOverlapAndHow) {
  const Analysis a = analysis_of(gather_program());
  const auto* produce = overlap(a, kGather, kProduce);
  ASSERT_NE(produce, nullptr);
  EXPECT_EQ(produce->how, Transfer::Overlap::How::kPieces);
  EXPECT_TRUE(produce->before);
  EXPECT_DOUBLE_EQ(produce->from, 0.125);
  EXPECT_NEAR(produce->gain_us, 87.5, 1e-6);  // all but the last eighth
  const auto* consume = overlap(a, kGather, kConsume);
  ASSERT_NE(consume, nullptr);
  EXPECT_EQ(consume->how, Transfer::Overlap::How::kPieces);
  EXPECT_FALSE(consume->before);
  EXPECT_DOUBLE_EQ(consume->from, 0.25);
  // Own part and the peer's arrive beside each other, but are read one after the other.
  EXPECT_NEAR(consume->gain_us, 37.5, 1e-6);
  const auto* aside = overlap(a, kGather, kAside);
  ASSERT_NE(aside, nullptr);
  EXPECT_EQ(aside->how, Transfer::Overlap::How::kBeside);
  EXPECT_NEAR(aside->gain_us, 100, 1e-6);
  std::vector<int64_t> order;
  for (const auto& o : transfer(a, kGather).overlaps)
    order.push_back(a.iteration.operations[o.op].id);
  EXPECT_THAT(order, ElementsAre(kAside, kProduce, kConsume));
}

TEST(AnalyzeTransfers, ALibraryCallGivesNothingBeforeItsEnd) {
  auto t = gather_program();
  t.trace["operations"][2]["kind"] = "gemm";
  const auto a = analysis_of(t);
  const auto* o = overlap(a, kGather, kProduce);
  ASSERT_NE(o, nullptr);
  EXPECT_DOUBLE_EQ(o->from, 1);
  EXPECT_NEAR(o->gain_us, 0, 1e-6);
}

TEST(AnalyzeTransfers, ABufferUsedAgainNeedsASecondOne) {
  TraceBuilder t(2);
  std::vector<int64_t> compute, send;
  for (int r = 0; r < 2; ++r) {
    const int kv = t.space(r, "cudaMalloc", 2048), o = t.space(r, "cudaMalloc", 2048);
    compute.push_back(t.add(r, 1, "kernel", "attend"));
    t.takes(0, 50).grid(4, 4).reads(kv, 0, 2048).writes(o, 0, 2048);
    send.push_back(t.add(r, 1, "collective", "NCCL group"));
    t.takes(50, 90).writes(kv, 0, 2048);
    t.last()["meeting"] = 0;
    t.call({{"name", "ncclRecv"},
            {"bytes", 2048},
            {"peer", 1 - r},
            {"recv", TraceBuilder::range(kv, 0, 2048)}});
  }
  const Analysis a = analysis_of(t);
  const auto* o = overlap(a, send[0], compute[0]);
  ASSERT_NE(o, nullptr);
  EXPECT_EQ(o->how, Transfer::Overlap::How::kDoubled);
  EXPECT_NEAR(o->gain_us, 40, 1e-6);
  EXPECT_TRUE(transfer(a, send[0]).readers.empty());
}

TEST(AnalyzeTransfers, WhatRunsBesideAlreadyIsNoCandidate) {
  auto t = gather_program();
  // On a stream of its own, behind nothing.
  t.trace["operations"][kAside]["stream"] = 9;
  const auto a = analysis_of(t);
  EXPECT_EQ(overlap(a, kGather, kAside), nullptr);
}

TEST(AnalyzeTransfers, KernelsThatStoreToPeersAreTransfers) {
  TraceBuilder t(2);
  std::vector<int> window;
  for (int r = 0; r < 2; ++r) window.push_back(t.space(r, "ncclMemAlloc", 4096));
  std::vector<int64_t> push, read;
  for (int r = 0; r < 2; ++r) {
    push.push_back(t.add(r, 1, "kernel", "push"));
    t.grid(2, 2).writes(window[static_cast<std::size_t>(1 - r)], 0, 4096);
    read.push_back(t.add(r, 1, "kernel", "reduce"));
    t.grid(2, 2).reads(window[static_cast<std::size_t>(r)], 0, 4096);
  }
  const Analysis a = analysis_of(t);
  ASSERT_EQ(a.transfers.size(), 2u);
  ASSERT_EQ(transfer(a, push[0]).readers.size(), 1u);
  EXPECT_EQ(a.iteration.operations[transfer(a, push[0]).readers[0].op].id, read[0]);
  // Rank 1's push began after rank 0's reduce, which waited for it.
  EXPECT_NE(edge(a, Edge::Kind::kFlow, push[1], read[0]), nullptr);
}

TEST(AnalyzeHeadroom, PiecesLieBetweenNowAndTheBound) {
  const Analysis a = analysis_of(gather_program());
  ASSERT_TRUE(a.headroom);
  const Headroom& h = *a.headroom;
  EXPECT_DOUBLE_EQ(h.now, 400);
  EXPECT_DOUBLE_EQ(h.computes, 300);
  EXPECT_DOUBLE_EQ(h.communicates, 100);
  EXPECT_DOUBLE_EQ(h.bound, 300);
  EXPECT_NEAR(h.pieces, 300, 1e-6);
  std::vector<int64_t> path;
  for (const std::size_t i : h.critical) path.push_back(a.iteration.operations[i].id);
  EXPECT_THAT(path, ElementsAre(kProduce, kGather, kConsume, kAside));
}

TEST(AnalyzeHeadroom, WithoutAnOrderThereIsNothingToWin) {
  auto t = gather_program();
  auto& ops = t.trace["operations"];
  for (const int64_t at : {kProduce, kProduce + 6}) {
    ops[static_cast<std::size_t>(at)]["kind"] = "gemm";
    ops[static_cast<std::size_t>(at)]["end_us"] = 100;
  }
  for (const int64_t at : {kConsume, kConsume + 6})
    ops[static_cast<std::size_t>(at)]["kind"] = "gemm";
  for (const int64_t at : {kAside, kAside + 6}) {
    ops[static_cast<std::size_t>(at)].erase("start_us");
    ops[static_cast<std::size_t>(at)].erase("end_us");
  }
  const auto a = analysis_of(t);
  ASSERT_TRUE(a.headroom);
  EXPECT_DOUBLE_EQ(a.headroom->now, 300);
  EXPECT_NEAR(a.headroom->pieces, 300, 1e-6);  // library calls end before anybody begins
  EXPECT_DOUBLE_EQ(a.headroom->bound, 200);
}

TEST(AnalyzeHeadroom, WhatOverlapsAlreadyIsCountedOnce) {
  TraceBuilder t(1);
  for (int i = 0; i < 2; ++i) {
    t.add(0, 1 + i, "kernel", "k");
    t.takes(0, 100).grid(1, 1);
  }
  const auto a = analysis_of(t);
  ASSERT_TRUE(a.headroom);
  EXPECT_DOUBLE_EQ(a.headroom->bound, 100);
  EXPECT_NEAR(a.headroom->pieces, 100, 1e-6);
}

TEST(AnalyzeHeadroom, NoTimesNoHeadroomAndTheReason) {
  TraceBuilder t(1);
  t.add(0, 1, "kernel", "k");
  t.trace["untimed"] = "the profile lacks measured.nccl_gbs";
  const auto a = analysis_of(t);
  EXPECT_FALSE(a.headroom);
  EXPECT_THAT(print_analysis(a, {}, 0),
              testing::HasSubstr("not predicted: the profile lacks measured.nccl_gbs"));
}

}  // namespace
}  // namespace sculler::analyze
