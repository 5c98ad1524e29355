#include <cmath>
#include <functional>

#include "emu/device/numeric.h"
#include "fixture.h"

namespace sculler::emu::test {
namespace {

class NcclTest : public DeviceTest {
 protected:
  void start(int ranks, ScheduleKind kind = ScheduleKind::kRandom, uint64_t seed = 3) {
    make(ranks, kind, seed);
    n = ranks;
    comms = communicator(ranks);
    streams.clear();
    for (int r = 0; r < n; ++r) streams.push_back(stream(r));
  }
  CollectiveRequest request(int rank, Collective kind, Address send, Address recv, uint64_t count,
                            NcclType type, int peer = 0, NcclOp op = NcclOp::kSum) {
    CollectiveRequest out;
    out.kind = kind;
    out.comm = comms[static_cast<size_t>(rank)];
    out.send = send;
    out.recv = recv;
    out.count = count;
    out.type = type;
    out.op = op;
    out.peer = peer;
    out.stream = streams[static_cast<size_t>(rank)];
    return out;
  }
  int call(int rank, const CollectiveRequest& r) {
    return machine->nccl_collective({rank}, r).error;
  }

  int n = 0;
  std::vector<CommHandle> comms;
  std::vector<StreamHandle> streams;
};

TEST_F(NcclTest, AllGatherInPlaceAndApart) {
  for (const bool in_place : {false, true}) {
    start(3);
    std::vector<Address> send, recv;
    for (int r = 0; r < n; ++r) {
      recv.push_back(device(r, 3 * 16));
      send.push_back(in_place ? recv.back() + static_cast<Address>(r) * 16 : device(r, 16));
      put<uint32_t>(r, send.back(), std::vector<uint32_t>(4, static_cast<uint32_t>(10 + r)));
      ASSERT_EQ(call(r, request(r, Collective::kAllGather, send.back(), recv.back(), 4,
                                NcclType::kUint32)),
                0);
    }
    EXPECT_EQ(drain(), Machine::Progress::kIdle) << machine->deadlock().text;
    for (int r = 0; r < n; ++r) {
      EXPECT_EQ(finish(machine->stream_synchronize({r}, streams[static_cast<size_t>(r)])), 0);
      EXPECT_EQ(get<uint32_t>(r, recv[static_cast<size_t>(r)], 12),
                (std::vector<uint32_t>{10, 10, 10, 10, 11, 11, 11, 11, 12, 12, 12, 12}));
    }
    EXPECT_EQ(recorder->races(), 0u);
  }
}

TEST_F(NcclTest, ReductionsInEveryType) {
  struct Case {
    NcclType type;
    std::function<std::vector<uint8_t>(double)> encode;
    std::function<double(const uint8_t*)> decode;
  };
  const auto plain = [](auto zero) {
    using T = decltype(zero);
    return std::pair{[](double v) {
                       const T x = static_cast<T>(v);
                       std::vector<uint8_t> bytes(sizeof x);
                       std::memcpy(bytes.data(), &x, sizeof x);
                       return bytes;
                     },
                     [](const uint8_t* p) {
                       T x;
                       std::memcpy(&x, p, sizeof x);
                       return static_cast<double>(x);
                     }};
  };
  std::vector<Case> cases;
  const auto add = [&](NcclType type, auto coders) {
    cases.push_back({type, coders.first, coders.second});
  };
  add(NcclType::kInt8, plain(int8_t{}));
  add(NcclType::kUint8, plain(uint8_t{}));
  add(NcclType::kInt32, plain(int32_t{}));
  add(NcclType::kUint32, plain(uint32_t{}));
  add(NcclType::kInt64, plain(int64_t{}));
  add(NcclType::kUint64, plain(uint64_t{}));
  add(NcclType::kFloat32, plain(float{}));
  add(NcclType::kFloat64, plain(double{}));
  add(NcclType::kFloat16,
      std::pair{[](double v) {
                  const uint16_t b = numeric::float_to_f16(static_cast<float>(v));
                  return std::vector<uint8_t>{static_cast<uint8_t>(b),
                                              static_cast<uint8_t>(b >> 8)};
                },
                [](const uint8_t* p) {
                  return static_cast<double>(
                      numeric::f16_to_float(static_cast<uint16_t>(p[0] | p[1] << 8)));
                }});
  add(NcclType::kBfloat16,
      std::pair{[](double v) {
                  const uint16_t b = numeric::float_to_bf16(static_cast<float>(v));
                  return std::vector<uint8_t>{static_cast<uint8_t>(b),
                                              static_cast<uint8_t>(b >> 8)};
                },
                [](const uint8_t* p) {
                  return static_cast<double>(
                      numeric::bf16_to_float(static_cast<uint16_t>(p[0] | p[1] << 8)));
                }});
  add(NcclType::kFloat8e4m3,
      std::pair{[](double v) {
                  return std::vector<uint8_t>{numeric::float_to_e4m3(static_cast<float>(v))};
                },
                [](const uint8_t* p) { return static_cast<double>(numeric::e4m3_to_float(*p)); }});
  add(NcclType::kFloat8e5m2,
      std::pair{[](double v) {
                  return std::vector<uint8_t>{numeric::float_to_e5m2(static_cast<float>(v))};
                },
                [](const uint8_t* p) { return static_cast<double>(numeric::e5m2_to_float(*p)); }});
  ASSERT_EQ(cases.size(), 12u);
  // Small whole numbers: exact in every type, averages included.
  const std::vector<double> inputs{2, 4, 6, 4};
  const std::vector<std::pair<NcclOp, double>> expected{
      {NcclOp::kSum, 16}, {NcclOp::kMax, 6}, {NcclOp::kMin, 2}, {NcclOp::kAvg, 4}};
  for (const Case& c : cases) {
    for (const auto& [op, want] : expected) {
      start(4);
      std::vector<Address> buffers;
      for (int r = 0; r < n; ++r) {
        buffers.push_back(device(r, 64));
        put<uint8_t>(r, buffers.back(), c.encode(inputs[static_cast<size_t>(r)]));
        ASSERT_EQ(call(r, request(r, Collective::kAllReduce, buffers.back(), buffers.back(), 1,
                                  c.type, 0, op)),
                  0);
      }
      drain();
      for (int r = 0; r < n; ++r) {
        const auto bytes = get<uint8_t>(r, buffers[static_cast<size_t>(r)], c.encode(0).size());
        EXPECT_EQ(c.decode(bytes.data()), want)
            << static_cast<int>(c.type) << " op " << static_cast<int>(op);
      }
    }
  }
}

TEST_F(NcclTest, ProductAndIntegerWrap) {
  start(2);
  const Address a = device(0, 16);
  const Address b = device(1, 16);
  put<int32_t>(0, a, {3, 2147483647});
  put<int32_t>(1, b, {-5, 2});
  ASSERT_EQ(
      call(0, request(0, Collective::kAllReduce, a, a, 2, NcclType::kInt32, 0, NcclOp::kProd)), 0);
  ASSERT_EQ(
      call(1, request(1, Collective::kAllReduce, b, b, 2, NcclType::kInt32, 0, NcclOp::kProd)), 0);
  drain();
  EXPECT_EQ(get<int32_t>(0, a, 2), (std::vector<int32_t>{-15, -2}));
}

TEST_F(NcclTest, ReduceScatterBroadcastReduce) {
  start(2);
  std::vector<Address> in, out;
  for (int r = 0; r < 2; ++r) {
    in.push_back(device(r, 64));
    out.push_back(device(r, 64));
    put<float>(r, in[static_cast<size_t>(r)], {1.0f + static_cast<float>(r), 2, 3, 4});
    put<float>(r, out[static_cast<size_t>(r)], {0, 0, 0, 0});
    ASSERT_EQ(call(r, request(r, Collective::kReduceScatter, in.back(), out.back(), 2,
                              NcclType::kFloat32)),
              0);
  }
  drain();
  EXPECT_EQ(get<float>(0, out[0], 2), (std::vector<float>{3, 4}));
  EXPECT_EQ(get<float>(1, out[1], 2), (std::vector<float>{6, 8}));
  for (int r = 0; r < 2; ++r) {
    const auto i = static_cast<size_t>(r);
    ASSERT_EQ(call(r, request(r, Collective::kBroadcast, in[i], out[i], 4, NcclType::kFloat32, 1)),
              0);
  }
  drain();
  EXPECT_EQ(get<float>(0, out[0], 4), (std::vector<float>{2, 2, 3, 4}));
  for (int r = 0; r < 2; ++r) {
    const auto i = static_cast<size_t>(r);
    ASSERT_EQ(call(r, request(r, Collective::kReduce, in[i], out[i], 4, NcclType::kFloat32, 0)), 0);
  }
  drain();
  EXPECT_EQ(get<float>(0, out[0], 4), (std::vector<float>{3, 4, 6, 8}));
  EXPECT_EQ(get<float>(1, out[1], 4), (std::vector<float>{2, 2, 3, 4}));  // not the root: untouched
}

TEST_F(NcclTest, SendAndReceiveInAGroup) {
  start(2);
  std::vector<Address> out, in;
  for (int r = 0; r < 2; ++r) {
    out.push_back(device(r, 16));
    in.push_back(device(r, 16));
    put<uint32_t>(r, out.back(), {static_cast<uint32_t>(r + 1), 0, 0, 0});
  }
  for (int r = 0; r < 2; ++r) {
    const auto i = static_cast<size_t>(r);
    ASSERT_EQ(machine->nccl_group_start({r}).error, 0);
    ASSERT_EQ(call(r, request(r, Collective::kSend, out[i], 0, 4, NcclType::kUint32, 1 - r)), 0);
    ASSERT_EQ(call(r, request(r, Collective::kRecv, 0, in[i], 4, NcclType::kUint32, 1 - r)), 0);
    ASSERT_EQ(machine->nccl_group_end({r}).error, 0);
  }
  EXPECT_EQ(drain(), Machine::Progress::kIdle);
  EXPECT_EQ(get<uint32_t>(0, in[0], 1)[0], 2u);
  EXPECT_EQ(get<uint32_t>(1, in[1], 1)[0], 1u);
}

TEST_F(NcclTest, SendsToEachOtherWithoutAGroupDeadlockByName) {
  start(2);
  for (int r = 0; r < 2; ++r) {
    const Address a = device(r, 16);
    put<uint32_t>(r, a, {1, 2, 3, 4});
    ASSERT_EQ(call(r, request(r, Collective::kSend, a, 0, 4, NcclType::kUint32, 1 - r)), 0);
    ASSERT_EQ(call(r, request(r, Collective::kRecv, 0, a, 4, NcclType::kUint32, 1 - r)), 0);
  }
  EXPECT_TRUE(machine->stream_synchronize({0}, streams[0]).pending());
  EXPECT_EQ(drain(), Machine::Progress::kWaiting);
  const DeadlockReport report = machine->deadlock();
  ASSERT_EQ(report.ranks.size(), 2u);
  ASSERT_EQ(report.ranks[0].streams.size(), 1u);
  EXPECT_EQ(report.ranks[0].streams[0].why,
            "ncclSend waits for rank 1, which has ncclRecv from rank 0 in stream 1 behind ncclSend "
            "to rank 0: no "
            "matching ncclRecv");
  EXPECT_EQ(report.ranks[0].hosts, std::vector<std::string>{"cudaStreamSynchronize on stream 1"});
}

TEST_F(NcclTest, AMissingRankIsNamed) {
  start(2);
  const Address a = device(0, 64);
  put<float>(0, a, {1, 2, 3, 4});
  ASSERT_EQ(call(0, request(0, Collective::kAllReduce, a, a, 4, NcclType::kFloat32)), 0);
  EXPECT_TRUE(machine->device_synchronize({0}).pending());
  EXPECT_EQ(drain(), Machine::Progress::kWaiting);
  const DeadlockReport report = machine->deadlock();
  EXPECT_EQ(report.ranks[0].streams.at(0).why,
            "ncclAllReduce waits for rank 1, which has not called it");
  EXPECT_NE(report.text.find("rank 1: host is not blocked; its streams are empty"),
            std::string::npos)
      << report.text;
  machine->drop_rank(1);
  EXPECT_EQ(machine->deadlock().ranks[0].streams.at(0).why,
            "ncclAllReduce waits for rank 1, whose process ended");
  EXPECT_TRUE(machine->nccl_comm_info({0}, comms[0])->broken);
}

TEST_F(NcclTest, MismatchesAreNamed) {
  struct Case {
    Collective kind;
    uint64_t count;
    NcclType type;
    NcclOp op;
    const char* says;
  };
  const Case cases[] = {
      {Collective::kAllGather, 4, NcclType::kFloat32, NcclOp::kSum, "ncclAllGather of 4 float32"},
      {Collective::kAllReduce, 3, NcclType::kFloat32, NcclOp::kSum, "of 3 float32"},
      {Collective::kAllReduce, 4, NcclType::kInt32, NcclOp::kSum, "of 4 int32"},
      {Collective::kAllReduce, 4, NcclType::kFloat32, NcclOp::kMax, "(max)"},
  };
  for (const Case& c : cases) {
    start(2);
    const Address a = device(0, 64);
    const Address b = device(1, 64);
    put<float>(0, a, std::vector<float>(16, 1));
    put<float>(1, b, std::vector<float>(16, 1));
    ASSERT_EQ(call(0, request(0, Collective::kAllReduce, a, a, 4, NcclType::kFloat32)), 0);
    ASSERT_EQ(call(1, request(1, c.kind, b, b + (c.kind == Collective::kAllGather ? 16 : 0),
                              c.count, c.type, 0, c.op)),
              0);
    drain();
    ASSERT_EQ(machine->faults().size(), 1u);
    EXPECT_EQ(machine->faults()[0].kind, MachineFault::Kind::kMismatch);
    EXPECT_NE(fault().find(c.says), std::string::npos) << fault();
    EXPECT_NE(fault().find("rank 0 calls"), std::string::npos);
  }
}

TEST_F(NcclTest, AWrongPlaceAndAWrongAddressAreNamed) {
  start(2);
  for (int r = 0; r < 2; ++r) {
    const Address a = device(r, 64);
    put<float>(r, a, std::vector<float>(16, 1));
    ASSERT_EQ(call(r, request(r, Collective::kAllGather, a, a + 8, 4, NcclType::kFloat32)), 0);
  }
  drain();
  EXPECT_NE(fault().find("overlap"), std::string::npos) << fault();
  start(2);
  for (int r = 0; r < 2; ++r) {
    const Address a = device(r, 64);
    put<float>(r, a, std::vector<float>(16, 1));
    ASSERT_EQ(call(r, request(r, Collective::kAllReduce, a, a, 17, NcclType::kFloat32)), 0);
  }
  drain();
  ASSERT_FALSE(machine->faults().empty());
  EXPECT_EQ(machine->faults()[0].kind, MachineFault::Kind::kBadAccess);
  EXPECT_FALSE(recorder->found.empty());
  EXPECT_EQ(machine->stream_synchronize({0}, streams[0]).error, kCudaIllegalAddress);
}

TEST_F(NcclTest, ABrokenRankFailsItsCallsAndTheOthersWait) {
  start(2);
  const Address a = device(0, 64);
  put<float>(0, a, std::vector<float>(16, 1));
  ASSERT_EQ(call(0, request(0, Collective::kAllReduce, a, a, 16, NcclType::kFloat32)), 0);
  // Rank 1 frees what it copies from.
  const Address b = device(1, 64);
  const StreamHandle other = stream(1);
  ASSERT_EQ(set32(1, b, 1, 16, other), 0);
  const Outcome freed = machine->free_async({1}, b, other);
  ASSERT_EQ(freed.error, 0);
  ASSERT_EQ(copy(1, b, b, 64, other), 0);  // still live when asked, gone when it runs
  EXPECT_EQ(finish(machine->stream_synchronize({1}, other)), kCudaIllegalAddress);
  EXPECT_EQ(machine->sticky_error(1), kCudaIllegalAddress);
  EXPECT_EQ(machine->sticky_error(0), 0);
  EXPECT_EQ(call(1, request(1, Collective::kAllReduce, b, b, 16, NcclType::kFloat32)),
            kNcclUnhandledCudaError);
  EXPECT_NE(machine->deadlock().text.find("rank 1, whose context is broken"), std::string::npos)
      << machine->deadlock().text;
}

TEST_F(NcclTest, OutputsAreAfterAllInputs) {
  // Rank 1 overwrites its input after its own all-gather is over: no race with the peers' reads of
  // it.
  start(2);
  std::vector<Address> in, out;
  for (int r = 0; r < 2; ++r) {
    in.push_back(device(r, 16));
    out.push_back(device(r, 32));
    ASSERT_EQ(set32(r, in.back(), 1, 4, streams[static_cast<size_t>(r)]), 0);
    ASSERT_EQ(
        call(r, request(r, Collective::kAllGather, in.back(), out.back(), 4, NcclType::kUint32)),
        0);
    ASSERT_EQ(set32(r, in.back(), 2, 4, streams[static_cast<size_t>(r)]), 0);
  }
  drain();
  EXPECT_EQ(get<uint32_t>(0, out[0], 8), std::vector<uint32_t>(8, 1));
  size_t racing_host = recorder->races();  // the harness' own read above is not ordered
  start(2);
  EXPECT_EQ(racing_host, 1u);
}

TEST_F(NcclTest, OneCommunicatorsCallsKeepTheirOrderAcrossStreams) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    start(2, ScheduleKind::kRandom, seed);
    std::vector<Address> a;
    for (int r = 0; r < 2; ++r) {
      a.push_back(device(r, 64));
      put<uint32_t>(r, a.back(), std::vector<uint32_t>(16, 1));
      const StreamHandle side = stream(r);
      for (int i = 0; i < 4; ++i) {
        auto q = request(r, Collective::kAllReduce, a.back(), a.back(), 4, NcclType::kUint32);
        if (i % 2 == (r == 0 ? 0 : 1))
          q.stream = side;  // crossed over: only the order of calls can match them
        ASSERT_EQ(call(r, q), 0);
      }
    }
    EXPECT_EQ(drain(), Machine::Progress::kIdle) << machine->deadlock().text;
    EXPECT_EQ(get<uint32_t>(0, a[0], 1)[0], 16u);
  }
}

TEST_F(NcclTest, SplitMakesIndependentCommunicators) {
  start(4);
  std::vector<CommHandle> halves(4);
  Outcome last;
  for (int r = 0; r < 4; ++r) {
    last = machine->nccl_comm_split({r}, comms[static_cast<size_t>(r)], r % 2, -r,
                                    &halves[static_cast<size_t>(r)]);
  }
  EXPECT_FALSE(last.pending());
  EXPECT_EQ(machine->take_completions().size(), 3u);
  const CommInfo* info = machine->nccl_comm_info({0}, halves[0]);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->world, (std::vector<int>{2, 0}));  // by key
  EXPECT_EQ(info->rank, 1);
  comms = halves;
  const Address a = device(0, 16);
  const Address b = device(2, 16);
  put<int32_t>(0, a, {1, 1, 1, 1});
  put<int32_t>(2, b, {2, 2, 2, 2});
  ASSERT_EQ(call(0, request(0, Collective::kAllReduce, a, a, 4, NcclType::kInt32)), 0);
  ASSERT_EQ(call(2, request(2, Collective::kAllReduce, b, b, 4, NcclType::kInt32)), 0);
  EXPECT_EQ(drain(), Machine::Progress::kIdle);
  EXPECT_EQ(get<int32_t>(2, b, 1)[0], 3);
}

TEST_F(NcclTest, WindowsNeedSymmetricOffsets) {
  start(2);
  Address handle[2];
  Address memory[2] = {window_memory(0, 8192), window_memory(1, 8192)};
  ASSERT_TRUE(
      machine->nccl_window_register({0}, comms[0], memory[0], 8192, 1, 64, &handle[0]).pending());
  ASSERT_EQ(machine->nccl_window_register({1}, comms[1], memory[1], 8192, 1, 64, &handle[1]).error,
            0);
  ASSERT_EQ(machine->take_completions().size(), 1u);
  const WindowInfo* info = machine->nccl_window_info({1}, handle[1]);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->flat_base + static_cast<uint64_t>(info->rank) * info->stride, memory[1]);
  EXPECT_EQ(info->stride % (uint64_t{4} << 30), 0u);
  EXPECT_EQ(copy(0, memory[1], memory[0], 16, streams[0]),
            0);  // a peer's window is an ordinary pointer
  drain();
  EXPECT_TRUE(machine->faults().empty()) << fault();
  EXPECT_EQ(machine->nccl_window_deregister({1}, comms[1], handle[1]).error, 0);

  window_memory(0, 4096);  // rank 0 alone: what follows lies elsewhere
  Address uneven[2] = {window_memory(0, 4096), window_memory(1, 4096)};
  EXPECT_TRUE(
      machine->nccl_window_register({0}, comms[0], uneven[0], 4096, 1, 64, &handle[0]).pending());
  EXPECT_EQ(machine->nccl_window_register({1}, comms[1], uneven[1], 4096, 1, 64, &handle[1]).error,
            kNcclInvalidUsage);
  EXPECT_NE(machine->explain(1).find("offset"), std::string::npos);
  const Address plain = device(0, 4096);
  EXPECT_EQ(machine->nccl_window_register({0}, comms[0], plain, 4096, 1, 64, &handle[0]).error,
            kNcclInvalidArgument);
}

TEST_F(NcclTest, SymmetricKernelsAreKnownFromOthers) {
  start(2);
  Address memory[2], handle[2];
  for (int r = 0; r < 2; ++r) {
    memory[r] = window_memory(r, 8192);
    put<float>(r, memory[r], std::vector<float>(2048, 1));
    ASSERT_EQ(machine
                  ->nccl_window_register({r}, comms[static_cast<size_t>(r)], memory[r], 8192, 1, 64,
                                         &handle[r])
                  .error,
              0);
  }
  machine->take_completions();
  for (int r = 0; r < 2; ++r) {
    const Address m = memory[r];
    const Address plain = device(r, 64);
    ASSERT_EQ(call(r, request(r, Collective::kAllReduce, m, m, 16, NcclType::kFloat32)), 0);
    ASSERT_EQ(call(r, request(r, Collective::kAllReduce, m, plain, 16, NcclType::kFloat32)), 0);
    ASSERT_EQ(call(r, request(r, Collective::kBroadcast, m, m, 16, NcclType::kFloat32)), 0);
  }
  EXPECT_EQ(drain(), Machine::Progress::kIdle);
  std::vector<bool> symmetric;
  for (const TraceOp& op : machine->trace().ops) {
    if (op.rank == 0 && op.kind == OpKind::kCollective) symmetric.push_back(op.symmetric);
  }
  EXPECT_EQ(symmetric, (std::vector<bool>{true, false, false}));
}

TEST_F(NcclTest, MemoryOfAPeerIsOutOfReachWithoutAWindow) {
  start(2);
  const Address a = device(0, 64);
  const Address b = device(1, 64);
  ASSERT_EQ(copy(0, b, a, 64, streams[0]), 0);
  drain();
  ASSERT_EQ(machine->faults().size(), 1u);
  EXPECT_EQ(machine->faults()[0].rank, 0);
}

TEST_F(NcclTest, DeviceCommunicatorsHaveZeroedResources) {
  start(2);
  Address window[2];
  EXPECT_TRUE(machine->nccl_dev_comm_create({0}, comms[0], 1024, 64, {}, &window[0]).pending());
  EXPECT_EQ(machine->nccl_dev_comm_create({1}, comms[1], 1024, 64, {}, &window[1]).error, 0);
  const WindowInfo* info = machine->nccl_window_info({0}, window[0]);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(get<uint8_t>(0, info->pointer, 1024), std::vector<uint8_t>(1024, 0));
  const std::vector<uint8_t> bytes(64, 7);
  EXPECT_TRUE(machine->write_internal(0, window[0], bytes.data(), bytes.size()));
  EXPECT_FALSE(machine->write_internal(0, window[0], bytes.data(), 65));
  EXPECT_FALSE(machine->write_internal(1, window[0], bytes.data(), 64));
  EXPECT_EQ(machine->nccl_dev_comm_destroy({0}, comms[0], window[0]).error, 0);
}

TEST_F(NcclTest, GroupsHoldSetUpCallsTogether) {
  make(2);
  const auto id = machine->nccl_unique_id({0});
  CommHandle comm[2];
  EXPECT_EQ(machine->nccl_group_start({0}).error, 0);
  EXPECT_FALSE(machine->nccl_comm_init({0}, 2, id, 0, &comm[0]).pending());
  const Outcome end = machine->nccl_group_end({0});
  EXPECT_TRUE(end.pending());
  EXPECT_EQ(machine->nccl_comm_info({0}, comm[0]), nullptr);
  EXPECT_EQ(machine->nccl_comm_init({1}, 2, id, 1, &comm[1]).error, 0);
  EXPECT_EQ(finish(end), 0);
  EXPECT_EQ(machine->nccl_comm_info({0}, comm[0])->n_ranks, 2);
  EXPECT_EQ(machine->nccl_comm_init({1}, 3, id, 1, &comm[1]).error, kNcclInvalidArgument);
  EXPECT_EQ(machine->nccl_group_end({0}).error, kNcclInvalidUsage);
}

}  // namespace
}  // namespace sculler::emu::test
